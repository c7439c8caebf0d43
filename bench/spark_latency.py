"""From a record's time to that of the update it causes, while records come at a steady rate.

The n-th update of a word is that of its n-th record, so updates need not carry a time: the broker
notes when it took them.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import Counter
from typing import TYPE_CHECKING

import orjson

from bench.broker import read_all
from bench.load import fast_producer, flushed, key
from bench.processes import MeasurementError
from bench.spark_topics import LIVE, OUTPUT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RATE = 2_000
_WORDS = 1_000
#: Records of the first seconds do not count: the query's first batches are slow.
_WARM_UP_S = 5


def measure(spark: SparkSession, bootstrap: str, seconds: int) -> dict[str, int | None]:
    """Median and 99th percentile, ms, over so many seconds behind those of warming up.

    Raises:
        MeasurementError: updates are missing.
    """
    import streamlet as sl

    with tempfile.TemporaryDirectory(prefix="bench-spark-") as checkpoint:
        query = sl.spark.start(
            "bench.spark_app:live",
            spark,
            checkpoint=checkpoint,
            trigger="1ms",
            bootstrap_servers=bootstrap,
        )
        try:
            count = _send(bootstrap, _RATE * (_WARM_UP_S + seconds))
            query.processAllAvailable()
        finally:
            query.stop()
    waits = _waits(bootstrap, count)
    return {
        "p50": round(statistics.median(waits)),
        "p99": round(statistics.quantiles(waits, n=100)[98]),
    }


def _send(bootstrap: str, count: int) -> int:
    """Send records at a steady rate; how many."""
    producer = fast_producer(bootstrap, linger_ms=2)
    began, sent = time.monotonic(), 0
    while sent < count:
        due = min(count, int((time.monotonic() - began) * _RATE))
        for number in range(sent, due):
            word = key(number % _WORDS)
            producer.produce(LIVE, b'{"word": "%s"}' % word, word)
        sent = max(sent, due)
        producer.poll(0.002)
    flushed(producer)
    return sent


def _waits(bootstrap: str, count: int) -> list[int]:
    """From record to update, ms, of every record behind the first seconds."""
    came: dict[tuple[bytes, int], int] = {}
    seen: Counter[bytes] = Counter()
    for batch in read_all(bootstrap, LIVE):
        for message in batch:
            word = message.key() or b""
            seen[word] += 1
            came[word, seen[word]] = message.timestamp()[1]
    written = {
        (message.key() or b"", orjson.loads(message.value() or b"")["count"]): message.timestamp()[
            1
        ]
        for batch in read_all(bootstrap, OUTPUT)
        for message in batch
    }
    if len(came) != count or came.keys() != written.keys():
        raise MeasurementError(f"{count} records were sent, {len(written)} updates were written")
    from_ms = min(came.values()) + _WARM_UP_S * 1000
    return [written[which] - at for which, at in came.items() if at >= from_ms]
