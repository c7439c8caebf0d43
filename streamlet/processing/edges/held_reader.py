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

import attrs

from streamlet.coordinator.commit_metadata import InputNote, WriterMark
from streamlet.histogram import Histogram
from streamlet.kafka.ports import PartitionBatch
from streamlet.logs import get_logger
from streamlet.processing.edges import held_records
from streamlet.processing.edges.filter import EdgeFilter
from streamlet.processing.edges.held_records import MARK, Head, read_base, task_of
from streamlet.processing.edges.held_run import HeldRun, markers_of, runs_of, waits
from streamlet.processing.edges.prefix_bounds import PrefixBounds

log = get_logger(__name__)

#: Marks of writers that a note has at most; those that are needed go before the others.
MOST_MARKS = 256
_ALWAYS = 1 << 62
#: All prefixes of repartition topics begin with this.
_ANY_MARK = MARK[:7]


@attrs.define
class _Writer:
    """The facts known of one writer.

    Attributes:
        period: the highest one that is known to have begun.
        accepted: its last commit that is known to be accepted.
        mark: the highest sequence of it that was taken.
        processed: period and sequence of the last record that was processed.
        at: its offset; where that is not known, one above all.
        held: what is undecided, in order.
    """

    period: int = 0
    accepted: int = 0
    mark: int = 0
    processed: tuple[int, int] = (0, 0)
    at: int = -1
    held: deque[HeldRun] = attrs.field(factory=deque)


