"""The histories of ``edges`` with the code that ships: its prefixes, its filter and its notes."""

from __future__ import annotations

from itertools import count

import attrs

from streamlet.coordinator.commit_metadata import CommitMetadata, InputNote
from streamlet.kafka.murmur2 import partition_of
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.edges.filter import EdgeFilter
from streamlet.processing.edges.records import edge_of
from streamlet.processing.edges.writer import EdgeWriter
from streamlet.processing.outputs import Output
from streamlet.types import TopicPartition
from tests.simulation.edges import Envelope, History, Reader, Rules, World, Writer

_TOPIC = "between"


@attrs.frozen
class Written(Envelope):
    """A record of the model with the key and the value that the code wrote."""

    key: bytes = b""
    value: bytes | None = None


class CodeWriter(Writer):
    """A writer whose prefixes the code makes."""

    def __init__(
        self, world: World, epoch: int, incarnations: list[int], positions: list[int]
    ) -> None:
        super().__init__(world, epoch, incarnations, positions)
        sources = [TopicPartition("in", source) for source in range(world.sources)]
        edges = {tp: edge_of(tp, "", _time(incarnations[tp.partition])) for tp in sources}
        self._edges = EdgeWriter({_TOPIC: world.partitions}, edges)
        self._keys = [_key_of(partition, world.partitions) for partition in range(world.partitions)]

    def committed(self) -> None:
        """Tell the code of a commit, as soon as it was accepted."""
        super().committed()
        self._edges.committed(
            {TopicPartition("in", source): at for source, at in enumerate(self.positions)}
        )

    def _write(self, partition: int, record: Envelope) -> None:
        key, (offset, index) = self._keys[partition], record.origin
        value = None if offset % 5 == 4 else b"%d of %d" % (index, offset)
        origin = (1, TopicPartition("in", record.source), [offset])
        written = self._edges.prefixed(Output(_TOPIC, [key], [value], [0], origins=[origin]))
        assert written.partitions == [partition]
        fields = attrs.asdict(record, recurse=False)
        super()._write(partition, Written(**fields, key=key, value=written.values[0]))


def _time(incarnation: int) -> int:
    """An incarnation as positions that are set back have it: s since the epoch."""
    return incarnation and 1_700_000_000 + incarnation


def _key_of(partition: int, partitions: int) -> bytes:
    return next(key for n in count() if partition_of(key := b"%d" % n, partitions) == partition)


class CodeReader(Reader):
    """A reader that goes by the code's filter; it may read ahead of what it processes."""

    def __init__(self, rules: Rules) -> None:
        super().__init__(rules)
        self._ahead = rules.epoch  # a rule that the code does not have: both kinds of tasks
        self._position = self._received = 0
        self._counted: tuple[Envelope, ...] = ()
        self._waiting: list[tuple[int, Envelope]] = []
        self._filter = EdgeFilter(InputNote(), buffered=self._ahead)
        self._saved = (0, self._counted, self._text())

    def read(self, log: list[Envelope]) -> bool:
        """Take the next records, and process some of what was taken."""
        if self._received == len(log) and not self._waiting:
            self._process(len(log))
            return False
        taken = log[self._received : self._received + 3]
        if taken:
            self._take(taken)
        self._process(self._waiting[0][0] + 1 if self._ahead and self._waiting else self._received)
        return True

    def _take(self, taken: list[Envelope]) -> None:
        written = [one for one in taken if isinstance(one, Written)]
        offsets = range(self._received, self._received + len(taken))
        keys: list[bytes | None] = [one.key for one in written]
        values = [one.value for one in written]
        raw = PartitionBatch(_TOPIC, 0, offsets, keys, values, [0] * len(taken))
        for offset, value in zip((new := self._filter.take(raw)).offsets, new.values, strict=True):
            record = written[offset - self._received]
            at, index = record.origin
            assert value == (None if at % 5 == 4 else b"%d of %d" % (index, at))
            self._waiting.append((offset, record))
        self._received += len(taken)

    def _process(self, position: int) -> None:
        while self._waiting and self._waiting[0][0] < position:
            self._counted += (self._waiting.pop(0)[1],)
        self._position = position
        self._filter.advance(position)

    def commit(self) -> None:
        """Store position, state and note in one piece."""
        self._saved = (self._position, self._counted, self._text())

    def begin_again(self) -> None:
        """Begin with what was stored; the note is read from its text."""
        self._position, self._counted, text = self._saved
        self._received, self._waiting = self._position, []
        found = CommitMetadata.from_text(text)
        assert found is not None
        self._filter = EdgeFilter(found.note, buffered=self._ahead)

    @property
    def applied(self) -> tuple[Envelope, ...]:
        """The records that count, in order."""
        return self._counted

    def _text(self) -> str:
        return CommitMetadata(1, "a", 1, note=self._filter.note).to_text()


class CodeHistory(History):
    """A history of the code that ships."""

    writer, reader = CodeWriter, CodeReader
