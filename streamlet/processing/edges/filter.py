"""Drops repetitions before the reader of an exact repartition topic.

Each record says its origin and the one before it on its edge. What is not higher than the highest
origin applied is a repetition. What does not follow on what was applied stands behind a record
whose delivery failed: that one will be written again, and this one after it. So both are dropped.
Records without a prefix pass: a writer that is not exact wrote them. An origin that no record can
have is dropped too; one that is forged and could be silences none before it (``edges.applied``).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from itertools import repeat

import attrs

from streamlet.coordinator.commit_metadata import InputNote
from streamlet.kafka.ports import PartitionBatch
from streamlet.logs import get_logger
from streamlet.processing.edges.applied import LEAP, Applied
from streamlet.processing.edges.records import (
    MARK,
    OriginRun,
    Prefixes,
    cut,
    runs_of,
    unpack,
)

log = get_logger(__name__)

#: What is dropped: ``replay`` had been applied, ``gap`` comes again behind one that is missing,
#: ``zombie`` is of an incarnation that is over, ``beyond`` has an origin that cannot be.
KINDS = ("replay", "gap", "zombie", "beyond")

_MARK_BYTES = MARK.to_bytes(8, "little")


class EdgeFilter:
    """The filter of one input partition, with the origins that its records had so far.

    Args:
        note: of the commit that the task begins at.
        buffered: whether records that passed may wait before they are processed. Then ``note``
            tells what was applied up to the position that ``advance`` was last called with.
        sources: those that lead to the topic (``records.source_of``), as far as known.
    """

    def __init__(
        self, note: InputNote, *, buffered: bool = False, sources: Collection[int] = ()
    ) -> None:
        self.incarnation = note.incarnation
        self._applied = Applied(note, sources)
        #: Passed but not processed yet: offset, edge and origin; without an edge: records skipped.
        self._waiting: deque[tuple[int, int | None, int]] | None = deque() if buffered else None
        self._processed = Applied(note, sources)
        #: Records dropped so far, by kind.
        self.dropped = Counter(dict.fromkeys(KINDS, 0))
        self._healed = 0

    @property
    def note(self) -> InputNote:
        """The note of a commit of the present position."""
        found = self._applied if self._waiting is None else self._processed
        return found.note(self.incarnation)

    def take(self, raw: PartitionBatch) -> PartitionBatch:
        """The records that are new, with their values as they were before the prefix."""
        found = self.take_origins(raw)
        if found is not None:
            return found
        bear = [value is not None and value.startswith(_MARK_BYTES) for value in raw.values]
        return self.take_mixed(raw, bear) if any(bear) else raw

    def take_origins(self, raw: PartitionBatch) -> PartitionBatch | None:
        """The result of ``take`` if all records bear a prefix; else None."""
        if self._waiting is None:
            found = cut(raw.values)
            if found is None:
                return None
            if self._go_on(found[0]):
                return attrs.evolve(raw, values=found[1])
        prefixes = unpack(raw.values)
        return None if prefixes is None else self._filtered(raw, prefixes)

    def buffer(self) -> None:
        """From now on records that passed may wait before they are processed."""
        if self._waiting is None:
            self._waiting = deque()
            self._processed = self._applied.copy()

    def skip(self, offset: int) -> None:
        """Expect no record from ``offset`` on to follow on what was applied: some were skipped."""
        self._applied.skip()
        if self._waiting is not None:
            self._waiting.append((offset - 1, None, 0))

    def advance(self, position: int) -> None:
        """Note that records before ``position`` were processed."""
        waiting, processed = self._waiting, self._processed
        while waiting and waiting[0][0] < position:
            _, edge, origin = waiting.popleft()
            if edge is None:
                processed.skip()
            else:
                processed.add(edge, origin)

    def _filtered(self, raw: PartitionBatch, found: Prefixes) -> PartitionBatch:
        keep = self._keep(raw, raw.offsets, found)
        where, offsets, keys = (raw.topic, raw.partition), raw.offsets, raw.keys
        bare = PartitionBatch(
            *where, offsets, keys, found.values, raw.timestamps, raw.headers, raw.unreadable
        )
        return bare if all(keep) else bare.select(keep)

    def _keep(self, raw: PartitionBatch, offsets: Sequence[int], found: Prefixes) -> list[bool]:
        keep: list[bool] = []
        start = 0
        for run in runs_of(found):
            end = start + run.length
            if self._goes_on(run, self._applied.high.get(run.edge, 0)):
                self._apply({run.edge: run.last | 1})
                keep += [True] * run.length
            else:
                rows = slice(start, end)
                columns = offsets[rows], repeat(run.edge), found.origins[rows], found.previous[rows]
                keep += map(self._counts, repeat(raw), *columns)
            start = end
        if self._waiting is not None:
            rows_kept = zip(offsets, found.edges, found.origins, keep, strict=True)
            self._waiting.extend(
                (offset, edge, origin | 1) for offset, edge, origin, kept in rows_kept if kept
            )
        return keep

    def _go_on(self, runs: Sequence[OriginRun]) -> bool:
        """True if these all go on, one behind the other, which then is noted."""
        high: dict[int, int] = {}
        for run in runs:
            before = high.get(run.edge, 0) or self._applied.high.get(run.edge, 0)
            if not self._goes_on(run, before):
                return False
            high[run.edge] = run.last | 1
        self._apply(high)
        return True

    def _apply(self, high: Mapping[int, int]) -> None:
        self._applied.high.update(high)
        self._applied.loose.difference_update(high)

    def _goes_on(self, run: OriginRun, high: int) -> bool:
        """True if consecutive records of one edge follow each on the one before, without a leap.

        What follows on a forged record is forged too, so a leap is in the first step or the last
        one, or is far above all steps together.
        """
        if not high or self._applied.young or not run.before <= high < run.first <= high + LEAP:
            return False
        if run.length > 1 and not 0 < run.step <= LEAP:
            return False
        return run.last - high <= LEAP * run.length and run.follow

    def _counts(
        self, raw: PartitionBatch, offset: int, edge: int, origin: int, before: int
    ) -> bool:
        """True for a record that is new, which is noted."""
        applied = self._applied
        high = applied.high.get(edge, 0)
        kind = ""
        if origin <= high:
            if applied.leapt_over(edge, origin | 1, before):
                self._healed += 1
                self._tell(raw, offset, "goes on before an origin that was met", self._healed)
            else:
                kind = "replay"
        elif not high and applied.is_over(edge):
            kind = "zombie"
        elif not applied.may_be(edge, origin):
            kind = "beyond"
            self._tell(raw, offset, "has an origin that cannot be", 1 + self.dropped[kind])
        elif before > high and not (edge in applied.loose if high else applied.open):
            kind = "gap"
        if kind:
            self.dropped[kind] += 1
        else:
            applied.add(edge, origin | 1)
        return not kind

    def _tell(self, raw: PartitionBatch, offset: int, what: str, count: int) -> None:
        """Name a record of forged ones, ever more seldom."""
        if count & (count - 1) == 0:
            log.warning(
                "%s-%d: the record at offset %d %s: another than streamlet wrote to the topic"
                " (%d so far)",
                *(raw.topic, raw.partition, offset, what, count),
            )

    def take_mixed(self, raw: PartitionBatch, bears: Sequence[bool]) -> PartitionBatch:
        """Take the slow way where only those may bear a prefix that ``bears`` is true of."""
        keep: list[bool] = []
        values = list(raw.values)
        for at, prefixed in enumerate(bears):
            found = unpack([values[at]]) if prefixed else None
            if found is None:
                keep.append(True)
            else:
                keep += self._keep(raw, [raw.offsets[at]], found)
                values[at : at + 1] = found.values
        return attrs.evolve(raw, values=values).select(keep)
