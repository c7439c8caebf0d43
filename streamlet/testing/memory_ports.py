"""The ports of ``kafka.ports`` over a log in memory; for tests without a broker.

They answer at once: nothing here waits, whatever the timeout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from streamlet.errors import DeliveryError, MissingTopicError, OutOfRangeError
from streamlet.kafka.murmur2 import partition_of
from streamlet.kafka.ports import NewTopic, OutgoingRecords, PartitionBatch, TopicInfo
from streamlet.testing.assigned import AssignedPartitions
from streamlet.testing.memory_log import MemoryLog as MemoryLog
from streamlet.testing.memory_log import StoredRecord as StoredRecord
from streamlet.types import TopicPartition


class MemorySource(AssignedPartitions):
    """A ``RecordSource`` over a ``MemoryLog``; partitions take turns, also within one poll.

    ``held`` are the offsets from which on records are of a transaction that is open, by partition.
    """

    def __init__(self, log: MemoryLog, headers: bool = False) -> None:
        super().__init__()
        self._log, self._headers = log, headers
        self._ends: dict[TopicPartition, int] = {}
        self.held: dict[TopicPartition, int] = {}

    def held_from(self, partition: TopicPartition) -> int | None:
        """The offset at which an open transaction begins, if there is one."""
        return self.held.get(partition)

    def known_end(self, partition: TopicPartition) -> int | None:
        """End of the partition; the last one once its topic was deleted, as a client has it."""
        with suppress(MissingTopicError):
            self._ends[partition] = self._log.end(partition)
        return self._ends.get(partition)

    def poll(self, max_records: int, timeout_ms: int, idle_ms: int = 0) -> list[PartitionBatch]:
        """Take what is there, an equal share of each partition's first; returns at once."""
        open_ = [p for p in self._positions if p not in self._paused]
        batches: list[PartitionBatch] = []
        left = max_records
        for index, partition in enumerate(open_):
            share = max(1, left // (len(open_) - index))
            try:
                records, self._positions[partition] = self._log.read(
                    partition, self._positions[partition], min(share, left)
                )
            except OutOfRangeError:
                if batches:
                    break  # raised by the next poll: what was read must not be lost to it
                raise
            except MissingTopicError:
                continue  # it was deleted: a client says nothing and waits for it to come back
            if records:
                left -= len(records)
                batches.append(self._columns(partition, records))
                self._positions[partition] = self._positions.pop(partition)
            if not left:
                break
        return batches

    def _columns(self, partition: TopicPartition, records: list[StoredRecord]) -> PartitionBatch:
        offsets, keys, values, timestamps, headers = map(list, zip(*records, strict=True))
        whole = range(records[0].offset, records[-1].offset + 1)
        return PartitionBatch(
            partition.topic,
            partition.partition,
            whole if len(whole) == len(records) else offsets,
            keys,
            values,
            timestamps,
            headers if self._headers else None,
        )


class MemorySink:
    """A ``RecordSink`` over a ``MemoryLog``.

    Records are in the log at once; with ``hold`` they wait for ``flush`` or ``deliver``, as those
    in a producer's queue do, and are lost with the sink.
    """

    def __init__(self, log: MemoryLog, hold: bool = False) -> None:
        self._log, self._hold = log, hold
        self._queue: list[tuple[TopicPartition, StoredRecord]] = []
        self._failure: str | None = None
        self.waited_ms = 0

    def fail(self, reason: str | None) -> None:
        """Let every ``flush`` fail for this reason, and deliver nothing, until given None."""
        self._failure = reason

    def send(self, records: OutgoingRecords) -> None:
        """Queue records; a null key goes to partition 0."""
        topic, partitions, headers = records.topic, records.partitions, records.headers
        count = self._log.infos().get(topic)
        if count is None:
            raise DeliveryError(f"there is no topic {topic}")
        for i, (key, value) in enumerate(zip(records.keys, records.values, strict=True)):
            if partitions is None:
                number = 0 if key is None else partition_of(key, count.partitions)
            else:
                number = partitions if isinstance(partitions, int) else partitions[i]
            time = -1 if records.timestamps is None else records.timestamps[i]
            record = StoredRecord(-1, key, value, time, None if headers is None else headers[i])
            self._queue.append((TopicPartition(topic, number), record))
        if not self._hold and self._failure is None:
            self.deliver()

    def deliver(self, count: int | None = None) -> None:
        """Put the first ``count`` queued records into the log, or all."""
        ready = self._queue[:count]
        del self._queue[:count]
        for partition, record in ready:
            times = None if record.timestamp < 0 else [record.timestamp]
            self._log.append(partition, [record.key], [record.value], times, [record.headers])

    def has_room(self, *, hurried: bool) -> bool:
        """True: it takes everything."""
        return True

    def push(self) -> None:
        """Leave what is queued: it may take any time on its way."""

    def flush(self, timeout_ms: int) -> None:
        """Deliver everything, or raise what ``fail`` was given."""
        if self._failure is not None:
            self._queue.clear()
            raise DeliveryError(self._failure)
        self.deliver()

    def reset(self) -> None:
        """Lose what is still queued."""
        self._queue.clear()

    close = fence = reset


class MemoryAdmin:
    """An ``Admin`` over a ``MemoryLog``.

    ``held`` are the offsets from which on records are of a transaction that is open, by partition.
    """

    def __init__(self, log: MemoryLog, held: Mapping[TopicPartition, int] | None = None) -> None:
        self._log, self._held = log, held or {}

    def topics(self) -> dict[str, TopicInfo]:
        """All topics by name."""
        return self._log.infos()

    def topic_ids(self, names: Sequence[str]) -> dict[str, str]:
        """Ids of the topics that exist."""
        infos = self._log.infos()
        return {name: infos[name].topic_id for name in names if name in infos}

    def topic_config(self, name: str) -> dict[str, str]:
        """The settings a topic was created with; no defaults."""
        return self._log.config(name)

    def broker_setting(self, name: str) -> str | None:
        """None: there is no broker."""
        return None

    def grow_topics(self, counts: Mapping[str, int]) -> None:
        """Add partitions."""
        for topic, partitions in counts.items():
            self._log.grow(topic, partitions)

    def alter_topics(self, settings: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        """Set settings; none is refused."""
        self._log.alter(settings)
        return {}

    def delete_retentions(self, names: Sequence[str]) -> dict[str, int]:
        """``delete.retention.ms`` of topics that were created with it."""
        settings, key = self.topic_settings(names), "delete.retention.ms"
        return {name: int(own[key]) for name, own in settings.items() if key in own}

    def topic_settings(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """The settings that topics were created with; no defaults."""
        there = self._log.infos()
        return {name: dict(self._log.config(name)) for name in names if name in there}

    def definitions(self, names: Sequence[str]) -> dict[str, NewTopic]:
        """Partitions and settings of topics that exist; there are no replicas here."""
        infos, config = self._log.infos(), self._log.config
        return {
            name: NewTopic(name, infos[name].partitions, 1, tuple(sorted(config(name).items())))
            for name in names
            if name in infos
        }

    def create_topics(self, topics: Sequence[NewTopic]) -> None:
        """Create what is missing."""
        for topic in topics:
            self._log.create(topic.name, topic.partitions, dict(topic.config))

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete the topics that exist."""
        for name in names:
            self._log.delete(name)

    def start_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """First offsets."""
        return {partition: self._log.start(partition) for partition in partitions}

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """End offsets."""
        return {partition: self._log.end(partition) for partition in partitions}

    def readable_ends(
        self, partitions: Sequence[TopicPartition], *, read_committed: bool | None = None
    ) -> dict[TopicPartition, int]:
        """End offsets, or where an open transaction begins."""
        held = self._held if read_committed else {}
        return {tp: held.get(tp, end) for tp, end in self.end_offsets(partitions).items()}

    def offsets_at(
        self, partitions: Sequence[TopicPartition], at_ms: int
    ) -> dict[TopicPartition, int]:
        """First offsets that are not older."""
        return {
            partition: next(
                (r.offset for r in self._log.records(partition) if r.timestamp >= at_ms),
                self._log.end(partition),
            )
            for partition in partitions
        }

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """Raise the starts."""
        for partition, offset in before.items():
            self._log.raise_start(partition, offset)

    def close(self) -> None:
        """Do nothing: there is nothing to free."""
