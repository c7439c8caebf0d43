"""One measured run of Quix Streams, in an environment that has neither streamlet nor its needs.

``python -m bench.peers.quix_app wordcount|passthrough|window --bootstrap … --source … --output …
--state … --total … --preload …`` stops when it has seen ``--total`` records, of which the first
``--preload`` are not measured. The clock ends with its orderly stop, as that of streamlet.
"""

from __future__ import annotations

import argparse
import logging
from typing import Any

from quixstreams import Application  # type: ignore[import-not-found, unused-ignore]
from quixstreams.dataframe.windows import Count  # type: ignore[import-not-found, unused-ignore]
from quixstreams.models import Serializer  # type: ignore[import-not-found, unused-ignore]

from bench.span import Span


def main() -> None:
    options = _parse()
    logging.getLogger("quixstreams").setLevel(logging.ERROR)
    span, seen = Span(), 0

    def processed(topic: str, partition: int, offset: int) -> None:
        nonlocal seen
        seen += 1
        if seen == options.preload + 1:
            span.start(options.preload)
        if seen == options.total:
            app.stop()

    app = Application(
        broker_address=options.bootstrap,
        consumer_group=options.output,
        auto_offset_reset="earliest",
        state_dir=options.state,
        loglevel=None,
        commit_interval=1.0,
        on_message_processed=processed,
        consumer_extra_config={"log_level": 0, "fetch.queue.backoff.ms": 5},
        producer_extra_config={"log_level": 3, "enable.idempotence": True},
    )
    _build(app, options)
    app.run()
    span.end()
    span.report(seen)


def _build(app: Any, options: argparse.Namespace) -> None:
    """The application of a workload, as its users would write it."""
    plain = {"key_deserializer": "bytes", "value_deserializer": "bytes"}
    if options.workload == "wordcount":
        records = app.dataframe(app.topic(options.source))
        records.apply(_counted, stateful=True).to_topic(app.topic(options.output))
        return
    records = app.dataframe(app.topic(options.source, **plain))
    if options.workload == "window":
        windows = records.tumbling_window(options.size, grace_ms=options.grace)
        counts = windows.agg(count=Count()).current().apply(_as_java, metadata=True)
        output = app.topic(options.output, key_serializer="bytes", value_serializer=Second())
        counts.to_topic(output, key=lambda update: update[0])
        return
    records.to_topic(app.topic(options.output, key_serializer="bytes", value_serializer="bytes"))


class Second(Serializer):  # type: ignore[misc, unused-ignore]
    """Writes the second of a pair, as it is."""

    def __call__(self, value: tuple[bytes, bytes], ctx: Any) -> bytes:
        return value[1]


def _counted(record: dict[str, Any], state: Any) -> dict[str, Any]:
    count = state.get("count", 0) + 1
    state.set("count", count)
    return {"word": record["word"], "count": count}


def _as_java(update: dict[str, int], key: bytes, at_ms: int, headers: Any) -> Any:
    """Key and count of a window as Java's serdes write them."""
    return key + update["start"].to_bytes(8, "big"), update["count"].to_bytes(8, "big")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=["wordcount", "passthrough", "window"])
    for name in ("bootstrap", "source", "output", "state"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("total", "preload", "size", "grace"):
        parser.add_argument(f"--{name}", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
