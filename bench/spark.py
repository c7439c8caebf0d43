"""Word count in Spark: streamlet's tasks beside other ways, on the same input in one session.

Each way reads the topic in four batches; its rate is the median over the batches behind the first
of all rounds, for the first has to start workers and to warm up code.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import orjson

from bench import rounds
from bench.broker import Topics, read_all, serving
from bench.check import check_passthrough, check_wordcount
from bench.load import expected_counts, load
from bench.processes import MeasurementError
from bench.spark_topics import LIVE, OUTPUT, SOURCE_VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Batches that a run of a way has.
BATCHES = 4
#: A source deals the records of a batch out over its partitions and rounds down; without some more
#: than a share, the last few would be a batch of their own, and count as one.
_ROUNDING = 100
_TIMEOUT_S = 300


def run(*, records: int, keys: int, runs: int, ways: Sequence[str], seconds: int) -> dict[str, Any]:
    """Measure; the result as it is printed.

    ``seconds`` is how long the latency is measured; 0: not at all, and the result has nulls.

    Raises:
        MeasurementError: a query failed or did not end.
    """
    with serving() as bootstrap:
        rounds.tell(f"loading {records:,} records with {keys:,} keys")
        source = load(bootstrap, records, keys)
        os.environ[SOURCE_VARIABLE] = source
        with _session() as spark:
            rates: dict[str, list[float]] = {way: [] for way in ways}
            wrongs = []
            for turn in range(runs):
                for way in ways:
                    with _topics(bootstrap, OUTPUT):
                        found = _measured(spark, bootstrap, way, records)
                        wrong = _wrong(bootstrap, source, way, records, keys)
                    rates[way] += found
                    wrongs += [wrong] if wrong else []
                    told = "  ".join(f"{rate:>9,.0f}" for rate in found)
                    rounds.tell(f"round {turn + 1}/{runs}  {way:<12} {told}  {wrong or 'right'}")
            result: dict[str, Any] = {
                way: round(statistics.median(found)) for way, found in rates.items()
            }
            result["latency_ms"] = _latency(spark, bootstrap, seconds)
    return {**result, "right": not wrongs}


@contextmanager
def _session() -> Iterator[SparkSession]:
    import streamlet as sl

    spark = sl.spark.session(
        "bench",
        master="local[2,4]",
        jars=sl.spark.connector_jars(),
        config={"spark.driver.memory": "3g", "spark.sql.shuffle.partitions": "2"},
    )
    try:
        yield spark
    finally:
        sl.spark.stop(spark)


@contextmanager
def _topics(bootstrap: str, *names: str) -> Iterator[None]:
    """Empty topics, gone at the end; the broker notes when it took what lies in them."""
    topics = Topics(bootstrap)
    for name in names:
        topics.create(name, {"message.timestamp.type": "LogAppendTime"})
    try:
        yield
    finally:
        topics.delete(lambda name: name in names)


def _measured(spark: SparkSession, bootstrap: str, way: str, records: int) -> list[float]:
    """Records per second of each batch but the first."""
    from bench.spark_ways import WAYS
    from streamlet.spark.progress import batches

    with tempfile.TemporaryDirectory(prefix="bench-spark-") as checkpoint:
        query = WAYS[way](spark, bootstrap, checkpoint, -(-records // BATCHES) + _ROUNDING)
        try:
            if not query.awaitTermination(_TIMEOUT_S):
                raise MeasurementError(f"{way} did not end in {_TIMEOUT_S} s")
        finally:
            query.stop()
        done = [one for one in batches(query) if one.records]
    if sum(one.records for one in done) != records or len(done) < 2:
        raise MeasurementError(f"{way} read {sum(one.records for one in done)} of {records}")
    return [one.records_per_second for one in done[1:]]


def _wrong(bootstrap: str, source: str, way: str, records: int, keys: int) -> str:
    """What is wrong with the output; an empty text when nothing is."""
    if way == "passthrough":
        return check_passthrough(bootstrap, source, OUTPUT, records, keys)
    if way == "tasks":
        return check_wordcount(bootstrap, OUTPUT, records, keys)
    last = {
        message.key(): orjson.loads(message.value() or b"null")["count"]
        for batch in read_all(bootstrap, OUTPUT)
        for message in batch
    }
    wanted = expected_counts(records, keys)
    return "" if last == wanted else f"{len(last)} words, {len(wanted)} expected, or wrong counts"


def _latency(spark: SparkSession, bootstrap: str, seconds: int) -> dict[str, int | None]:
    from bench.spark_latency import measure

    if not seconds:
        return {"p50": None, "p99": None}
    with _topics(bootstrap, OUTPUT, LIVE):
        return measure(spark, bootstrap, seconds)
