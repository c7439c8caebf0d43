"""What the output of a hand-over benchmark says: who wrote when, how long was nobody writing. Pure.

A task's output is one partition. It changes hands where the process that wrote it changes. The
window of a hand-over lasts from half a second before the old owner's last record to half a second
after the new one's first. A gap is the longest silence in the window minus the usual one: the
median of the longest silences of windows of that length before the new owner's process was started,
so that neither its start nor its learning makes longer silences usual.
"""

from __future__ import annotations

import math
import statistics
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence

import attrs

#: What a window has on both sides of the silence, ms, and how many windows before it are usual.
MARGIN_MS = 500
USUAL = 3


@attrs.frozen
class Move:
    """A partition's change of writer; ``last_ms`` of the old one, ``first_ms`` of the new one."""

    partition: int
    old: int
    new: int
    last_ms: int
    first_ms: int

    @property
    def window(self) -> tuple[int, int]:
        """Within which to look for silences, ms."""
        return self.last_ms - MARGIN_MS, self.first_ms + MARGIN_MS


@attrs.frozen
class Silence:
    """The longest silence of a partition in a window, ms, and the usual one."""

    longest: int
    usual: float

    @property
    def gap(self) -> float:
        """What it is beyond the usual one, ms."""
        return max(0.0, self.longest - self.usual)


class Arrivals:
    """When each partition was written, and by whom; records are told in order of offsets."""

    def __init__(self, partitions: int) -> None:
        self._times = [array("q") for _ in range(partitions)]
        self._writers: list[int | None] = [None] * partitions
        self.moves: list[Move] = []

    def tell(self, partition: int, writer: int, at_ms: int) -> None:
        """A record was appended."""
        times, before = self._times[partition], self._writers[partition]
        if before != writer:
            if before is not None:
                self.moves.append(Move(partition, before, writer, times[-1], at_ms))
            self._writers[partition] = writer
        if not times or at_ms > times[-1]:
            times.append(at_ms)

    def same_moves(self, other: Arrivals, moves: Iterable[Move]) -> list[Move]:
        """The same moves by the times of another reader of the same records."""
        wanted = set(moves)
        pairs = zip(other.moves, self.moves, strict=False)  # of the last ones there may be no times
        return [ours for theirs, ours in pairs if theirs in wanted]

    def silence(self, partition: int, window: tuple[int, int]) -> int:
        """The longest time without a record that touches the window, ms."""
        times = self._times[partition]
        first = max(bisect_left(times, window[0]), 1)
        end = min(bisect_right(times, window[1]) + 1, len(times))
        return max((times[i] - times[i - 1] for i in range(first, end)), default=0)

    def compared(self, partition: int, window: tuple[int, int], before_ms: int) -> Silence:
        """The longest silence in the window, and the usual one before that time."""
        length = window[1] - window[0]
        end = min(window[0], before_ms)
        usual = statistics.median(
            self.silence(partition, (end - n * length, end - (n - 1) * length))
            for n in range(1, 1 + USUAL)
        )
        return Silence(self.silence(partition, window), usual)

    def gaps(
        self, moves: Sequence[Move], starts_ms: Mapping[int, int]
    ) -> tuple[list[Silence], list[Silence]]:
        """Those of these moves, and those of all partitions that stayed in the same windows.

        ``starts_ms``: when each process was started.
        """
        before = {move.window: starts_ms.get(move.new, move.window[0]) for move in moves}
        moved = [self.compared(m.partition, m.window, before[m.window]) for m in moves]
        others = [
            self.compared(partition, window, before[window])
            for window in sorted(before)
            for partition in range(len(self._times))
            if not self._moves_in(partition, window)
        ]
        return moved, others

    def _moves_in(self, partition: int, window: tuple[int, int]) -> bool:
        low, high = window
        mine = (move for move in self.moves if move.partition == partition)
        return any(move.last_ms <= high and move.first_ms >= low for move in mine)


def live_moves(moves: Iterable[Move], stops_ms: Mapping[int, int]) -> list[Move]:
    """The moves from an owner that had not ended: others are take-overs, not hand-overs."""
    return [move for move in moves if move.first_ms < stops_ms.get(move.old, move.first_ms + 1)]


def summary(values: Sequence[float]) -> dict[str, float] | None:
    """Median, 99th percentile and maximum; None where there is nothing."""
    if not values:
        return None
    return {
        "p50": round(percentile(values, 50), 1),
        "p99": round(percentile(values, 99), 1),
        "max": round(max(values), 1),
    }


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many per cent of them do not exceed."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(len(ranked) * percent / 100) - 1)]


@attrs.define
class Tally:
    """Counts of each key as they must be: 1, 2, 3, …, each once."""

    lost: int = 0
    duplicates: int = 0
    _last: dict[bytes, int] = attrs.field(factory=dict)

    def tell(self, key: bytes, count: int) -> None:
        """An update of this key."""
        before = self._last.get(key, 0)
        if count <= before:
            self.duplicates += 1
            return
        self.lost += count - before - 1
        self._last[key] = count

    def finish(self, expected: Mapping[bytes, int]) -> str:
        """Count what is missing at the end; what is wrong beyond that, or an empty text."""
        self.lost += sum(max(0, n - self._last.get(key, 0)) for key, n in expected.items())
        over = [key for key, count in self._last.items() if count > expected.get(key, 0)]
        return f"{len(over)} keys were counted too often, {over[0]!r} first" if over else ""
