"""The ports of the runtime to a Kafka client, in columns; no client is imported here.

``kafka/client`` implements these over confluent-kafka; tests bring their own. Foreign errors never
cross: implementations raise ``streamlet.errors``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from operator import itemgetter
from typing import Any, Protocol, TypeAlias

import attrs

from streamlet.types import TopicPartition

#: Headers of one record as Kafka has them: name and bytes, repeatable, in order.
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


@attrs.define(slots=True)
class PartitionBatch:
    """Raw records of one partition in columns of equal length.

    ``offsets`` is a ``range`` whenever the offsets are contiguous, else a list.
    ``timestamps`` are milliseconds since the epoch. ``headers`` is None where no record has
    any, or where they were not asked for. ``unreadable`` are the reasons, by offset, why the client
    could not read headers: those are None, and the record is one for the error policy. ``span`` are
    two times that all timestamps lie between; None: a look at each has to tell.
    """

    topic: str
    partition: int
    offsets: Sequence[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: list[int]
    headers: list[Headers | None] | None = None
    unreadable: Mapping[int, str] | None = None
    span: tuple[int, int] | None = attrs.field(default=None, eq=False)

    def __len__(self) -> int:
        return len(self.keys)

    def slice(self, start: int, stop: int | None = None) -> PartitionBatch:
        """The records from an index on, up to another one (exclusive) or the end."""
        return self._cut(itemgetter(slice(start, stop)))

    def select(self, mask: Sequence[bool]) -> PartitionBatch:
        """The records whose mask entry is true."""
        return self._cut(lambda column: list(compress(column, mask)))

    def _cut(self, cut: Callable[[Any], Any]) -> PartitionBatch:
        offsets, keys, values = map(cut, (self.offsets, self.keys, self.values))
        times, headers = cut(self.timestamps), None if self.headers is None else cut(self.headers)
        columns = offsets, keys, values, times, headers
        return PartitionBatch(self.topic, self.partition, *columns, self.unreadable, self.span)


@attrs.define(slots=True)
class OutgoingRecords:
    """Records for one topic in columns of equal length.

    Without ``partitions`` the key decides (murmur2, as Java's client); a number is that of all.
    ``timestamps`` are milliseconds since the epoch; None: of the sending.
    """

    topic: str
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps: Sequence[int] | None = None
    partitions: Sequence[int] | int | None = None
    headers: Sequence[Headers | None] | None = None


class RecordSource(Protocol):
    """A consumer with partitions assigned by hand; offsets are never committed through it."""

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Add these partitions, each from its offset; one already assigned moves to that offset.

        Others are untouched and keep what they fetched.
        """
        ...

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop reading these partitions; no later ``poll`` returns their records."""
        ...

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetch no more of these until resumed."""
        ...

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetch paused partitions again."""
        ...

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Offset of what ``poll`` returns next of each that has one.

        At the end it is past what is no record: transaction markers, holes of compaction.
        """
        ...

    def known_end(self, partition: TopicPartition) -> int | None:
        """End of an assigned partition as of the last fetch; None before the first. No request.

        Of a consumer that reads what was committed: the end of that, where it is known.
        """
        ...

    def held_from(self, partition: TopicPartition) -> int | None:
        """The offset from which on an open transaction holds records back; None: none does.

        As of about a second ago, and only of a consumer that reads what was committed. No request.
        """
        ...

    def poll(self, max_records: int, timeout_ms: int, idle_ms: int = 0) -> list[PartitionBatch]:
        """Records that are there, split by partition, in offset order within each.

        Waits ``timeout_ms`` for that many; if ``idle_ms`` is more, so long for the first of them.

        Raises:
            OutOfRangeError: there is no such offset; other partitions go on.
            BrokerError: what the client reports as fatal.
        """
        ...

    def close(self) -> None:
        """Free the client."""
        ...


class RecordSink(Protocol):
    """An idempotent producer.

    Attributes:
        waited_ms: how long ``send`` has waited for room so far, ms.
    """

    waited_ms: int

    def send(self, records: OutgoingRecords) -> None:
        """Queue records in order.

        Blocks while more is queued than was delivered lately.

        Raises:
            RecordRefusedError: one of these is refused (too large); those before it were taken.
            DeliveryError: a record queued earlier failed.
        """
        ...

    def has_room(self, *, hurried: bool) -> bool:
        """True if half of what may be queued is free.

        Args:
            hurried: another member waits for what is queued to be delivered: until the next call
                less may be.

        Raises:
            DeliveryError: a record queued earlier failed.
        """
        ...

    def push(self) -> None:
        """Have what is queued sent now, in place of waiting for more; it may take a moment.

        Raises:
            DeliveryError: a record queued earlier failed.
        """
        ...

    def flush(self, timeout_ms: int) -> None:
        """Wait until everything queued is delivered.

        Raises:
            StillQueuedError: something is undelivered at the timeout; it may be delivered yet.
            DeliveryError: something failed.
        """
        ...

    def reset(self) -> None:
        """Forget what is queued and every failure; later records are sent as usual."""
        ...

    def close(self) -> None:
        """Free the client, waiting for nothing."""
        ...


class FencedSink(RecordSink, Protocol):
    """A sink whose records can be taken back, because others may have our tasks."""

    def fence(self) -> None:
        """Deliver nothing more of what is queued, as far as it did not leave; from any thread."""
        ...


class TransactionSink(RecordSink, Protocol):
    """A sink whose records count once they are committed, all since the last commit or none."""

    @property
    def begun(self) -> bool:
        """True if something was sent since the last commit."""
        ...

    def seal(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Add nothing more to the transaction, which these positions and texts belong to.

        Raises:
            DeliveryError: a record sent earlier failed.
        """
        ...


@attrs.frozen
class TopicInfo:
    """The broker's description of a topic. ``topic_id`` changes when it is created again."""

    name: str
    partitions: int
    topic_id: str = ""
    internal: bool = False


@attrs.frozen
class NewTopic:
    """A topic to create; ``replication`` -1 is the broker's default."""

    name: str
    partitions: int
    replication: int = -1
    config: tuple[tuple[str, str], ...] = ()


class Admin(Protocol):
    """The few administrative requests streamlet makes."""

    def topics(self) -> dict[str, TopicInfo]:
        """All topics by name."""
        ...

    def topic_ids(self, names: Sequence[str]) -> dict[str, str]:
        """The id of each of these topics that exists; a topic created again has another."""
        ...

    def topic_config(self, name: str) -> dict[str, str]:
        """All settings of a topic that exists, as the broker prints them."""
        ...

    def topic_settings(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """All settings of each of these topics, as the broker prints them.

        Topics that do not exist, or whose settings we may not see, are left out.
        """
        ...

    def broker_setting(self, name: str) -> str | None:
        """A setting of a broker; None if brokers do not report it."""
        ...

    def alter_topics(self, settings: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        """Set these settings of topics and leave the others; of those that refuse, the reason."""
        ...

    def grow_topics(self, counts: Mapping[str, int]) -> None:
        """Raise topics to these numbers of partitions."""
        ...

    def delete_retentions(self, names: Sequence[str]) -> dict[str, int]:
        """The time each of these topics keeps deletions, ms, if it is compacted.

        Topics that do not exist, or whose settings we may not see, are left out.
        """
        ...

    def definitions(self, names: Sequence[str]) -> dict[str, NewTopic]:
        """The definitions that would create each of these topics again, own settings included.

        Topics that do not exist are left out.
        """
        ...

    def create_topics(self, topics: Sequence[NewTopic]) -> None:
        """Create and wait until each can be used; one that exists already is left as it is."""
        ...

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete; unknown names are ignored.

        Raises:
            DeletionDisabledError: the broker does not allow to delete topics.
        """
        ...

    def start_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """First offset of each partition, in one request."""
        ...

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Offset behind the last record of each partition (read_uncommitted), in one request."""
        ...

    def readable_ends(
        self, partitions: Sequence[TopicPartition], *, read_committed: bool | None = None
    ) -> dict[TopicPartition, int]:
        """Offset behind the last record that consumers get now, in one request.

        Under ``read_committed`` it is the last stable offset, else as ``end_offsets``; None: as the
        application is set here.
        """
        ...

    def offsets_at(
        self, partitions: Sequence[TopicPartition], at_ms: int
    ) -> dict[TopicPartition, int]:
        """Offset of the first record of each partition that is not older; the end if all are."""
        ...

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """Let the broker drop records below these offsets."""
        ...

    def close(self) -> None:
        """Free the client."""
        ...
