"""``python -m examples.flights.demo_spark``: a year of flights through Spark.

A broker starts, the flights come in at a steady pace, one Structured Streaming query runs the
application of ``examples.flights.app``, unchanged, and in the end the results must be those that
pandas finds in the same data.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import pandas as pd
from pyspark.sql.streaming.query import StreamingQuery

import streamlet as sl
from examples.flights import data, expected
from examples.flights.app import app
from examples.flights.records import (
    Events,
    Playback,
    ResultReader,
    Undelivered,
    create_topics,
)
from examples.flights.screen import closed
from streamlet.errors import StreamletError
from streamlet.spark.progress import batches
from streamlet.testing import KafkaBroker

_TICK_S = 0.25
_STALLED_S = 120.0


def main() -> int:
    """0 if the results match pandas, 1 if not, 130 after Ctrl-C; else what the error says."""
    options = _parse()
    try:
        return _perform(options.flights, options.seconds)
    except Undelivered as error:
        print(error, file=sys.stderr)
        return 1
    except StreamletError as error:  # no jars to be had, no broker, no Java
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _perform(first: int | None, seconds: float) -> int:
    flights, airlines = data.load_flights(first), data.load_airlines()
    with ExitStack() as stack:
        print("starting a Kafka broker", flush=True)
        bootstrap = stack.enter_context(KafkaBroker()).bootstrap_servers
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="flights-spark-")))
        create_topics(bootstrap)
        print("starting Spark", flush=True)
        spark = sl.spark.session("flights")
        stack.callback(sl.spark.stop, spark)
        events = Events(bootstrap)
        events.send("airlines", data.airline_events(airlines))
        events.flush()
        query = sl.spark.start(
            app, spark, checkpoint=folder, trigger="1s", bootstrap_servers=bootstrap
        )
        stack.callback(query.stop)
        reader = ResultReader(bootstrap)
        stack.callback(reader.close)
        finished = _watch(flights, seconds, events, query, reader)
        query.stop()
        reader.read_to_end()
        print(closed(reader.hours), flush=True)
        wrong = expected.all_differences(reader.results, flights, airlines)
        _, named = reader.count("named-flights")
        if named != len(flights):
            wrong.append(f"named-flights has {named:,} records, expected {len(flights):,}")
        if not finished:
            wrong.append("not all flights were processed")
    print("\n".join(wrong) if wrong else "matches pandas")
    return 1 if wrong else 0


def _watch(
    flights: pd.DataFrame,
    seconds: float,
    events: Events,
    query: StreamingQuery,
    reader: ResultReader,
) -> bool:
    """Let the flights come in until all are in the results; whether they got there."""
    playback, total, shown = Playback(events, flights, seconds), len(flights), -1
    began = moved_at = time.monotonic()
    before = -1
    while reader.processed < total:
        now = time.monotonic()
        playback.play(now - began)
        reader.read()
        shown = _tell(query, shown, reader.processed, total)
        if reader.processed != before:
            before, moved_at = reader.processed, now
        elif now - moved_at > _STALLED_S or not query.isActive:
            print(f"nothing moves any more; {query.exception() or 'the query runs'}")
            return False
        time.sleep(max(0.0, now + _TICK_S - time.monotonic()))
    query.processAllAvailable()
    _tell(query, shown, reader.processed, total)
    return True


def _tell(query: StreamingQuery, shown: int, processed: int, total: int) -> int:
    """A line for each batch that was not shown yet; the last one shown."""
    for one in batches(query, shown):
        shown = one.batch
        print(
            f"batch {one.batch:3}: {one.records:7,} records in {one.took_ms / 1000:4.1f} s, "
            f"{one.records_per_second:7,.0f}/s, lag {one.lag:7,}, "
            f"state {one.state_bytes / 1024:,.0f} KiB; "
            f"{processed:,} of {total:,} flights processed",
            flush=True,
        )
    return shown


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.flights.demo_spark", description=__doc__
    )
    parser.add_argument("--flights", type=int, help="only the first so many; all by default")
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="how long the flights take to come in"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
