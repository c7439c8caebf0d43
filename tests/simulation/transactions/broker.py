"""A log with transactions, the broker that ends them, and a producer that speaks to it.

The broker is of transaction version 1: of a request it looks at the producer's epoch alone, and of
positions at the member and its generation as well. A request may come long after its sender gave it
up (KIP-890). Readers of what is committed get no record of a transaction that is open or aborted,
and none behind the first that is open.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from confluent_kafka import KafkaError, KafkaException

from streamlet.coordinator.messages import Committed
from streamlet.kafka.ports import Headers
from streamlet.testing.memory_log import MemoryLog, StoredRecord
from streamlet.testing.memory_ports import MemoryAdmin
from streamlet.types import TopicPartition

OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"
_FENCED = KafkaError.INVALID_PRODUCER_EPOCH


class KilledError(BaseException):
    """The process ends amid a call."""


@attrs.define(eq=False)
class Transaction:
    """What a producer wrote between two ends, and the positions that belong to it."""

    status: str = OPEN
    begins: dict[TopicPartition, int] = attrs.field(factory=dict)
    positions: Mapping[TopicPartition, Committed] = attrs.field(factory=dict)


class Broker:
    """Topics, producers by their transactional ids, and the positions of a group.

    ``members`` are those of the present generation.
    """

    def __init__(self, log: MemoryLog) -> None:
        self.log = log
        self.positions: dict[TopicPartition, Committed] = {}
        self.generation, self.members = 1, {"a"}
        self._epochs: dict[str, int] = {}
        self._open: dict[str, Transaction] = {}
        self._of: dict[tuple[TopicPartition, int], Transaction] = {}
        #: Requests that have not arrived yet.
        self.late: list[Callable[[], int]] = []

    def ask(self, fate: str, request: Callable[[], int]) -> int | None:
        """Send a request that meets this fate; the answer's code, None where there is none.

        Raises:
            KilledError: the process ends, before it has sent it or before it is answered.
        """
        if fate == "killed":
            raise KilledError
        if fate == "late":
            self.late.append(request)
        code = request() if fate in ("", "unanswered", "done and killed") else 0
        if fate == "done and killed":
            raise KilledError
        return None if fate else code

    def begin_epoch(self, name: str) -> int:
        """Abort what is open of a producer; its next epoch."""
        self._end(name, ABORTED)
        self._epochs[name] = self._epochs.get(name, 0) + 1
        return self._epochs[name]

    def write(
        self, name: str, epoch: int, records: Sequence[tuple[TopicPartition, StoredRecord]]
    ) -> int:
        """Append records to the open transaction of a producer, or begin one; the error's code."""
        if epoch != self._epochs[name]:
            return _FENCED
        one = self._open.setdefault(name, Transaction())
        for tp, record in records:
            at = self.log.end(tp)
            one.begins.setdefault(tp, at)
            self._of[tp, at] = one
            self.log.append(tp, [record.key], [record.value], [record.timestamp], [record.headers])
        return 0

    def add_positions(
        self, name: str, epoch: int, group: bytes, positions: Mapping[TopicPartition, Committed]
    ) -> int:
        """Make positions part of the transaction of a producer."""
        (generation,) = struct.unpack("=i", group[7:11])
        member = group[11:].split(b"\0")[1].decode()
        if not self._knows(generation, member) and (generation, member) != (-1, ""):
            return KafkaError.ILLEGAL_GENERATION
        if epoch != self._epochs[name]:
            return _FENCED
        self._open.setdefault(name, Transaction()).positions = positions
        return 0

    def commit(
        self, generation: int, member: str, positions: Mapping[TopicPartition, Committed]
    ) -> int:
        """Take positions of a member without a transaction; the error's code."""
        if not self._knows(generation, member):
            return KafkaError.ILLEGAL_GENERATION
        self.positions.update(positions)
        return 0

    def _knows(self, generation: int, member: str) -> bool:
        return generation == self.generation and member in self.members

    def end(self, name: str, epoch: int, status: str) -> int:
        """End the transaction of a producer."""
        if epoch != self._epochs[name]:
            return _FENCED
        self._end(name, status)
        return 0

    def _end(self, name: str, status: str) -> None:
        one = self._open.pop(name, None)
        if one is None:
            return
        one.status = status
        for tp in one.begins:
            self.log.gap(tp)
        if status == COMMITTED:
            self.positions.update(one.positions)

    @property
    def open(self) -> list[str]:
        """The producers with an open transaction."""
        return [*self._open]

    @property
    def unstable(self) -> list[str]:
        """The producers whose open transactions have positions."""
        return [name for name, one in self._open.items() if one.positions]

    def stable_end(self, tp: TopicPartition) -> int:
        """The end of what readers of committed records get."""
        begins = [one.begins[tp] for one in self._open.values() if tp in one.begins]
        return min(begins, default=self.log.end(tp))

    def counts(self, tp: TopicPartition, offset: int) -> bool:
        """True if a record is committed, or of no transaction."""
        one = self._of.get((tp, offset))
        return one is None or one.status == COMMITTED


