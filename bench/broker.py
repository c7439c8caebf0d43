"""The broker a benchmark runs against, and the topics it makes there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaException, Message
from confluent_kafka import TopicPartition as RawPartition

from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.testing import KafkaBroker
from streamlet.types import TopicPartition

#: Partitions of every topic of a benchmark.
PARTITIONS = 4
#: How long a coordinator may take to be there, and when it is asked again, s.
_COORDINATOR_S, _AGAIN_S = 60.0, 0.1


@contextmanager
def serving() -> Iterator[str]:
    """``host:port``: the broker of ``BENCH_BOOTSTRAP``, else one that lives as long as the block.

    The group's first rebalance waits half a second, so that workers that start together share the
    partitions from the first record on.
    """
    given = os.environ.get("BENCH_BOOTSTRAP")
    if given:
        yield given
        return
    with KafkaBroker(properties={"group.initial.rebalance.delay.ms": "500"}) as broker:
        yield broker.bootstrap_servers


class Topics:
    """Makes and removes topics, of four partitions unless told otherwise."""

    def __init__(self, bootstrap: str, partitions: int = PARTITIONS) -> None:
        self._partitions = partitions
        self._admin = KafkaAdmin(bootstrap)

    def create(self, name: str, config: dict[str, str] | None = None) -> None:
        """Make a topic that is not there yet; records are kept for good."""
        settings = {"retention.ms": "-1", **(config or {})}
        wanted = NewTopic(name, self._partitions, 1, tuple(settings.items()))
        self._admin.create_topics([wanted])  # waits until brokers know it, too

    def delete(self, chosen: Callable[[str], bool]) -> None:
        """Remove the topics whose name is chosen."""
        self._admin.delete_topics([name for name in self._admin.topics() if chosen(name)])

    def count(self, name: str) -> int:
        """Records of a topic by its offsets; 0 when there is no such topic."""
        if name not in self._admin.topics():
            return 0
        return sum(_ends(self._admin, name, self._partitions).values())


def consumer(bootstrap: str, group: str, **config: object) -> Consumer:
    """A consumer with the settings that every benchmark shares.

    With librdkafka's default of 1000 ms a fast reader waits for the fetcher most of the time.
    """
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 5,
            "log_level": 0,
            **config,
        }
    )


def ends(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> dict[int, int]:
    """Offset behind the last record of each partition."""
    return _ends(KafkaAdmin(bootstrap), topic, partitions)


def _ends(admin: KafkaAdmin, topic: str, partitions: int) -> dict[int, int]:
    wanted = [TopicPartition(topic, partition) for partition in range(partitions)]
    return {tp.partition: end for tp, end in admin.end_offsets(wanted).items()}


def committed(bootstrap: str, group: str, topics: Sequence[str]) -> dict[tuple[str, int], int]:
    """The positions of a group by topic and partition; 0 where it has committed none.

    Raises:
        KafkaException: its coordinator does not answer within a minute.
    """
    wanted = [RawPartition(topic, part) for topic in topics for part in range(PARTITIONS)]
    asked, deadline = consumer(bootstrap, group), time.monotonic() + _COORDINATOR_S
    try:
        while True:
            try:
                found = asked.committed(wanted, timeout=_COORDINATOR_S)
            except KafkaException as error:
                # The first question has the broker make the topic of positions.
                if "COORDINATOR" not in error.args[0].name() or time.monotonic() > deadline:
                    raise
                time.sleep(_AGAIN_S)
            else:
                return {(one.topic, one.partition): max(0, one.offset) for one in found}
    finally:
        asked.close()


def read_all(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> Iterator[list[Message]]:
    """All records of a topic, by batches, up to its present end.

    Raises:
        KafkaException: a partition cannot be read.
    """
    reader = consumer(
        bootstrap,
        "bench-reader",
        **{"enable.partition.eof": True, "queued.min.messages": 1_000_000},
    )
    try:
        reader.assign([RawPartition(topic, partition, 0) for partition in range(partitions)])
        open_partitions = set(range(partitions))
        while open_partitions:
            batch = []
            for message in reader.consume(10_000, 0.2):
                error = message.error()
                if error is None:
                    batch.append(message)
                elif error.name() == "_PARTITION_EOF":
                    open_partitions.discard(message.partition() or 0)
                else:
                    raise KafkaException(error)
            yield batch
    finally:
        reader.close()
