"""The bare loop of the latency benchmark: one consumer, one producer, written for short delays.

It takes what the consumer has as soon as the first record is there, and has what it gave sent at
once when no more are there, as a worker does. Each second it waits for delivery, and commits its
offsets. It keeps counts in a dict only, without changelog and store, so that it loses them in a
crash: a floor for the delays, not a design.

``python -m bench.bare_latency passthrough|repartition --bootstrap … --source … --output …`` runs
until its standard input ends. ``repartition`` goes through the topic ``OUTPUT-regrouped``, which it
makes.
"""

from __future__ import annotations

import argparse
import gc
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import attrs
import orjson
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from bench.bare import open_producer
from bench.broker import PARTITIONS, Topics, consumer

WORKLOADS = ("passthrough", "repartition")

_COMMIT_S = 1.0
_BATCH = 10_000
#: How long a poll waits for the first record.
_WAIT_S = 0.02
_PUSH_S = 0.001
_LINGER_MS = 2


@attrs.frozen
class Regroup:
    """Writes records to a topic under their new key, and counts by key what comes back from there.

    Args:
        producer: of both topics.
        between: the topic of the new keys.
        output: where each new count is written.
    """

    producer: Producer
    between: str
    output: str
    counts: dict[bytes, int] = attrs.field(factory=dict, init=False)

    def __call__(self, messages: list[Any]) -> None:
        """Take the next records of the input and of the topic between."""
        produce, counts, loads, dumps = (
            self.producer.produce,
            self.counts,
            orjson.loads,
            orjson.dumps,
        )
        for message in messages:
            word, value = message.key(), loads(message.value())
            if message.topic() == self.between:
                count = counts[word] = counts.get(word, 0) + 1
                update = dumps({"word": word.decode(), "count": count})
                produce(self.output, update, word, headers=message.headers())
            else:
                produce(self.between, dumps(value), word, headers=message.headers())


@attrs.frozen
class PassThrough:
    """Copies bytes."""

    producer: Producer
    output: str

    def __call__(self, messages: list[Any]) -> None:
        """Write the next records."""
        produce = self.producer.produce
        for message in messages:
            produce(self.output, message.value(), message.key(), headers=message.headers())


def run(
    reader: Consumer,
    producer: Producer,
    work: Callable[[list[Any]], None],
    keep_going: Callable[[], bool],
) -> None:
    """Run the loop, with a commit of offsets each second, as long as ``keep_going`` says."""
    commit_at, dirty, lingering = time.monotonic() + _COMMIT_S, False, False
    while keep_going():
        # A longer list is waited for as a whole.
        messages = reader.consume(1, 0 if lingering else _WAIT_S)
        if messages:
            messages += reader.consume(_BATCH - 1, 0)
            _check(messages)
            work(messages)
            producer.poll(0)
            dirty = lingering = True
        elif lingering:
            producer.flush(_PUSH_S)
            lingering = False
        if dirty and time.monotonic() >= commit_at:
            _deliver(producer)
            reader.commit(asynchronous=True)
            commit_at, dirty = time.monotonic() + _COMMIT_S, False
    _deliver(producer)
    if dirty:
        _commit_rest(reader)


def _check(messages: list[Any]) -> None:
    for message in messages:
        if message.error() is not None:
            raise KafkaException(message.error())


def _commit_rest(reader: Consumer) -> None:
    """Commit what no commit took before.

    An asynchronous commit takes the positions of the moment it is sent, which may be later than
    the one it was asked for: then nothing is left.
    """
    try:
        reader.commit(asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._NO_OFFSET:
            raise


def _deliver(producer: Producer) -> None:
    if producer.flush(60):
        raise RuntimeError("outputs were not delivered within a minute")


def main() -> None:
    options = _parse()
    failed: list[KafkaError] = []
    producer = open_producer(options.bootstrap, failed, linger_ms=_LINGER_MS)
    sources, between = [options.source], f"{options.output}-regrouped"
    if options.workload == "repartition":
        Topics(options.bootstrap).create(between)
        sources.append(between)
    for topic in (options.output, *sources):
        producer.list_topics(topic, timeout=20)
    reader = consumer(options.bootstrap, f"{options.output}-bare")
    reader.assign([TopicPartition(topic, p, 0) for topic in sources for p in range(PARTITIONS)])
    work: Callable[[list[Any]], None] = PassThrough(producer, options.output)
    if options.workload == "repartition":
        work = Regroup(producer, between, options.output)
    gc.disable()  # nothing here is left in cycles
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    run(reader, producer, work, lambda: not ended.is_set())
    if failed:
        raise RuntimeError(f"{len(failed)} deliveries failed, the first: {failed[0]}")
    reader.close()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=WORKLOADS)
    for name in ("bootstrap", "source", "output"):
        parser.add_argument(f"--{name}", required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
