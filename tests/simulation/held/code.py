"""The histories of held edges with the code that ships: its prefixes, its markers and its notes."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from itertools import count

from streamlet.coordinator.commit_metadata import CommitMetadata, InputNote
from streamlet.kafka.murmur2 import partition_of
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.edges.filter import EdgeFilter
from streamlet.processing.edges.held_columns import pack
from streamlet.processing.edges.held_reader import HeldReader
from streamlet.processing.edges.held_records import (
    HEAD_BYTES,
    MARKER,
    UNDER_WAY,
    pack_head,
    pack_marker,
    period_of,
)
from streamlet.processing.edges.held_writer import HeldWriter, Markers, Period
from streamlet.processing.edges.writer_keys import STALE_MS, WriterKey, WriterKeys
from streamlet.processing.outputs import Output
from streamlet.types import TaskId
from tests.simulation.held import rules as words
from tests.simulation.held.history import History
from tests.simulation.held.reader import Reader
from tests.simulation.held.rules import NO_PERIOD, Place, Rules, Word
from tests.simulation.held.tasks import Task
from tests.simulation.held.writer import Writer

TOPIC = "between"
#: One value of so many is null; then the key alone tells which record it is.
_NULLS = 5
#: A time at which every marker is due, ms.
_LATE_MS = 1 << 40


class CodeWriter(Writer):
    """A writer whose prefixes and markers the code makes."""

    def __init__(
        self, rules: Rules, writer: int, period: words.Period, base: Place, partitions: int
    ) -> None:
        super().__init__(rules, writer, period, base, partitions)
        (born, epoch), number = base
        of_base = (period_of(born, epoch), number) if number else (0, 0)
        key = key_for(writer, period[0])
        self._own = Period(TaskId(0, writer), period_of(*period), of_base, key)
        self._code = HeldWriter(self._own, {TOPIC: partitions})
        self._late_ms = 0

    def begin(self, dice: random.Random) -> None:
        """The claim was accepted."""
        self._code.claimed()
        self._send_markers()

    def emit(self, partition: int, value: Hashable) -> None:
        """Write a record, behind the markers that are due."""
        self._send_markers(0)
        key, text = key_of(partition, self.partitions, value)
        written = self._code.prefixed(Output(TOPIC, [key], [text], [0]))
        assert written.partitions in ([partition], None)
        assert written.values[0] is not None
        self._queue(partition, value, written.values[0])

    def shared(self, number: int, position: int) -> None:
        """A commit of this number contains what was written so far."""
        self._code.taken(number)

    def committed(self, number: int) -> None:
        """This commit was accepted."""
        self._code.accepted(number)

    def tell(self, dice: random.Random | None = None) -> None:
        """Say what was accepted where nothing else did."""
        self._send_markers(_LATE_MS if dice is not None and dice.random() < 0.5 else None)

    def begin_again(self, period: words.Period, base: Place) -> None:
        """Begin another period in place; its claim is yet to be accepted."""
        self._code.begin_again(period[1])

    @property
    def undecided(self) -> int:
        """Records that no accepted commit contains yet."""
        return self._code.undecided

    @property
    def full(self) -> bool:
        """True if the task is to begin nothing new."""
        return self._code.blocked

    @property
    def quiet(self) -> bool:
        """True if nothing is on its way, and nothing is owed."""
        self._late_ms += _LATE_MS
        self._send_markers(self._late_ms)
        return not any(self.in_flight)

    def _send_markers(self, now_ms: int | None = None) -> None:
        self._send(self._code.markers(now_ms or 0, at_once=now_ms is None))

    def _send(self, markers: Sequence[Markers]) -> None:
        for sent in markers:
            for partition, value in zip(sent.partitions, sent.values, strict=True):
                self._queue(partition, None, value)

    def _queue(self, partition: int, value: Hashable, data: bytes | None) -> None:
        base = None if value else (NO_PERIOD, 0)
        word = Word(self._writer, NO_PERIOD, 0, 0, 0, value, base, data)
        self._ways[partition].queue.append(word)


def key_of(partition: int, partitions: int, value: Hashable) -> tuple[bytes, bytes | None]:
    """A key that lies in that partition, and a value."""
    text = repr(value).encode()
    keys = (b"%s %d" % (text, at) for at in count())
    key = next(key for key in keys if partition_of(key, partitions) == partition)
    return key, None if len(text) % _NULLS == 0 else text


def key_for(writer: int, born: int) -> bytes:
    return b"%d of %d" % (writer, born)


def note_of(notes: words.Notes) -> InputNote:
    """The note that a text of a commit has."""
    assert isinstance(notes, str)
    found = CommitMetadata.from_text(notes)
    return InputNote() if found is None else found.note


class CodeReader(Reader):
    """A reader that goes by the code; it gets several words at once.

    ``ask`` tells of a writer since when its epochs count; None: there is no answer now.
    """

    ordered = False
    ask: Callable[[int], tuple[int, bool] | None]

    def __init__(self, rules: Rules, position: int = 0, notes: words.Notes = "") -> None:
        super().__init__(rules, position)
        self._now_ms = 0
        self._keys = WriterKeys()
        self._code = self._made(note_of(notes), position)
        self._words: list[Word] = []
        self._given: deque[tuple[int, Word]] = deque()
        self._place = self._behind = position

    def _made(self, note: InputNote, position: int) -> HeldReader:
        others = EdgeFilter(note, buffered=True)
        return HeldReader(note, position, others, self._keys, frozenset({0}), ordered=self.ordered)

    def take(self, word: Word) -> None:
        """Take the next word of the log, now or with those behind it."""
        self._words.append(word)
        self.read += 1
        if len(self._words) > self.read % 4:
            self._read_on()

    def skip(self, offset: int, *, lost: bool = True) -> None:
        """Go on behind words that are deleted, or that no reader gets."""
        self._read_on()
        self.read = offset
        self._behind = self._code.skip(offset, lost=lost)

    def process(self) -> Word | None:
        """The next record that was taken, which then counts as processed."""
        self._read_on()
        if not self._given:
            self._place = self._behind
            return None
        place, word = self._given.popleft()
        self._place = place + 1
        return word

    @property
    def place(self) -> int:
        """That of the record which was processed last."""
        return self._place - 1

    @property
    def position(self) -> int:
        """The position of a commit."""
        self._read_on()
        return self._code.position(self._place if self._given else self._behind)

    @property
    def notes(self) -> words.Notes:
        """The text of a commit."""
        self._read_on()
        return CommitMetadata(1, "a", 1, note=self._code.note).to_text()

    def _read_on(self) -> None:
        self._ask()
        taken, self._words = self._words, []
        if not taken and not self._code.may_go_on:
            return
        offsets = range(self.read - len(taken), self.read)
        keys = [None if word.value is None else repr(word.value).encode() for word in taken]
        data: list[bytes | None] = [word.data for word in taken]
        raw = PartitionBatch(TOPIC, 0, offsets, [*keys], data, [0] * len(taken))
        given, self._behind = self._code.take(raw, self._now_ms)
        by_key = dict(zip(keys, taken, strict=True))
        for place, key, value in zip(given.offsets, given.keys, given.values, strict=True):
            assert key is not None
            assert value == (None if len(key) % _NULLS == 0 else key)
            self._given.append((place, by_key.get(key) or self._earlier(key)))

    def _ask(self) -> None:
        """Ask for keys that are wanted; an answer that may be of old proves nothing wrong."""
        self._now_ms += 1_000
        for writer in self._keys.to_ask(self._now_ms):
            if (answer := self.ask(writer)) is None:
                self._keys.ask_again([writer])
                continue
            born, of_now = answer
            key = WriterKey(born, key_for(writer, born)) if born else WriterKey()
            self._keys.answer({writer: key}, self._now_ms if of_now else -STALE_MS)

    def _earlier(self, key: bytes) -> Word:
        """A word that was held."""
        writer, number = map(int, key.decode().strip("()").split(", "))
        return Word(writer, NO_PERIOD, 0, 0, 0, (writer, number))


class OrderedReader(CodeReader):
    """A reader that releases nothing before what lies before it."""

    ordered = True


class CodeHistory(History):
    """A history of the code that ships; the writer alone says when its task may begin something."""

    reader, writer = CodeReader, CodeWriter

    def __init__(self, seed: int) -> None:
        super().__init__(seed, Rules(claim=False))

    def _begun(self, rules: Rules, position: int, notes: words.Notes) -> Reader:
        reader = super()._begun(rules, position, notes)
        assert isinstance(reader, CodeReader)
        reader.ask = self._life_of
        return reader

    def _life_of(self, writer: int) -> tuple[int, bool] | None:
        """The life that the commits of a task say; perhaps an earlier one, or none."""
        task, x = next(one for one in self._tasks if one.number == writer), self._dice.random()
        if x < 0.2:
            return None
        return (0, False) if x < 0.4 else (task.commit.incarnation, True)

    def _copied(self, word: Word, sequence: int, value: Hashable) -> Word:
        if word.base is not None:
            return word
        head, text = word.data[:HEAD_BYTES], repr(value).encode()
        (data,) = pack(head, [None if len(text) % _NULLS == 0 else text], sequence)
        return word._replace(value=value, data=data)

    def _forged(self, task: Task, value: Hashable) -> Word:
        self._unsigned.add(task.number)  # the words of an earlier life are believed
        word, text = super()._forged(task, value), repr(value).encode()
        (born, epoch), number, key = word.period, word.number, b"another"
        under_way = UNDER_WAY if word.accepted == number - 2 else 0
        facts = task.number, period_of(born, epoch), number
        if word.base is None:
            head = pack_head(*facts, under_way, key=key)
            (data,) = pack(head, [None if len(text) % _NULLS == 0 else text], word.sequence)
        else:
            base = period_of(*word.base[0]), word.base[1]
            head = pack_head(*facts, MARKER | under_way, key=key, base=base)
            data = pack_marker(head, word.sequence, base)
        return word._replace(data=data)


class OrderedHistory(CodeHistory):
    """A history whose readers keep the order of the topic."""

    reader = OrderedReader


class LossyCodeHistory(CodeHistory):
    """A history of the code in which topics lose records."""

    lossy = True
