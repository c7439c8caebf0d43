"""One topic of two partitions whose records wait, its writers and a reader, for tests."""

from __future__ import annotations

from collections import defaultdict

from streamlet.coordinator.commit_metadata import CommitMetadata, InputNote
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.edges.agreement import Agreement
from streamlet.processing.edges.filter import EdgeFilter
from streamlet.processing.edges.held_reader import HeldReader
from streamlet.processing.edges.held_records import writer_of
from streamlet.processing.edges.held_writer import HeldWriter, Period
from streamlet.processing.edges.undecided import Undecided
from streamlet.processing.edges.writer_keys import WriterKey, WriterKeys
from streamlet.processing.outputs import Output
from streamlet.types import NO_STATE, StateNumber, TaskId

FIRST = TaskId(0, 0)
TOPIC, PARTITIONS = "between", 2
#: When the epochs of all tasks began to count.
BORN = 1_700_000_000
KEY = b"the key of it"


class Edges:
    """The logs of the topic, by partition."""

    def __init__(self) -> None:
        self.logs: dict[int, list[bytes]] = defaultdict(list)
        self.keys = WriterKeys()

    def writer(
        self,
        task: TaskId = FIRST,
        epoch: int = 1,
        base: StateNumber = NO_STATE,
        agreement: Agreement | None = None,
        exact: bool = True,
        bound: Undecided | None = None,
    ) -> HeldWriter:
        """The writer of an active period that was claimed, and has told so."""
        self.keys.answer({writer_of(task): WriterKey(BORN, KEY)}, 0)
        period = Period.of(task, BORN, epoch, base, KEY)
        made = HeldWriter(period, {TOPIC: PARTITIONS}, agreement, None, bound, exact=exact)
        made.claimed()
        self.tell(made)
        return made

    def tell(self, writer: HeldWriter, now_ms: int = 0, *, at_once: bool = False) -> list[int]:
        """Write what it owes; the partitions."""
        told = []
        for one in writer.markers(now_ms, at_once=at_once):
            for partition, value in zip(one.partitions, one.values, strict=True):
                self.logs[partition].append(value)
                told.append(partition)
        return told

    def write(self, writer: HeldWriter, *values: bytes | None, partition: int = 0) -> None:
        """Have it write these to a partition."""
        keys: list[bytes | None] = [b"k"] * len(values)
        chosen = [partition] * len(values)
        output = Output(TOPIC, keys, [*values], [7] * len(values), chosen)
        if writer.takes(TOPIC):
            output = writer.prefixed(output)
        else:
            writer.plain(output)
        self.logs[partition] += [value for value in output.values if value is not None]

    def commit(self, writer: HeldWriter, number: int) -> None:
        """Have its commit of that number accepted."""
        writer.taken(number)
        writer.accepted(number)


class Reading:
    """A reader of one partition that processes all it is given, and begins again from a commit."""

    def __init__(self, edges: Edges, partition: int = 0, *, ordered: bool = False) -> None:
        self._log, self._ordered = edges.logs[partition], ordered
        self._keys = edges.keys
        self.found: list[bytes | None] = []
        self.committed, self._text = 0, CommitMetadata(1, "a", 1).to_text()
        self.begin()

    def use(self, keys: WriterKeys) -> None:
        """Go on with the keys of another worker."""
        self._keys = keys

    def begin(self) -> None:
        """Begin at the last commit."""
        metadata = CommitMetadata.from_text(self._text)
        assert metadata is not None
        note: InputNote = metadata.note
        self._at = self._place = self.committed
        others, writers = EdgeFilter(note), frozenset({0, 1})
        facts = note, self._at, others, self._keys, writers
        self.reader = HeldReader(*facts, ordered=self._ordered)

    def read(self, now_ms: int = 0, most: int = 1_000) -> list[bytes | None]:
        """Process what is there; the values."""
        values: list[bytes | None] = [*self._log[self._at : self._at + most]]
        count = len(values)
        offsets = range(self._at, self._at + count)
        raw = PartitionBatch(TOPIC, 0, offsets, [None] * count, values, [0] * count)
        taken, self._place = self.reader.take(raw, now_ms)
        self._at += count
        self._given = taken.offsets
        self.found += taken.values
        return taken.values

    def processed(self, count: int) -> None:
        """Have processed so many of the records read last."""
        self._place = self._given[count]

    def commit(self) -> int:
        """Commit; the position."""
        self.committed = self.reader.position(self._place)
        self._text = CommitMetadata(1, "a", 1, note=self.reader.note).to_text()
        return self.committed
