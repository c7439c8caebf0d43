"""Holds records of a repartition topic until the commit of their writer is known to be accepted.

Writers go on independently: what one of them waits for holds no record of another back. So records
are released in another order than they lie in the topic, and the position that a commit may write
is that of the first record that is held, or released and not processed. Behind it the marks of
each writer tell what was processed.

A task is given *places* in place of offsets, which rise in the order of release. Until the first
record that waits they are the offsets.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Sequence
from operator import itemgetter

import attrs

from streamlet.coordinator.commit_metadata import InputNote
from streamlet.coordinator.commit_packing import WriterMark
from streamlet.histogram import Histogram
from streamlet.kafka.ports import PartitionBatch
from streamlet.logs import get_logger
from streamlet.processing.edges.filter import EdgeFilter
from streamlet.processing.edges.held_columns import ColumnRun, runs_of
from streamlet.processing.edges.held_line import HeldLine
from streamlet.processing.edges.held_records import (
    HEAD_BYTES,
    MARK,
    NO_BASE,
    Head,
    read_base,
    read_head,
    task_of,
)
from streamlet.processing.edges.held_run import HeldRun, joined, markers_of, waits
from streamlet.processing.edges.writer_keys import WriterKeys
from streamlet.types import TopicPartition

log = get_logger(__name__)

#: Marks of writers that a note has at most; those that are needed go before the others.
MOST_MARKS = 192
_ALWAYS = 1 << 62
#: All prefixes of repartition topics begin with this.
_ANY_MARK = MARK[:7]
_FIRST_OF = itemgetter(0)
#: Higher than each period and commit.
_NOTHING = (_ALWAYS << 2, 0)


@attrs.frozen
class _Word:
    """Records with one head, or a marker, of which it is not known who wrote it."""

    head: Head
    base: tuple[int, int]
    data: bytes
    offset: int
    since_ms: int
    run: HeldRun | None


class HeldReader:
    """The reader of one input partition of a repartition topic.

    Args:
        note: of the commit that it begins at.
        position: of that.
        others: filters records that do not wait.
        keys: of the writers.
        writers: the subtopologies whose tasks write to the topic.
        ordered: whether nothing is released before what lies before it in the topic, so that
            places are offsets; then a writer that is away holds back all others.
    """

    def __init__(
        self,
        note: InputNote,
        position: int,
        others: EdgeFilter,
        keys: WriterKeys,
        writers: frozenset[int],
        *,
        ordered: bool = False,
    ) -> None:
        self._others, self._ordered = others, ordered
        self._keys, self._subtopologies = keys, writers
        #: Words whose writer is not known yet, and what was known when they were last looked at.
        self._aside: deque[_Word] = deque()
        self._judged = keys.version
        self._where = TopicPartition("", 0)
        self._read = self._next_place = position
        self._lines = {
            writer: HeldLine.of(mark, ordered=ordered) for writer, mark in note.held.items()
        }
        #: Plain records below this offset were processed: before the reader began, and by now.
        self._plain_before = self._plain_behind = note.plain
        #: Places below this one are offsets.
        self._since, self._active = position, False
        if note.held or note.plain > position:
            self._activate(position)
        #: Released and not processed; and in order, from the first that is not released on.
        self._waiting: deque[HeldRun] = deque()
        self._ordering: deque[HeldRun] = deque()
        #: Behind undecided ones: others, of which no mark tells, and decided ones between these.
        self._passing: deque[HeldRun] = deque()
        self._released: list[HeldRun] = []
        #: Records dropped so far, by kind; ``forged``: another than their task wrote them.
        self.dropped = Counter({"replay": 0, "zombie": 0, "uncommitted": 0, "forged": 0})
        #: Words of that kind.
        self.refused = 0
        #: How long released records had waited.
        self.waits = Histogram()

    def take(self, raw: PartitionBatch, now_ms: int) -> tuple[PartitionBatch, int]:
        """The records that are to be processed now, and the place behind them.

        An empty batch has those looked at whose writer was not known.
        """
        self._where = TopicPartition(raw.topic, raw.partition)
        self._judge_again()
        if len(raw):
            self._read = raw.offsets[-1] + 1
        if not self._active:
            taken = self._taken(raw)
            if taken is not None:
                self._next_place = self._read
                return taken, self._read
            self._activate(raw.offsets[0])
        for run in runs_of(raw.values):
            if run.bears:
                self._words(run, raw, now_ms)
            else:
                self._pass(raw.slice(run.start, run.end), now_ms)
        return self._given(now_ms)

    @property
    def may_go_on(self) -> bool:
        """True if an empty batch may release records."""
        return bool(self._aside) and self._judged != self._keys.version

    def skip(self, offset: int, *, lost: bool = True) -> int:
        """Go on behind records that are gone, ``lost`` or none; the place behind what was read."""
        if not self._active:
            self._next_place = offset
        if lost:
            self._others.skip(self._next_place)
        self._read = offset
        return self._next_place

    def end(self, offset: int) -> int:
        """An end of the partition to compare with places: higher than all where there is more."""
        if not self._active:
            return offset
        return _ALWAYS if offset > self._read else 0

    def advance(self, place: int) -> None:
        """Note that records before this place were processed."""
        waiting = self._waiting
        while waiting:
            run = waiting[0]
            done = max(bisect_left(run.places, place), run.done)
            if done > run.done:
                self._note_processed(run, run.offsets[done - 1] + 1)
            run.done = done
            if done < len(run):
                break
            waiting.popleft()
        self._others.advance(place)

    def _note_processed(self, run: HeldRun, behind: int) -> None:
        if run.writer < 0:
            self._plain_behind = behind
        else:
            self._lines[run.writer].mark = WriterMark(run.period, run.number, behind)

    def position(self, place: int) -> int:
        """The position that a commit may write once all before this place was processed."""
        self.advance(place)
        return self._first() if self._active and place >= self._since else place

    def _first(self) -> int:
        """The offset of the first record that was not processed, or behind what was read."""
        found = [run.offsets[run.done] if run.again is None else run.again for run in self._waiting]
        behind = (*self._ordering, *self._passing)
        found += [run.offsets[0] if run.again is None else run.again for run in behind if len(run)]
        return min(*found, self._undecided) if found else self._undecided

    @property
    def _undecided(self) -> int:
        """The offset of the first record that is not decided, or behind what was read."""
        found = [at for one in self._lines.values() if (at := one.first) is not None]
        found += [word.offset for word in self._aside]
        return min(found, default=self._read)

    @property
    def note(self) -> InputNote:
        """The note of a commit of the position that ``advance`` was last called for."""
        note = self._others.note
        if not self._active:
            return note
        position = self._first()
        left = self._left()
        marks: list[tuple[bool, int, int, WriterMark]] = []
        for writer, one in self._lines.items():
            first = min(left.get(writer, _NOTHING), (one.period, one.accepted + 1))
            period, number = max(first, one.begun)
            behind, same = one.mark.behind, one.mark.number == number
            beyond = one.mark.period == period and behind > position
            told = behind if beyond and (same or self._ordered) else 0
            marks.append((not beyond, -behind, writer, WriterMark(period, number, told)))
        marks.sort()
        needed = sum(not dispensable for dispensable, *_ in marks)
        chosen = marks[: max(needed, MOST_MARKS)]
        held = {writer: mark for *_, writer, mark in chosen if mark.period}
        plain = self._plain_behind if self._plain_behind > position else 0
        return attrs.evolve(note, held=held, plain=plain)

    def _left(self) -> dict[int, tuple[int, int]]:
        """The lowest period and commit of each writer of which records are not processed."""
        left: dict[int, tuple[int, int]] = {}
        for run in (*self._waiting, *self._ordering, *self._passing):
            if len(run):  # else no record of it counts
                left[run.writer] = min(left.get(run.writer, _NOTHING), (run.period, run.number))
        return left

    @property
    def held(self) -> int:
        """Records that wait for a decision."""
        return sum(len(run) for one in self._lines.values() for run in one.held)

    @property
    def oldest(self) -> tuple[int, int] | None:
        """The writer whose decision was waited for longest, and since when, ms; None: none is."""
        heads = ((one.held[0].since_ms, writer) for writer, one in self._lines.items() if one.held)
        since_ms, writer = min(heads, default=(0, -1))
        return None if writer < 0 else (writer, since_ms)

    # Words: records and markers that tell what was accepted.

    def _activate(self, position: int) -> None:
        """From now on records are released in another order than they lie in the topic."""
        self._active = True
        self._since = self._next_place = position
        self._others.buffer()

    def _taken(self, raw: PartitionBatch) -> PartitionBatch | None:
        """The new ones of records that do not wait; None if some wait."""
        if _are_plain(raw.values):
            return raw
        taken = self._others.take_origins(raw)
        if taken is not None:
            return taken
        bear = [value is not None and value.startswith(_ANY_MARK) for value in raw.values]
        if not any(bear):
            return raw
        return None if any(map(waits, raw.values)) else self._others.take_mixed(raw, bear)

    def _pass(self, raw: PartitionBatch, now_ms: int) -> None:
        """Release records that do not wait, but for those that were processed before."""
        if raw.offsets[0] < self._plain_before:
            count = bisect_left(raw.offsets, self._plain_before)
            self.dropped["replay"] += count
            raw = raw.slice(count, len(raw))
            if not len(raw):
                return
        columns = raw.offsets, raw.keys, raw.values, raw.timestamps, raw.headers
        run = HeldRun(-1, 0, 0, now_ms, *columns, dict(raw.unreadable or {}))
        run.decided = True
        if self._ordered:
            self._ordering.append(run)
        elif self._passing or self._undecided < raw.offsets[0]:
            self._passing.append(run)
        else:
            self._released.append(run)

    def _words(self, run: ColumnRun, raw: PartitionBatch, now_ms: int) -> None:
        """Take the records of a run of this batch, or its markers."""
        value, offset = raw.values[run.start], raw.offsets[run.start]
        assert value is not None
        data = value[:HEAD_BYTES]
        head = read_head(data)
        if head.marker:
            for own, marker in markers_of(raw.slice(run.start, run.end)):
                (value,) = marker.values
                assert value is not None
                facts = read_base(value), value[:HEAD_BYTES], marker.offsets[0]
                self._word(_Word(own, *facts, now_ms, None))
            return
        if not run.whole:
            self._refuse(head, run.end - run.start, offset)
            return
        held = HeldRun.of(head, raw, run, now_ms, alone=self._ordered)
        if self._ordered:
            self._ordering.append(held)
        self._word(_Word(head, NO_BASE, data, offset, now_ms, held))

    def _word(self, word: _Word) -> None:
        if not self._decide(word):
            self._aside.append(word)

    def _judge_again(self) -> None:
        """Look at what was put aside, if more is known by now."""
        if self.may_go_on:
            self._judged = self._keys.version
            aside, self._aside = self._aside, deque()
            self._aside.extend(word for word in aside if not self._decide(word))

    def _decide(self, word: _Word) -> bool:
        """Take a word, or refuse it; False if it is not known whether its task wrote it."""
        head, run = word.head, word.run
        line = self._lines.get(head.writer)
        if line is None or head.marker or word.data != line.head:
            found: bool | None = False
            if head.writer >> 32 in self._subtopologies:
                found = self._keys.judge(head, word.base, word.since_ms)
            if not found:
                if found is not None:
                    self._refuse(head, 0 if run is None else len(run), word.offset)
                    if run is not None:
                        run.clear()
                return found is not None
            line = self._lines.setdefault(head.writer, HeldLine(ordered=self._ordered))
            line.head = b"" if head.marker else word.data
        for taken in line.word(head, word.base, run, self.dropped):
            self._put(taken)
        return True

    def _refuse(self, head: Head, records: int, offset: int) -> None:
        """Count what another than the task wrote in its name; name it, ever more seldom."""
        self.refused += 1
        self.dropped["forged"] += records
        if self.refused & (self.refused - 1) == 0:
            log.warning(
                "%s: what is at offset %d says that task %s wrote it, in period %d, and it did "
                "not: it counts for nothing (%d so far)",
                *(self._where, offset, task_of(head.writer), head.period, self.refused),
            )

    def _put(self, run: HeldRun) -> None:
        """Release a decided run, or put it among plain ones: never before its writer's last one."""
        passing, at = self._passing, run.offsets[0]
        if not passing:
            if not self._ordered:
                self._released.append(run)
            return
        same = (n for n, one in enumerate(passing, 1) if one.writer == run.writer)
        last = max(same, default=0)
        if not last and at < passing[0].offsets[0]:
            self._released.append(run)
            return
        later = (n for n, one in enumerate(passing) if one.writer < 0 and one.offsets[0] > at)
        passing.insert(max(last, next(later, len(passing))), run)

    # What goes to the task.

    def _given(self, now_ms: int) -> tuple[PartitionBatch, int]:
        """The released records as one batch, with their places, and the place behind them."""
        ordering = self._ordering
        while ordering and ordering[0].decided:
            self._released.append(ordering.popleft())
        while self._passing and self._passing[0].offsets[0] < self._undecided:
            self._released.append(self._passing.popleft())
        runs, self._released = [run for run in self._released if len(run)], []
        if self._ordered and not ordering:
            after = self._read
        elif self._ordered:
            after = ordering[0].offsets[0]
        else:
            after = self._next_place + sum(map(len, runs))
        place = self._next_place
        for run in runs:
            run.places = run.offsets if self._ordered else range(place, place + len(run))
            place += len(run)
            self._count_wait(run, now_ms)
        self._next_place = after
        batch = joined(self._where, [self._filtered(run) for run in runs])
        for run in runs:
            run.given()
        self._waiting.extend(runs)
        return batch, after

    def _filtered(self, run: HeldRun) -> PartitionBatch:
        part = run.batch(self._where)
        return self._others.take(part) if run.writer < 0 else part

    def _count_wait(self, run: HeldRun, now_ms: int) -> None:
        if run.writer >= 0:
            self.waits.add((now_ms - run.since_ms) / 1000, len(run))


def _are_plain(values: Sequence[bytes | None]) -> bool:
    """True if none of these has a prefix; the first of them mostly tells that some have."""
    if values and values[0] and values[0][0] == _ANY_MARK[0]:
        return False
    return _ANY_MARK[0] not in map(_FIRST_OF, filter(None, values))
