"""The operator that folds a stream into a table of sliding windows.

The windows of a key are made as its records come, as in Kafka Streams: one that ends with each
record (its left window), and one that begins one ms behind it (its right window) once that holds a
record. A record updates the windows it falls into, latest first. Then
come those that it makes: the right window of the record before it, its own left one, and its right
one. Records within one difference of the epoch share the window that begins there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from streamlet.dsl.operators.result_columns import ResultColumns
from streamlet.dsl.windowing.one_by_one import Bounds, OneByOne
from streamlet.dsl.windowing.windows import SlidingWindows
from streamlet.serdes.copies import own
from streamlet.serdes.windowed import windowed_of
from streamlet.state.bucket_store import Item


@attrs.frozen
class SlidingChange:
    """A window to write: as it is if ``final``, else with the record added to ``value``.

    ``old`` is the window as it was stored, None for a new one; ``time`` that of its youngest record
    before this one.
    """

    start: int
    value: Any
    time: int
    old: Item | None = None
    final: bool = False


@attrs.frozen
class SlidingWindowed(OneByOne[SlidingWindows]):
    """A fold per key and sliding window."""

    def _add(
        self,
        updates: ResultColumns,
        index: int,
        record: tuple[Any, Any, Any, int],
        observed: int,
        highest: int,
    ) -> tuple[int, Sequence[Bounds]]:
        """Add a record; the latest start, and the windows that it is late for."""
        key, ckey, value, time = record
        size, closed = self.windows.difference_ms, observed - self.windows.grace_ms
        if time + 1 + size <= closed:
            return highest, [(max(0, time - size), max(size, time))]
        changes = list(self._changes(time, self._near(ckey, time, highest)))
        open_ = [c for c in changes if _is_open(c, size, closed)]
        late = [(c.start, c.start + size) for c in changes if not _is_open(c, size, closed)]
        written = self._written(updates, index, key, value, time, open_)
        self.store.replace(ckey, [c.old for c in open_ if c.old is not None], written, time)
        return max(highest, *(item[0] for item in written), -1), late

    def _near(self, ckey: Any, time: int, highest: int) -> list[Item]:
        """The windows that the record may fall into, or that are next to it, by their starts."""
        low, retention = (
            max(0, time - 2 * self.windows.difference_ms),
            self.store.layout.retention_ms,
        )
        if retention is not None:
            low = max(low, highest - retention + 1)
        return self.store.items(ckey, low, time + 1)

    def _written(
        self,
        updates: ResultColumns,
        index: int,
        key: Any,
        value: Any,
        time: int,
        changes: list[SlidingChange],
    ) -> list[Item]:
        """The windows to store; their updates are added when all user functions have succeeded."""
        folding, size = self.folding, self.windows.difference_ms
        written: list[Item] = []
        for change in changes:
            if change.final:
                written.append((change.start, change.time, change.value))
            else:
                new = folding.add(key, own(value), change.value)
                written.append((change.start, max(time, change.time), new))
        for change, (start, latest, new) in zip(changes, written, strict=True):
            old = None if change.old is None else change.old[2]
            updates.change(index, windowed_of((key, start, start + size)), new, old, latest)
        return written

    def _changes(self, time: int, near: list[Item]) -> Iterator[SlidingChange]:
        """The windows that a record changes or makes, in order."""
        size = self.windows.difference_ms
        if time < size:
            yield from self._early(time, near)
            return
        first = self.folding.first
        left = right = before = None
        has_left = has_right = False
        for item in reversed(near):
            start, latest, value = item
            end = start + size
            if start == time + 1:
                has_right = True
            elif end > time:
                right = right or item
                yield SlidingChange(start, value, latest, item)
            elif end == time:
                has_left = True
                yield SlidingChange(start, value, latest, item)
                if latest >= time:
                    return
                before = latest
            else:
                left, before = item, latest
                break
        starts = {item[0] for item in near}
        if before is not None and before + 1 not in starts and before + 1 + size >= time:
            yield SlidingChange(before + 1, first(), time)
        if not has_left:
            holds = left is not None and before is not None and time - size <= before
            yield SlidingChange(time - size, left[2] if holds and left else first(), time)
        if not has_right and right is not None and right[1] > time:
            yield SlidingChange(time + 1, right[2], right[1], final=True)

    def _early(self, time: int, near: list[Item]) -> Iterator[SlidingChange]:
        """The windows of a record whose left window would begin before the epoch."""
        first = self.folding.first
        shared = right = before = None
        has_right = False
        for item in near:
            start, latest, value = item
            if start == 0:
                shared = item
                before = latest if latest < time else None
            elif start <= time:
                right = item
                yield SlidingChange(start, value, latest, item)
            else:
                has_right = True
        if right is None and shared is not None and shared[1] > time:
            right = shared
        if not has_right and right is not None and right[1] > time:
            yield SlidingChange(time + 1, right[2], right[1], final=True)
        if before is not None and before + 1 not in {item[0] for item in near}:
            yield SlidingChange(before + 1, first(), time)
        if shared is None:
            yield SlidingChange(0, first(), time)
        else:
            yield SlidingChange(0, shared[2], shared[1], shared)


def _is_open(change: SlidingChange, size: int, closed: int) -> bool:
    return change.start + size >= closed or change.final
