"""The application whose outputs are compared with Kafka Streams' (``Exact.java`` beside it).

``python -m bench.peers.exact_app --bootstrap … --source … --rows … --output … --state … --size …
--grace …`` runs it until SIGTERM.
"""

from __future__ import annotations

import argparse
import signal

import streamlet as sl


def build(options: argparse.Namespace) -> sl.App:
    """Counts, counts in windows and a join with a table, each update written."""
    config = {
        "bootstrap.servers": options.bootstrap,
        "state.dir": options.state,
        "processing.guarantee": "exactly_once",
        "commit.interval.ms": 100,
        "session.timeout.ms": 6_000,
    }
    app = sl.App(options.output, config=config)
    records = app.stream(options.source, key=str, value=str)
    words = records.group_by_key()
    words.count(store="counts").to_stream().to(f"{options.output}-counts")
    windows = words.windowed_by(sl.tumbling(options.size, grace=options.grace))
    windows.count(store="windows").to_stream().to(f"{options.output}-windows")
    rows = app.table(options.rows, key=str, value=str)
    records.join(rows, lambda value, row: f"{value}/{row}").to(f"{options.output}-joined")
    return app


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "source", "rows", "output", "state"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("size", "grace"):
        parser.add_argument(f"--{name}", required=True, type=int)
    app = build(parser.parse_args())
    signal.signal(signal.SIGTERM, lambda number, frame: app.close())
    app.run()


if __name__ == "__main__":
    main()