class CommittedLog:
    """What readers of committed records see of a log; for a ``MemorySource``."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def end(self, tp: TopicPartition) -> int:
        """The last stable offset."""
        return self._broker.stable_end(tp)

    def read(self, tp: TopicPartition, offset: int, limit: int) -> tuple[list[StoredRecord], int]:
        """As ``MemoryLog.read``."""
        stable = self._broker.stable_end(tp)
        found, after = self._broker.log.read(tp, offset, limit)
        kept = [r for r in found if r.offset < stable and self._broker.counts(tp, r.offset)]
        return kept, max(offset, min(after, stable))


class TransactionAdmin(MemoryAdmin):
    """An ``Admin`` that knows last stable offsets."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker.log)
        self._broker = broker

    def readable_ends(
        self, partitions: Sequence[TopicPartition], *, read_committed: bool | None = None
    ) -> dict[TopicPartition, int]:
        """End offsets, or the last stable ones."""
        if not read_committed:
            return self.end_offsets(partitions)
        return {tp: self._broker.stable_end(tp) for tp in partitions}


class TransactionProducer:
    """Stands for librdkafka's producer of transactions.

    Args:
        broker: what it speaks to.
        fate: of a request: empty, ``lost``, ``late``, ``unanswered``, ``killed`` or ``done and
            killed``.
        config: of librdkafka.
    """

    def __init__(
        self, broker: Broker, fate: Callable[[str], str], config: Mapping[str, Any]
    ) -> None:
        self._broker, self._fate = broker, fate
        self._name = config["transactional.id"]
        self._told = config["on_delivery"]
        self._epoch = 0
        self._queue: list[tuple[TopicPartition, StoredRecord]] = []

    def __len__(self) -> int:
        return len(self._queue)

    def list_topics(self, topic: str, timeout: float) -> None:
        """The broker is there."""

    def init_transactions(self, timeout: float) -> None:
        """Begin an epoch."""
        self._epoch = self._broker.begin_epoch(self._name)

    def begin_transaction(self) -> None:
        """The first record begins it."""

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        callback: None,
        on_delivery: None,
        timestamp: int,
        headers: Headers | None = None,
    ) -> None:
        """Queue a record."""
        record = StoredRecord(-1, key, value, timestamp, headers)
        self._queue.append((TopicPartition(topic, max(partition, 0)), record))

    def poll(self, timeout: float) -> int:
        """Deliver nothing yet."""
        return 0

    def flush(self, timeout: float) -> int:
        """Deliver all, or have it fail."""
        queue, self._queue = self._queue, []
        fate = self._fate("Produce") if queue else ""
        if fate == "killed":
            raise KilledError
        code = KafkaError._MSG_TIMED_OUT if fate == "lost" else 0
        code = code or (self._broker.write(self._name, self._epoch, queue) if queue else 0)
        for tp, _ in queue if code else ():
            self._told(KafkaError(code), _Failed(tp.topic))
        if fate == "done and killed":
            raise KilledError
        return 0

    def purge(self, *, blocking: bool = True) -> None:
        """Deliver nothing of what is queued."""
        self._queue.clear()

    def send_offsets_to_transaction(self, raw: Sequence[Any], group: bytes, timeout: float) -> None:
        """Make positions part of the transaction."""
        found = {TopicPartition(p.topic, p.partition): Committed(p.offset, p.metadata) for p in raw}
        self._ask(
            "TxnOffsetCommit",
            lambda: self._broker.add_positions(self._name, self._epoch, group, found),
        )

    def commit_transaction(self, timeout: float) -> None:
        """End the transaction by a commit."""
        self._ask("EndTxn", lambda: self._broker.end(self._name, self._epoch, COMMITTED))

    def abort_transaction(self, timeout: float) -> None:
        """End the transaction by an abort."""
        self._queue.clear()
        if code := self._broker.end(self._name, self._epoch, ABORTED):
            raise KafkaException(KafkaError(code))

    def _ask(self, api: str, request: Callable[[], int]) -> None:
        code = self._broker.ask(self._fate(api), request)
        if code is None:
            code = KafkaError._TIMED_OUT
        if code:
            raise KafkaException(KafkaError(code))


@attrs.frozen
class _Failed:
    """A record that was not delivered."""

    name: str

    def topic(self) -> str:
        """Where it was to go."""
        return self.name
