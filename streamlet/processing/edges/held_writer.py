"""Writes records that wait for the commit that contains what caused them, and tells their readers.

One writer per active period of a task. It writes nothing before the claim of its period is
accepted, which makes the epoch unique. Each record bears the number of the commit that will contain
it, and the last one that was accepted. When one is accepted, a record that is written afterwards
tells so; where none follows soon, a marker does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import attrs

from streamlet.kafka.partitioner import KeyPartitioner
from streamlet.kafka.queue_bound import mean_size
from streamlet.processing.edges import held_columns, held_records
from streamlet.processing.edges.agreement import Agreement
from streamlet.processing.edges.held_records import MARKER, UNDER_WAY, pack_head, pack_marker
from streamlet.processing.edges.undecided import Undecided
from streamlet.processing.edges.writer_keys import WriterKey, WriterKeys
from streamlet.processing.outputs import Output
from streamlet.types import StateNumber, TaskId

#: How often at most each partition hears what was accepted, also one without records of the task:
#: others may have copied a record there, which waits and holds back the position, ms.
SELDOM_MS = 30_000
#: How long a marker waits for a record that tells the same, ms.
SOON_MS = 10
#: Markers in one record at most.
MOST_JOINED = 1_000
#: Of an output with more records than so many times the partitions, each is taken to have some.
MANY = 4


@attrs.frozen
class Period:
    """An active period of a task as its writer tells of it.

    Attributes:
        task: which.
        number: ``held_records.period_of``.
        base: period and number of the last accepted commit before it that committed anything.
        key: of the task, with which it signs.
    """

    task: TaskId
    number: int
    base: tuple[int, int] = (0, 0)
    key: bytes = b""

    @classmethod
    def of(cls, task: TaskId, born: int, epoch: int, base: StateNumber, key: bytes = b"") -> Period:
        """The period of this epoch; ``base``: what the commit that it begins at contains."""
        before = (held_records.period_of(born, base.epoch), base.number) if base.epoch else (0, 0)
        return cls(task, held_records.period_of(born, epoch), before, key)


@attrs.define
class _Told:
    """The commit numbers written to each partition of one topic.

    Attributes:
        last: of the last record.
        accepted: the last accepted one that was told; -1 until the period began there.
    """

    last: list[int]
    accepted: list[int]

    @classmethod
    def of(cls, partitions: int) -> _Told:
        return cls([0] * partitions, [-1] * partitions)


@attrs.frozen
class Markers:
    """Markers for some partitions of one topic."""

    topic: str
    partitions: list[int]
    values: list[bytes]


def joined(markers: Sequence[Markers]) -> list[Markers]:
    """The markers of several tasks, one behind the other in as few records as may be."""
    found: dict[str, dict[int, list[bytes]]] = {}
    for one in markers:
        of_topic = found.setdefault(one.topic, {})
        for partition, value in zip(one.partitions, one.values, strict=True):
            of_topic.setdefault(partition, []).append(value)
    records = []
    for topic, of_topic in found.items():
        rows = [
            (partition, b"".join(values[at : at + MOST_JOINED]))
            for partition, values in of_topic.items()
            for at in range(0, len(values), MOST_JOINED)
        ]
        records.append(Markers(topic, [row[0] for row in rows], [row[1] for row in rows]))
    return records


class HeldWriter:
    """The writer of one task to topics whose records wait for their commit.

    Args:
        period: the active period.
        topics: partitions of each topic whose readers it tells of the period and its commits.
        holds: those of them whose records wait; None: all.
        agreement: of the group.
        keys: of tasks, as the readers of this worker know them; None: there are none.
        bound: of what the tasks of this worker wrote.
        exact: ``repartition.exact``; without it records are plain, and what earlier periods wrote
            is still told.
    """

    def __init__(
        self,
        period: Period,
        topics: Mapping[str, int],
        agreement: Agreement | None = None,
        keys: WriterKeys | None = None,
        bound: Undecided | None = None,
        *,
        exact: bool = True,
        holds: Collection[str] | None = None,
    ) -> None:
        self._bound = Undecided() if bound is None else bound
        self._period, self._keys = period, keys
        self._agreement = agreement or Agreement(held=True)
        self._exact = exact
        self._holds = frozenset(topics if holds is None else holds)
        self._partitioners = {topic: KeyPartitioner(count) for topic, count in topics.items()}
        self._told = {topic: _Told.of(count) for topic, count in topics.items()}
        #: Whether records are written in the form that waits.
        self._held = False
        self._claimed = self._under_way = False
        #: Whether partitions lack a word: of the period, or of a commit, and that from when on, ms.
        self._unopened, self._owes = True, False
        self._owes_ms: int | None = None
        #: Whether some partition may not know the last accepted commit, and when all are to.
        self._behind, self._all_ms = False, 0
        self._accepted, self._number, self._sequence = 0, 1, 1
        self._head = b""
        #: Records and bytes written since the last share of a commit was taken, and before it.
        self._open = self._sent = (0, 0)
        #: Markers written so far.
        self.markers_sent = 0

    @property
    def born(self) -> int:
        """The time at which the epochs of its task began to count, s since the epoch."""
        return self._period.number >> 32

    @property
    def key(self) -> bytes:
        """The key of its task, with which it signs."""
        return self._period.key

    def takes(self, topic: str) -> bool:
        """True if records to this topic wait for their commit, as things are now."""
        return topic in self._holds and self._form

    def is_to_take(self, topic: str) -> bool:
        """True if records to this topic are to wait, once the period and the group are so far."""
        return topic in self._holds and self._exact and self._agreement.held

    # What the task and its commits ask.

    @property
    def silent(self) -> bool:
        """True until a marker of an accepted claim was written; nothing may be written before."""
        return self._agreement.held and self._unopened

    @property
    def blocked(self) -> bool:
        """True if no batch is to begin: nothing may be written, or too much is undecided."""
        return self.silent or self._changes or (self._form and self._bound.full)

    @property
    def undecided(self) -> int:
        """Records of commits that are not accepted yet."""
        return self._undecided[0]

    @property
    def waiting(self) -> tuple[int, int]:
        """Records that wait for a commit, and their bytes."""
        return self._undecided if self._form else (0, 0)

    @property
    def wants_commit(self) -> bool:
        """True if records wait for a commit that was not begun."""
        return bool(self._open[0]) and (self._changes or self._form)

    @property
    def hurries(self) -> bool:
        """True if so much waits in the worker that a commit is to begin at once."""
        if not self._open[0] or self._changes:
            return bool(self._open[0])
        if not self._accepted:  # as there, readers have waited
            return self._form
        return self._form and self._bound.much

    @property
    def _wanted(self) -> bool:
        return self._exact and self._agreement.held and not self._unopened

    @property
    def _form(self) -> bool:
        """True if the next records wait; it changes only where all before them is decided."""
        if self._held is not self._wanted and not self.undecided:
            self._held = self._wanted
        return self._held

    @property
    def _changes(self) -> bool:
        return self._form is not self._wanted

    @property
    def _undecided(self) -> tuple[int, int]:
        return self._open[0] + self._sent[0], self._open[1] + self._sent[1]

    def claimed(self) -> None:
        """Note that the claim was accepted: each partition is to hear of the period."""
        self._claimed = True
        if self._keys is not None:
            writer = held_records.writer_of(self._period.task)
            self._keys.claimed(writer, WriterKey(self.born, self.key))

    def taken(self, number: int) -> None:
        """Note that the share of a commit was taken: what comes now belongs to the next one."""
        if number < self._number:
            return
        self._number, self._under_way = number + 1, True
        self._sent = self._undecided
        self._open, self._head = (0, 0), b""

    def accepted(self, number: int) -> None:
        """Note that a commit was accepted."""
        if number <= self._accepted:
            return
        first = not self._accepted
        self._accepted, self._under_way = number, False
        records, size = self._sent
        if self._held:
            self._bound.add(-records, -size)
        self._sent, self._head = (0, 0), b""
        self._behind |= records > 0  # else no record waits for it
        if first:  # readers have waited for as long as the task was handed over
            self._owes, self._owes_ms = True, 0
        elif not self._owes:
            self._owes, self._owes_ms = True, None

    def begin_again(self, epoch: int) -> None:
        """Begin another period in place, behind the last commit of this one."""
        assert not self.undecided, "records of the earlier period would be lost"
        before = self._period
        base = (before.number, self._accepted) if self._accepted else before.base
        number = held_records.period_of(before.number >> 32, epoch)
        self._period = Period(before.task, number, base, before.key)
        self._claimed = self._under_way = self._owes = False
        self._unopened = True
        self._accepted, self._number, self._head = 0, 1, b""
        self._told = {topic: _Told.of(len(told.last)) for topic, told in self._told.items()}

    # Writing.

    def prefixed(self, output: Output) -> Output:
        """The output as it is to be written, to a topic that this writer ``takes``."""
        assert not self.silent, f"{self._period.task} writes before its claim"
        told, count = self._told[output.topic], len(output.keys)
        partitions: Sequence[int] | None = output.partitions
        if partitions is None and count <= MANY * len(told.last):
            partitioner = self._partitioners[output.topic]
            sequences = range(self._sequence, self._sequence + count)
            partitions = partitioner.choose(output.keys, sequences)
        self._note(told, partitions)
        packed: list[bytes | None]
        packed = held_columns.pack(self._packed_head(), output.values, self._sequence)  # type: ignore[assignment]
        self._sequence += count
        self._add(count, mean_size(output.keys, packed, None))
        chosen = None if partitions is None else list(partitions)
        return attrs.evolve(output, values=packed, partitions=chosen, owned=False)

    def plain(self, output: Output) -> None:
        """Note an output in another form, to one of its topics."""
        if output.topic in self._holds:
            self._open = self._open[0] + len(output.keys), self._open[1]

    def _add(self, count: int, mean: int) -> None:
        records, size = self._open
        self._open = records + count, size + count * mean
        self._bound.add(count, count * mean)

    def _note(self, told: _Told, partitions: Sequence[int] | None) -> None:
        if partitions is None:
            told.last = [self._number] * len(told.last)
            return
        accepted = self._accepted
        for partition in set(partitions):
            told.last[partition] = self._number
            told.accepted[partition] = accepted

    def _packed_head(self) -> bytes:
        if not self._head:
            flags = UNDER_WAY if self._under_way else 0
            period = self._period
            writer = held_records.writer_of(period.task)
            self._head = pack_head(writer, period.number, self._number, flags, key=period.key)
        return self._head

    # Telling.

    def markers(self, now_ms: int, *, at_once: bool = False) -> list[Markers]:
        """The markers that are to be written now, before anything else of the task.

        ``at_once``: no record follows.
        """
        if not self._claimed or (self._unopened and not self._agreement.held):
            return []
        everywhere = self._unopened or (self._behind and now_ms >= self._all_ms)
        if not everywhere and not self._due(now_ms, at_once=at_once):
            return []
        if everywhere:
            self._behind, self._all_ms = False, now_ms + SELDOM_MS
        self._unopened = self._owes = False
        value = self._marker()
        found = []
        for topic, told in self._told.items():
            owed = self._owed(told, everywhere=everywhere)
            if owed:
                found.append(Markers(topic, owed, [value] * len(owed)))
                self.markers_sent += len(owed)
        return found

    def _due(self, now_ms: int, *, at_once: bool) -> bool:
        """True if partitions with records are to hear of a commit now."""
        if not self._owes:
            return False
        if self._owes_ms is None:
            self._owes_ms = now_ms + SOON_MS
        return at_once or now_ms >= self._owes_ms

    def _marker(self) -> bytes:
        period = self._period
        writer = held_records.writer_of(period.task)
        facts = writer, period.number, self._accepted + 1, MARKER
        head = pack_head(*facts, key=period.key, base=period.base)
        return pack_marker(head, self._sequence, period.base)

    def _owed(self, told: _Told, *, everywhere: bool) -> list[int]:
        """The partitions that get a marker now; it counts as written."""
        accepted = self._accepted
        owed = [
            at
            for at, (known, last) in enumerate(zip(told.accepted, told.last, strict=True))
            if known < (accepted if everywhere or known < 0 else min(last, accepted))
        ]
        for at in owed:
            told.accepted[at] = accepted
        return owed
