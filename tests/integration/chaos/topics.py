"""Load with known contents, and what topics hold afterwards."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Iterable
from types import TracebackType
from typing import Self

import attrs
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as RawPartition

from streamlet.errors import UnreachableError
from streamlet.kafka.broker_loss import BrokerLossDetector
from streamlet.kafka.client import KafkaAdmin
from streamlet.types import TopicPartition

#: Of a load where tasks are to move, not to be busy: once in the interval of commits.
SLOW_BEAT_S = 0.2
#: Sixty seconds without a record before a topic's end means that the broker is gone.
SILENCE_S = 60.0
_PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)


@attrs.frozen
class Record:
    """One record as a consumer sees it; ``at_ms`` is its timestamp."""

    partition: int
    offset: int
    key: bytes
    value: bytes | None
    at_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def number(self) -> int:
        """The value as an int serde wrote it, behind the prefix if there is one."""
        assert self.value is not None
        return int.from_bytes(self.value[-8:], "big", signed=True)


class Load:
    """Produces records of ``k0`` to ``k<keys-1>`` with values 0, 1, 2, …, from a thread.

    ``produced`` is what is in the topic once the load has ended; a broker that is away for a while
    only delays it, also where librdkafka never looks for it again (see
    ``streamlet.kafka.broker_loss``). Then another producer goes on, and the broker may have taken
    some records of the first one later: those are in the topic twice, and counted twice.

    Their timestamps are the times at which they are produced; with ``old_ms`` those of one in a
    hundred are so much lower. Each beat costs the broker requests for every partition, of producer,
    workers and their outputs: ten a second cost it and the workers a third less than twenty, at any
    rate. Where windows are shorter than that, the beats are, too.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        keys: int = 200,
        rate: int = 2_000,
        seed: int = 0,
        old_ms: int = 0,
        beat_s: float = 0.1,
    ) -> None:
        self.produced: Counter[str] = Counter()
        self._topic = topic
        self._names = [f"k{i}" for i in range(keys)]
        self._rate = rate
        self._old_ms = old_ms
        self._beat_s = beat_s
        self._random = random.Random(seed)
        self._number = 0
        self._failed: list[str] = []
        self._delivered: dict[tuple[int, int], int] = {}
        #: Names by number of what is not known to be in the topic.
        self._waiting: dict[int, str] = {}
        self._replaced = False
        #: Another producer is to go on, which waits until it is known what is in the topic.
        self._unread = False
        self._ended = threading.Event()
        self._servers = servers
        self._producer = self._open()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def total(self) -> int:
        """Records produced so far."""
        return self._number

    def send(self, count: int) -> None:
        """Produce so many now."""
        for name in self._random.choices(self._names, k=count):
            self._waiting[self._number] = name
            if not self._unread:
                self._produce(self._number, name)
            self._number += 1
            self.produced[name] += 1
        self._producer.poll(0)
        self._go_on_with_another()

    def _open(self) -> Producer:
        self._alone = BrokerLossDetector()
        return Producer(
            {
                "bootstrap.servers": self._servers,
                "enable.idempotence": True,
                "message.timeout.ms": 300_000,
                "linger.ms": 5,
                "partitioner": "murmur2_random",
                "on_delivery": self._told,
                "error_cb": self._alone,
                "logger": _quiet(),
            }
        )

    def _produce(self, number: int, name: str) -> None:
        old = self._old_ms if number % 100 == 99 else 0
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    number.to_bytes(8, "big", signed=True),
                    name.encode(),
                    timestamp=int(time.time() * 1_000) - old,
                )
                return
            except BufferError:
                self._producer.poll(0.1)

    def _go_on_with_another(self) -> None:
        """Where a silent client finds no broker, send what is not in the topic from elsewhere.

        What is in the topic is read first, which brokers that come back may refuse for a while.
        """
        if not (self._unread or self._alone.lost(self._producer, self._topic)):
            return
        try:
            topic = KafkaAdmin(self._servers, timeout_ms=1_000).topics()[self._topic]
            if not self._unread:
                self._replaced = self._unread = True
                self._producer.purge()
                self._producer.poll(0)
                self._producer = self._open()
            there = read_all(self._servers, self._topic, range(topic.partitions))
        except UnreachableError:
            return  # it is away indeed
        self._unread = False
        for record in there:
            self._waiting.pop(record.number, None)
        for number, name in sorted(self._waiting.items()):
            self._produce(number, name)

    def flush(self) -> None:
        """Wait until everything produced is in the topic."""
        deadline = time.monotonic() + 300
        while (left := self._producer.flush(5)) or self._unread:
            assert time.monotonic() < deadline, f"{left or len(self._waiting)} are not delivered"
            self._go_on_with_another()
        assert self._failed == []
        assert not self._waiting

    def finish(self) -> Counter[str]:
        """End the load; what the topic holds now, by key."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self.flush()
        if self._replaced:
            self._count_again()
        return self.produced

    def _count_again(self) -> None:
        partitions = KafkaAdmin(self._servers).topics()[self._topic].partitions
        there = read_all(self._servers, self._topic, range(partitions))
        assert {record.number for record in there} == set(range(self._number))
        self.produced = Counter(record.key.decode() for record in there)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        """What became of a record; each has an offset of its own, where the broker knew it."""
        value = message.value()
        assert value is not None
        number = int.from_bytes(value, "big", signed=True)
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        if error is not None and error.code() in _PURGED:
            return
        self._waiting.pop(number, None)
        if error is not None:
            self._failed.append(f"{number}: {error}")
            return
        self._alone.heard()
        if offset is not None:
            other = self._delivered.setdefault((partition, offset), number)
            if other != number:
                self._failed.append(f"{other} and {number} have offset {partition}-{offset}")

    def _run(self) -> None:
        try:
            while not self._ended.wait(self._beat_s):
                self.send(max(1, int(self._rate * self._beat_s)))
        except BaseException as error:
            self._failed.append(f"the load ended by itself: {error!r}")
            raise

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()


def read_all(servers: str, topic: str, partitions: Iterable[int]) -> list[Record]:
    """All records of a topic up to its present end, by partition in order of offsets.

    Without those that are deleted meanwhile, as owners do in repartition topics.
    """
    tps = [TopicPartition(topic, p) for p in partitions]
    admin, consumer = KafkaAdmin(servers), reader(servers)
    starts, ends = admin.start_offsets(tps), admin.end_offsets(tps)
    try:
        left = {tp: end for tp, end in ends.items() if end > starts[tp]}
        consumer.assign([RawPartition(tp.topic, tp.partition, starts[tp]) for tp in left])
        found: list[Record] = []
        heard = time.monotonic()
        while left:
            records = read_records(consumer, 1.0, most=1)
            if not records:
                read = consumer.position([RawPartition(tp.topic, tp.partition) for tp in left])
                past = {TopicPartition(p.topic, p.partition): p.offset for p in read}
                left = {tp: end for tp, end in left.items() if past[tp] < end}  # markers end it
                starts = admin.start_offsets([*left])
                left = {tp: end for tp, end in left.items() if end > starts[tp]}
                silence = time.monotonic() - heard
                assert silence < SILENCE_S, f"nothing more of {topic}, though it goes on to {left}"
                continue
            heard = time.monotonic()
            records += read_records(consumer, 0.05)
            for record in records:
                tp = TopicPartition(topic, record.partition)
                if tp in left and record.offset + 1 >= left[tp]:
                    del left[tp]
            found += [r for r in records if r.offset < ends[TopicPartition(topic, r.partition)]]
    finally:
        consumer.close()
    return sorted(found, key=lambda record: (record.partition, record.offset))


def last_numbers(records: Iterable[Record]) -> dict[str, int]:
    """The last value of each key."""
    return {record.key.decode(): record.number for record in records}


def read_records(consumer: Consumer, timeout_s: float, most: int = 10_000) -> list[Record]:
    """What comes next, as far as it comes in time."""
    messages = consumer.consume(most, timeout_s)
    good = [message for message in messages if message.error() is None]
    return [
        Record(
            m.partition(),
            m.offset(),
            m.key(),
            m.value(),
            m.timestamp()[1],
            tuple(m.headers() or ()),
        )
        for m in good
    ]


def reader(servers: str) -> Consumer:
    """A consumer of committed records, which is to be assigned partitions."""
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "chaos-reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.queue.backoff.ms": 5,
            "logger": _quiet(),
        }
    )


def _quiet() -> object:
    return logging.getLogger("chaos.clients")
