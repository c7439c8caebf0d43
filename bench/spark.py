"""Word count in Spark: streamlet's tasks beside other ways, on the same input in one session.

The rate of a way is the median over the batches behind the first of all rounds, for the first has
to start workers and to warm up code. Batches of three sizes show what a batch costs, and what each
of its records adds: rates are of those of the middle size, which read the whole topic.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import orjson

from bench import rounds
from bench.broker import Topics, read_all, serving
from bench.check import check_passthrough, check_wordcount
from bench.load import expected_counts, load
from bench.processes import MeasurementError
from bench.spark_connector import connector_jars
from bench.spark_fit import Cost
from bench.spark_topics import LIVE, OUTPUT, SOURCE_VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamlet.spark.progress import BatchProgress

#: Ways whose cost is shown by batch and by record.
_FITTED = ("passthrough", "tasks")
#: Of batches of the smallest size so many are run, behind the first.
SMALL_BATCHES = 12
#: A source deals the records of a batch out over its partitions and rounds down; without some more
#: than a share, the last few would be a batch of their own, and count as one.
_ROUNDING = 100
_TIMEOUT_S = 600


def run(
    *,
    records: int,
    keys: int,
    runs: int,
    ways: Sequence[str],
    seconds: int,
    batches: Sequence[int],
    small_batches: int = SMALL_BATCHES,
) -> dict[str, Any]:
    """Measure; the result as it is printed.

    ``batches`` are three sizes, the smallest first; of that so many ``small_batches`` are run.
    ``seconds`` is how long the latency is measured; 0: not at all, and the result has nulls.

    Raises:
        MeasurementError: a query failed or did not end.
    """
    with serving() as bootstrap:
        rounds.tell(f"loading {records:,} records with {keys:,} keys")
        source = load(bootstrap, records, keys)
        os.environ[SOURCE_VARIABLE] = source
        with _session() as spark:
            done: dict[str, list[BatchProgress]] = {way: [] for way in ways}
            others: dict[str, list[BatchProgress]] = {way: [] for way in ways if way in _FITTED}
            wrongs = []
            small, middle, large = batches
            for turn in range(runs):
                for way in ways:
                    with _topics(bootstrap, OUTPUT):
                        found = _measured(spark, bootstrap, way, middle)
                        wrong = _wrong(bootstrap, source, way, records, keys)
                    done[way] += found
                    wrongs += [wrong] if wrong else []
                    told = "  ".join(f"{one.records_per_second:>9,.0f}" for one in found)
                    rounds.tell(f"round {turn + 1}/{runs}  {way:<12} {told}  {wrong or 'right'}")
                for way in others:
                    with _topics(bootstrap, OUTPUT):
                        others[way] += _measured(spark, bootstrap, way, small, small_batches)
                    with _topics(bootstrap, OUTPUT):
                        others[way] += _measured(spark, bootstrap, way, large)
            result = summary(done, others)
            result["batches"] = list(batches)
            result["latency_ms"] = _latency(spark, bootstrap, seconds)
    return {**result, "right": not wrongs}


def summary(
    done: Mapping[str, Sequence[BatchProgress]], others: Mapping[str, Sequence[BatchProgress]]
) -> dict[str, Any]:
    """Rates, ratios of the tasks to other ways, and the lines through batches of all sizes.

    Args:
        done: batches of the middle size, by way.
        others: those of other sizes.
    """
    rates = {
        way: round(statistics.median(one.records_per_second for one in found))
        for way, found in done.items()
    }
    ratios = {
        f"tasks_to_{way}": round(rates["tasks"] / rates[way], 2)
        for way in ("passthrough", "tws_per_key")
        if "tasks" in rates and way in rates
    }
    fit = {
        way: Cost.of([(one.records, one.took_ms) for one in (*done[way], *found)]).summary()
        for way, found in others.items()
    }
    return {**rates, **ratios, "fit": fit}


@contextmanager
def _session() -> Iterator[SparkSession]:
    import streamlet as sl
    from streamlet.spark.cluster.gateway import short_errors

    spark = sl.spark.session(
        "bench",
        master="local[2,4]",
        jars=connector_jars(),
        config={"spark.driver.memory": "3g", "spark.sql.shuffle.partitions": "2"},
    )
    try:
        with short_errors():  # later there is no JVM that has the text of an error
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


def _measured(
    spark: SparkSession, bootstrap: str, way: str, size: int, most: int | None = None
) -> list[BatchProgress]:
    """All batches of a size but the first, or about so many."""
    from bench.spark_ways import WAYS
    from streamlet.spark.progress import follow

    done: list[BatchProgress] = []
    until = time.monotonic() + _TIMEOUT_S

    def going() -> bool:
        if time.monotonic() > until:
            raise MeasurementError(f"{way} did not end in {_TIMEOUT_S} s")
        return most is None or len(done) <= most

    with tempfile.TemporaryDirectory(prefix="bench-spark-") as checkpoint:
        query = WAYS[way](spark, bootstrap, checkpoint, size + _ROUNDING)
        try:
            follow(query, done.append, keep_going=going)
        finally:
            query.stop()
    counted = [one for one in done if one.records][1:]
    if not counted:
        raise MeasurementError(f"{way} had no second batch of {size} records")
    return counted


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
