"""The changelog partitions that one consumer reads, those of preferred tasks first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from streamlet.errors import BrokerError, OutOfRangeError
from streamlet.kafka.ports import PartitionBatch, RecordSource
from streamlet.kafka.stable_offsets import held_text
from streamlet.kafka.waiting_partitions import WaitingPartitions
from streamlet.tasks.open_task import ChangelogPart
from streamlet.types import TaskId, TopicPartition


@attrs.define(eq=False)
class ReadPartitions:
    """Partitions with something left to read: assigned to the consumer, all but the waiting.

    Attributes:
        parts: what is read of each.
        preferred: tasks of which any that have something left to read are read alone.
        trouble: what the client said last, which it says but once; to be cleared when it is known
            what came of it.
    """

    _source: RecordSource
    parts: dict[TopicPartition, ChangelogPart] = attrs.field(factory=dict, init=False)
    preferred: frozenset[TaskId] = attrs.field(factory=frozenset, init=False)
    trouble: BrokerError | None = attrs.field(default=None, init=False)
    #: Those that wait until preferred tasks are done: not assigned meanwhile, since librdkafka
    #: may take some hundred ms to fetch a partition again that was paused.
    _waiting: set[TopicPartition] = attrs.field(factory=set, init=False)
    _open: WaitingPartitions = attrs.field(factory=WaitingPartitions, init=False)

    def held(self, now_ms: int) -> dict[TaskId, str]:
        """The reason why each task waits, if it is the same open transaction for ``LONG_MS``."""
        held = {tp: at for tp in self.parts if (at := self._source.held_from(tp)) is not None}
        held = {tp: at for tp, at in held.items() if at < self.parts[tp].end}
        for_long = self._open.for_long(held, now_ms)
        return {self.parts[tp].task: held_text(tp, at) for tp, at in for_long.items()}

    @property
    def waiting_tasks(self) -> set[TaskId]:
        """Tasks with a partition that waits until preferred tasks are done."""
        return {self.parts[tp].task for tp in self._waiting}

    def prefer(self, tasks: frozenset[TaskId]) -> None:
        """Read only these tasks for as long as any of them has something left to read."""
        if tasks != self.preferred:
            self.preferred = tasks
            self._share()

    def read_on(self, parts: Sequence[ChangelogPart]) -> None:
        """Have the consumer read those that are behind their end, or go back."""
        self._read_again(parts)
        behind = {p.tp: p for p in parts if p.position < p.end and p.tp not in self.parts}
        if behind:
            self._source.assign({tp: part.position for tp, part in behind.items()})
            self.parts.update(behind)
            self._share()

    def read_from(self, parts: Iterable[ChangelogPart]) -> None:
        """Have the consumer read at the positions of these, which it did not ask for."""
        self._source.assign({p.tp: p.position for p in parts if p.tp not in self._waiting})

    def _read_again(self, parts: Iterable[ChangelogPart]) -> None:
        """Have the consumer go back where a reader needs what it let go."""
        moved = [part for part in parts if part.go_back()]
        if moved:
            self.read_from(moved)

    def stop(self, parts: Sequence[ChangelogPart]) -> None:
        """Read these no more."""
        reading = [part.tp for part in parts if self.parts.pop(part.tp, None) is not None]
        if reading:
            self._waiting.difference_update(reading)
            self._source.unassign(reading)
            if isinstance(self.trouble, OutOfRangeError) and self.trouble.partition in reading:
                self.trouble = None
            self._share()

    def stop_read(self) -> bool:
        """Stop reading partitions that were read to their end; True if there were any."""
        read = [part for part in self.parts.values() if part.position >= part.end]
        self.stop(read)
        return bool(read)

    def _share(self) -> None:
        """Assign what is to be read now."""
        first = {tp for tp, part in self.parts.items() if part.task in self.preferred}
        wait = set(self.parts) - first if first else set()
        waited, self._waiting = self._waiting, wait
        if wait - waited:
            self._source.unassign(sorted(wait - waited))
        if waited - wait:
            self._source.assign({tp: self.parts[tp].position for tp in sorted(waited - wait)})

    def poll(self, most: int, timeout_ms: int) -> list[PartitionBatch]:
        """Poll once.

        Raises:
            BrokerError: the client's, again and again until ``trouble`` is cleared.
        """
        if self.trouble is not None:
            raise self.trouble
        try:
            return self._source.poll(most, timeout_ms)
        except BrokerError as error:
            self.trouble = error  # no broker may be there to say where logs begin
            raise

    def reach(self) -> None:
        """Take the consumer's positions, which go past gaps without records, or have it go back."""
        self._read_again(self.parts.values())
        reading = list(self.parts.keys() - self._waiting)
        for tp, position in self._source.positions(reading).items():
            self.parts[tp].reach(position)

    def known_end(self, tp: TopicPartition) -> int | None:
        """The end of a log, as the consumer knows it; None while it waits."""
        return None if tp in self._waiting else self._source.known_end(tp)

    def end_just_now(self, tp: TopicPartition) -> int | None:
        """The end of a log that is read just now; None if it is not."""
        return self.known_end(tp) if tp in self.parts else None