class HeldReader:
    """The reader of one input partition of a repartition topic.

    Args:
        note: of the commit that it begins at.
        position: of that.
        others: filters records that do not wait.
        bounds: of what prefixes say. A record whose prefix is beyond them does not wait.
        ordered: whether nothing is released before what lies before it in the topic, so that
            places are offsets; then a writer that is away holds back all others.
    """

    def __init__(
        self,
        note: InputNote,
        position: int,
        others: EdgeFilter,
        bounds: PrefixBounds,
        *,
        ordered: bool = False,
    ) -> None:
        self._others, self._ordered = others, ordered
        self._bounds = bounds
        #: Whether a prefix that cannot be was named.
        self._named = False
        self._read = self._next_place = position
        self._writers: dict[int, _Writer] = {
            writer: _Writer(
                mark.period,
                mark=mark.sequence,
                processed=(mark.period, mark.sequence),
                at=_ALWAYS if mark.sequence else -1,
            )
            for writer, mark in note.held.items()
        }
        #: Places below this one are offsets.
        self._since, self._active = position, False
        if note.held:
            self._activate(position)
        #: Released and not processed, in order; where places are offsets, what is behind something
        #: that is not released.
        self._waiting: deque[HeldRun] = deque()
        self._ordering: deque[HeldRun] = deque()
        self._released: list[HeldRun] = []
        #: Records dropped so far, by kind.
        self.dropped = Counter({"replay": 0, "zombie": 0, "uncommitted": 0})
        #: How long released records had waited.
        self.waits = Histogram()

    def take(self, raw: PartitionBatch, now_ms: int) -> tuple[PartitionBatch, int]:
        """The records that are to be processed now, and the place behind them."""
        self._read = raw.offsets[-1] + 1
        if not self._active:
            taken = self._taken(raw)
            if taken is not None:
                self._next_place = self._read
                return taken, self._read
            self._activate(raw.offsets[0])
        for head, start, end in runs_of(raw):
            part = raw if end - start == len(raw) else raw.slice(start, end)
            if head is None:
                self._pass(part, now_ms)
            elif not head.marker:
                self._word(head, part, now_ms)
            else:
                for own, marker in markers_of(part):
                    self._word(own, marker, now_ms)
        return self._given(raw, now_ms)

    def skip(self, offset: int) -> int:
        """Go on at a later offset, behind records that are gone; the place behind what was read."""
        if not self._active:
            self._others.skip(offset)
            self._next_place = offset
        else:
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
            if done > run.done and run.writer >= 0:
                writer = self._writers[run.writer]
                writer.processed = run.period, run.sequences[done - 1]
                writer.at = run.offsets[done - 1]
            run.done = done
            if done < len(run):
                break
            waiting.popleft()
        self._others.advance(place)

    def position(self, place: int) -> int:
        """The position that a commit may write once all before this place was processed."""
        self.advance(place)
        return self._first() if self._active and place >= self._since else place

    def _first(self) -> int:
        """The offset of the first record that was not processed, or behind what was read."""
        found = [run.offsets[run.done] for run in self._waiting]
        found += [run.offsets[0] for run in self._ordering if len(run)]
        found += [one.held[0].offsets[0] for one in self._writers.values() if one.held]
        return min(found, default=self._read)

    @property
    def note(self) -> InputNote:
        """The note of a commit of the position that ``advance`` was last called for."""
        note = self._others.note
        if not self._writers:
            return note
        position = self._first()
        first: dict[int, int] = {}
        for run in (*self._waiting, *self._ordering):
            first.setdefault(run.writer, run.period)
        marks: list[tuple[bool, int, int, WriterMark]] = []
        for number, one in self._writers.items():
            period = min(first.get(number, one.period), one.period)
            sequence = one.processed[1] if one.processed[0] == period else 0
            marks.append((one.at < position, -one.at, number, WriterMark(period, sequence)))
        marks.sort()
        needed = sum(not dispensable for dispensable, *_ in marks)
        chosen = marks[: max(needed, MOST_MARKS)]
        held = {number: mark for *_, number, mark in chosen if mark.period}
        return attrs.evolve(note, held=held)

    @property
    def held(self) -> int:
        """Records that wait for a decision."""
        return sum(len(run) for one in self._writers.values() for run in one.held)

    @property
    def oldest(self) -> tuple[int, int] | None:
        """The writer whose decision was waited for longest, and since when, ms; None: none is."""
        heads = (
            (one.held[0].since_ms, writer) for writer, one in self._writers.items() if one.held
        )
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
        taken = self._others.take_origins(raw)
        if taken is not None:
            return taken
        bear = [value is not None and value.startswith(_ANY_MARK) for value in raw.values]
        if not any(bear):
            return raw
        return None if any(map(waits, raw.values)) else self._others.take_mixed(raw, bear)

    def _pass(self, raw: PartitionBatch, now_ms: int) -> None:
        """Release records that do not wait."""
        columns = list(raw.offsets), raw.keys, raw.values, raw.timestamps, raw.headers
        run = HeldRun(-1, 0, 0, now_ms, [], *columns, dict(raw.unreadable or {}))
        run.decided = True
        self._put(run)

    def _refuse(self, head: Head, raw: PartitionBatch, now_ms: int) -> None:
        """Let records with a forged prefix pass without it; a marker tells nothing then."""
        if not self._named:
            self._named = True
            log.warning(
                "%s-%d has a prefix at offset %d that no task can have written (task %s, period "
                "%d): a record like this does not wait for a commit, a marker counts for nothing",
                *(raw.topic, raw.partition, raw.offsets[0], task_of(head.writer), head.period),
            )
        found = None if head.marker else held_records.unpack(raw.values)  # type: ignore[arg-type]
        if found is not None:
            columns = raw.offsets, raw.keys, found[1], raw.timestamps, raw.headers, raw.unreadable
            self._pass(PartitionBatch(raw.topic, raw.partition, *columns), now_ms)

    def _word(self, head: Head, raw: PartitionBatch, now_ms: int) -> None:
        known = self._writers.get(head.writer)
        period = None if known is None else known.period
        if not self._bounds.allow(head, period, len(self._writers), now_ms):
            self._refuse(head, raw, now_ms)
            return
        writer = self._writers.setdefault(head.writer, _Writer())
        values: list[bytes] = raw.values  # type: ignore[assignment]
        if head.period < writer.period:
            self.dropped["zombie"] += 0 if head.marker else len(values)
            return
        if head.period > writer.period and not self._opens(writer, head, values[0]):
            self._hold(writer, head, raw, now_ms)
            return
        if head.accepted > writer.accepted:
            writer.accepted = head.accepted
            self._decide(writer)
        if not head.marker:
            self._hold(writer, head, raw, now_ms)
            if head.number <= writer.accepted:
                self._decide(writer)

    def _opens(self, writer: _Writer, head: Head, value: bytes) -> bool:
        """Begin another period of a writer, unless no marker says so yet that must come."""
        if head.marker:
            self._undo(writer, *read_base(value), below=head.period)
        elif head.accepted > 0 or not (writer.period or writer.held):
            self._undo(writer, 0, 0, below=head.period)
        else:
            return False
        writer.period, writer.accepted, writer.mark = head.period, 0, 0
        return True

    def _undo(self, writer: _Writer, period: int, number: int, *, below: int) -> None:
        """Release what is held of commits up to this one, drop the rest of earlier periods."""
        held, writer.held = writer.held, deque()
        mark = writer.mark if period == writer.period else 0
        for run in held:
            if run.period >= below:
                writer.held.append(run)
            elif run.period == period and run.number <= number:
                mark = self._take(run, mark)
            else:
                self.dropped["uncommitted"] += len(run)
                run.decided = True
                run.behind(_ALWAYS)

    def _hold(self, writer: _Writer, head: Head, raw: PartitionBatch, now_ms: int) -> None:
        found = held_records.unpack(raw.values)  # type: ignore[arg-type]
        if found is None:
            self._pass(raw, now_ms)
            return
        run = HeldRun.of(head, raw, *found, now_ms)
        run.ascend()
        last = writer.held[-1] if writer.held else None
        if last is not None and not self._ordered and last.goes_on_with(run):
            last.extend(run)
            return
        writer.held.append(run)
        if self._ordered:
            self._ordering.append(run)

    def _decide(self, writer: _Writer) -> None:
        """Release what is held of commits of the present period that were accepted."""
        held = writer.held
        while held and held[0].period == writer.period and held[0].number <= writer.accepted:
            writer.mark = self._take(held.popleft(), writer.mark)

    def _take(self, run: HeldRun, mark: int) -> int:
        """Release records, but for those up to this sequence; the highest one then."""
        count = len(run)
        run.behind(mark)
        self.dropped["replay"] += count - len(run)
        run.decided = True
        if not len(run):
            return mark
        if not self._ordered:
            self._put(run)
        return run.sequences[-1]

    def _put(self, run: HeldRun) -> None:
        (self._ordering if self._ordered else self._released).append(run)

    # What goes to the task.

    def _given(self, raw: PartitionBatch, now_ms: int) -> tuple[PartitionBatch, int]:
        """The released records as one batch, with their places, and the place behind them."""
        ordering = self._ordering
        while ordering and ordering[0].decided:
            self._released.append(ordering.popleft())
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
        self._waiting.extend(runs)
        return self._batch(raw, runs), after

    def _batch(self, raw: PartitionBatch, runs: list[HeldRun]) -> PartitionBatch:
        parts = [self._filtered(raw, run) for run in runs]
        parts = [part for part in parts if len(part)]
        if len(parts) == 1:
            return parts[0]
        joined = PartitionBatch(raw.topic, raw.partition, [], [], [], [])
        if any(part.headers is not None for part in parts):
            joined.headers = [one for part in parts for one in part.headers or [None] * len(part)]
        for part in parts:
            joined.keys += part.keys
            joined.values += part.values
            joined.timestamps += part.timestamps
        joined.offsets = _joined([part.offsets for part in parts])
        unreadable = {
            place: why for part in parts for place, why in (part.unreadable or {}).items()
        }
        joined.unreadable = unreadable or None
        return joined

    def _filtered(self, raw: PartitionBatch, run: HeldRun) -> PartitionBatch:
        unreadable = None
        if run.unreadable:
            pairs = zip(run.offsets, run.places, strict=True)
            unreadable = {at: run.unreadable[old] for old, at in pairs if old in run.unreadable}
        columns = run.keys, run.values, run.timestamps, run.headers, unreadable
        part = PartitionBatch(raw.topic, raw.partition, run.places, *columns)
        return self._others.take(part) if run.writer < 0 else part

    def _count_wait(self, run: HeldRun, now_ms: int) -> None:
        if run.writer >= 0:
            self.waits.add((now_ms - run.since_ms) / 1000, len(run))


def _joined(parts: Sequence[Sequence[int]]) -> Sequence[int]:
    """Rising numbers, part behind part, as a range where they are one."""
    if not parts:
        return []
    found = range(parts[0][0], parts[-1][-1] + 1)
    return found if len(found) == sum(map(len, parts)) else [one for part in parts for one in part]
