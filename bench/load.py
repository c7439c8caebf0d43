"""Input of the benchmarks: JSON records of about 105 bytes, keyed by word.

Every key is there once, the others follow Zipf's law with s = 1, in an order that is the same in
each run: what an application must make of them can be computed without reading them.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from confluent_kafka import Producer

from bench.broker import PARTITIONS, Topics

#: A record to send: topic, value, key, time (ms since the epoch; 0: now).
Sent: TypeAlias = tuple[str, bytes, bytes, int]

_SEED = 7


def words(records: int, keys: int) -> list[int]:
    """The word of each record, as a number below ``keys``."""
    rng = random.Random(_SEED)
    weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(keys)))
    chosen = list(range(keys))
    chosen += rng.choices(range(keys), cum_weights=weights, k=records - keys)
    rng.shuffle(chosen)
    return chosen


def key(word: int) -> bytes:
    """A word as the records have it."""
    return b"word%07d" % word


def expected_counts(records: int, keys: int) -> dict[bytes, int]:
    """How often each word is in the input."""
    return {key(word): count for word, count in Counter(words(records, keys)).items()}


def load(bootstrap: str, records: int, keys: int, partitions: int = PARTITIONS) -> str:
    """Fill the input topic unless a run before has; its name."""
    topic = f"bench-in-{records}-{keys}" + (f"-{partitions}" if partitions != PARTITIONS else "")
    start_ms = time.time_ns() // 1_000_000 - records

    def rows() -> Iterator[Sent]:
        pad = b"x" * 33
        for index, word in enumerate(words(records, keys)):
            text, at_ms = key(word), start_ms + index
            value = b'{"word": "%s", "n": %d, "ts": %d, "pad": "%s"}' % (text, index, at_ms, pad)
            yield topic, value, text, at_ms

    fill(bootstrap, (topic,), records, rows(), partitions)
    return topic


def fill(
    bootstrap: str,
    names: Sequence[str],
    count: int,
    records: Iterable[Sent],
    partitions: int = PARTITIONS,
) -> None:
    """Fill topics unless a run before has, which left so many records in them."""
    topics = Topics(bootstrap, partitions)
    if sum(map(topics.count, names)) != count:
        topics.delete(lambda name: name in names)
        for topic in names:
            topics.create(topic)
        send_all(bootstrap, records)


def send_all(bootstrap: str, records: Iterable[Sent]) -> None:
    """Write records as fast as the broker takes them, and wait until it has."""
    producer = fast_producer(bootstrap)
    for index, (topic, value, word, at_ms) in enumerate(records):
        producer.produce(topic, value, word, timestamp=at_ms)
        if index % 10_000 == 0:
            producer.poll(0)
    flushed(producer)


def fast_producer(bootstrap: str, linger_ms: int = 50) -> Producer:
    """A producer that takes everything at once and puts keys on Java's partitions."""
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": linger_ms,
            "queue.buffering.max.messages": 10_000_000,
            "queue.buffering.max.kbytes": 2_000_000,
            "partitioner": "murmur2_random",
            "log_level": 3,
        }
    )


def flushed(producer: Producer) -> None:
    """Wait until everything is delivered.

    Raises:
        RuntimeError: something is not, within two minutes.
    """
    left = producer.flush(120)
    if left:
        raise RuntimeError(f"{left} input records were not delivered")
