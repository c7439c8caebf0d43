"""A naive model of sliding windows, late records included: the rules of Kafka Streams, per record.

A record makes up to three windows: the one that ends with it, the one that begins behind it, if a
later record lies there, and the one that begins behind the record before it. All others that hold
its time count it. A closed window counts nothing, but its count still helps to make others.
"""

from __future__ import annotations

from collections import defaultdict

import attrs

from streamlet.dsl.windowing.windows import SlidingWindows
from tests.unit.dsl.window_tasks import Update


@attrs.frozen
class Counted:
    """A window's count, and the time of its latest record."""

    count: int
    latest: int


class SlidingModel:
    """Counts of sliding windows."""

    def __init__(self, windows: SlidingWindows) -> None:
        self.size, self.grace = windows.difference_ms, windows.grace_ms
        self.retention = windows.kept_ms
        self.windows: dict[str, dict[int, Counted]] = defaultdict(dict)
        self.stream_time = self.highest = -1
        self.late = 0

    def add(self, key: str, time: int) -> list[Update]:
        """The updates of a record."""
        self.stream_time = max(self.stream_time, time)
        self.key, self.time, self.updates = key, time, list[Update]()
        if time + 1 + self.size <= self.stream_time - self.grace:
            self.late += 1
        elif time < self.size:
            self.early(self.near(0))
        else:
            self.usual(self.near(max(0, time - 2 * self.size)))
        return self.updates

    def near(self, first: int) -> dict[int, Counted]:
        """Windows that the record may touch, as they are before it, by their starts."""
        first = max(first, self.highest - self.retention + 1)
        mine = self.windows[self.key]
        return {s: mine[s] for s in sorted(mine) if first <= s <= self.time + 1}

    def usual(self, near: dict[int, Counted]) -> None:
        time, size = self.time, self.size
        holding = [s for s in reversed(near) if s <= time and s + size > time]
        for start in holding:
            self.count(start, near[start])
        ends_here, before = near.get(time - size), None
        if ends_here is not None:
            self.count(time - size, ends_here)
            if ends_here.latest == time:
                return  # a record of the same time has made all windows
            before = ends_here.latest
        older = [s for s in near if s < time - size]
        if older:
            before = near[older[-1]].latest
        seen = {s for s in near if not older or s >= older[-1]}
        if before is not None and before + 1 not in seen and before + 1 + size >= time:
            self.count(before + 1, Counted(0, time))
        if ends_here is None:
            joined = before is not None and before >= time - size
            self.count(time - size, Counted(near[older[-1]].count if joined else 0, time))
        self.behind(near, near[holding[0]] if holding else None)

    def early(self, near: dict[int, Counted]) -> None:
        """A record whose window would begin before 0: one from 0 on holds all of them."""
        time, first = self.time, near.get(0)
        holding = [s for s in near if 0 < s <= time]
        for start in holding:
            self.count(start, near[start])
        self.behind(near, near[holding[-1]] if holding else first)
        if first is not None and first.latest < time and first.latest + 1 not in near:
            self.count(first.latest + 1, Counted(0, time))
        self.count(0, first or Counted(0, time))

    def behind(self, near: dict[int, Counted], others: Counted | None) -> None:
        """Make the window behind the record of those that are later than it."""
        start = self.time + 1
        if start not in near and others is not None and others.latest > self.time:
            self.put(start, others)

    def count(self, start: int, before: Counted) -> None:
        """Count the record in a window, unless that has closed."""
        if start + self.size < self.stream_time - self.grace:
            self.late += 1
        else:
            self.put(start, Counted(before.count + 1, max(self.time, before.latest)))

    def put(self, start: int, counted: Counted) -> None:
        self.windows[self.key][start] = counted
        self.highest = max(self.highest, start)
        self.updates.append((self.key, start, start + self.size, counted.count))
