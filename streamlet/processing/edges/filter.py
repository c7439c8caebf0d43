"""Drops repetitions before the reader of an exact repartition topic.

Each record says its origin and the one before it on its edge. What is not higher than the highest
origin applied is a repetition. What does not follow on what was applied stands behind a record
whose delivery failed: that one will be written again, and this one after it. So both are dropped.
Records without a prefix pass: a writer that is not exact wrote them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from itertools import groupby, islice, repeat
from operator import eq, or_

import attrs

from streamlet.coordinator.commit_metadata import InputNote
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.edges.records import MARK, Prefixes, unpack

#: What is dropped: ``replay`` had been applied, ``gap`` comes again behind one that is missing,
#: ``zombie`` is of an incarnation that is over.
KINDS = ("replay", "gap", "zombie")

_MARK_BYTES = MARK.to_bytes(8, "little")


class EdgeFilter:
    """The filter of one input partition, with the origins that its records had so far.

    Args:
        note: of the commit that the task begins at.
        buffered: whether records that passed may wait before they are processed. Then ``note``
            tells what was applied up to the position that ``advance`` was last called with.
    """

    def __init__(self, note: InputNote, *, buffered: bool = False) -> None:
        self.incarnation = note.incarnation
        self._applied = dict(note.applied)
        self._loose = set(note.loose)
        self._open = note.open
        #: Passed but not processed yet: offset, edge and origin; without an edge: records skipped.
        self._waiting: deque[tuple[int, int | None, int]] | None = deque() if buffered else None
        self._processed = note
        #: Records dropped so far, by kind.
        self.dropped = Counter(dict.fromkeys(KINDS, 0))

    @property
    def note(self) -> InputNote:
        """The note of a commit of the present position."""
        if self._waiting is not None:
            return self._processed
        return InputNote(self.incarnation, dict(self._applied), frozenset(self._loose), self._open)

    def take(self, raw: PartitionBatch) -> PartitionBatch:
        """The records that are new, with their values as they were before the prefix."""
        found = unpack(raw.values)
        if found is not None:
            return self._filtered(raw, found)
        bears = [value is not None and value.startswith(_MARK_BYTES) for value in raw.values]
        if not any(bears):
            return raw
        return self._mixed(raw, bears)

    def skip(self, offset: int) -> None:
        """Expect no record from ``offset`` on to follow on what was applied: some were skipped."""
        self._open = True
        self._loose = set(self._applied)
        if self._waiting is not None:
            self._waiting.append((offset - 1, None, 0))

    def advance(self, position: int) -> None:
        """Note that records before ``position`` were processed."""
        waiting = self._waiting
        if not waiting or waiting[0][0] >= position:
            return
        note = self._processed
        applied, loose = dict(note.applied), set(note.loose)
        is_open = note.open
        while waiting and waiting[0][0] < position:
            _, edge, origin = waiting.popleft()
            if edge is None:
                is_open, loose = True, set(applied)
                continue
            if edge not in applied:
                _forget_earlier(applied, loose, edge)
            applied[edge] = origin
            loose.discard(edge)
        self._processed = InputNote(note.incarnation, applied, frozenset(loose), is_open)

    def _filtered(self, raw: PartitionBatch, found: Prefixes) -> PartitionBatch:
        keep = self._keep(raw.offsets, found)
        where, offsets, keys = (raw.topic, raw.partition), raw.offsets, raw.keys
        bare = PartitionBatch(
            *where, offsets, keys, found.values, raw.timestamps, raw.headers, raw.unreadable
        )
        return bare if all(keep) else bare.select(keep)

    def _keep(self, offsets: Sequence[int], found: Prefixes) -> list[bool]:
        keep: list[bool] = []
        start = 0
        for edge, run in groupby(found.edges):
            end = start + sum(1 for _ in run)
            keep += self._keep_run(edge, found.origins[start:end], found.previous[start:end])
            start = end
        if self._waiting is not None:
            rows_kept = zip(offsets, found.edges, found.origins, keep, strict=True)
            self._waiting.extend(
                (offset, edge, origin | 1) for offset, edge, origin, kept in rows_kept if kept
            )
        return keep

    def _keep_run(self, edge: int, origins: Sequence[int], previous: Sequence[int]) -> list[bool]:
        """Decide on consecutive records of one edge: at once, if each follows on the one before."""
        applied, loose = self._applied, self._loose
        high = applied.get(edge, 0)
        in_order = all(map(eq, islice(previous, 1, None), map(or_, origins, repeat(1))))
        if in_order and high and previous[0] <= high < origins[0]:
            applied[edge] = origins[-1] | 1
            loose.discard(edge)
            return [True] * len(origins)
        keep = []
        for origin, before in zip(origins, previous, strict=True):
            high = applied.get(edge, 0)
            if origin <= high:
                keep.append(False)
                self.dropped["replay"] += 1
            elif not high and self._is_over(edge):
                keep.append(False)
                self.dropped["zombie"] += 1
            elif before > high and not self._may_leap(edge, high):
                keep.append(False)
                self.dropped["gap"] += 1
            else:
                keep.append(True)
                if not high:
                    _forget_earlier(applied, loose, edge)
                applied[edge] = origin | 1
                loose.discard(edge)
        return keep

    def _is_over(self, edge: int) -> bool:
        """True for an earlier incarnation of a known source: what a zombie still writes."""
        return any(one > edge for one in self._applied if one >> 32 == edge >> 32)

    def _may_leap(self, edge: int, high: int) -> bool:
        return edge in self._loose if high else self._open

    def _mixed(self, raw: PartitionBatch, bears: Sequence[bool]) -> PartitionBatch:
        """The slow way: some records bear a prefix and some do not."""
        keep: list[bool] = []
        values = list(raw.values)
        for at, prefixed in enumerate(bears):
            found = unpack([values[at]]) if prefixed else None
            if found is None:
                keep.append(True)
            else:
                keep += self._keep([raw.offsets[at]], found)
                values[at : at + 1] = found.values
        return attrs.evolve(raw, values=values).select(keep)


def _forget_earlier(applied: dict[int, int], loose: set[int], edge: int) -> None:
    """Take out earlier incarnations of an edge that begins."""
    for one in [one for one in applied if one >> 32 == edge >> 32]:
        del applied[one]
        loose.discard(one)
