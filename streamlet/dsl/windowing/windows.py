"""Kinds of windows: which windows a record falls into, and how long they take late records.

A record is late for a window that closed: stream time, the highest timestamp that the aggregation
has seen, is more than ``grace`` behind the window's end. Records before the epoch have no windows.
"""

from __future__ import annotations

from itertools import chain, repeat
from typing import Any, ClassVar, TypeAlias, get_args

import attrs

from streamlet.absent import explains_misuse
from streamlet.arguments import check_is
from streamlet.dsl.windowing.varying_windows import VaryingWindows
from streamlet.serdes import Serde, session_windowed, time_windowed
from streamlet.serdes.windowed import NO_END


@explains_misuse
@attrs.frozen
class TimeWindows:
    """Tumbling or hopping windows: one of ``size_ms`` begins at each multiple of ``advance_ms``."""

    #: Each window is a row.
    bucket_ms: ClassVar[int] = 0

    size_ms: int
    advance_ms: int
    grace_ms: int

    @property
    def kept_ms(self) -> int:
        """The shortest time for which a store must keep windows, by their starts."""
        return self.size_ms + self.grace_ms

    @property
    def kept_for_results_ms(self) -> int:
        """``kept_ms``, or a size longer if each record that closes a window would expire it."""
        ending = self.grace_ms == 0 or self.kept_ms % self.advance_ms == 0
        return self.kept_ms + self.size_ms if ending else self.kept_ms

    @property
    def length_ms(self) -> int | None:
        """The difference between the start and the end of each; None: there is none."""
        return self.size_ms

    @property
    def format(self) -> str:
        """The part that rows depend on: with another one a store's rows mean something else."""
        if self.advance_ms == self.size_ms:
            return f"tumbling {self.size_ms} ms"
        return f"hopping {self.size_ms} ms by {self.advance_ms} ms"

    def starts(self, times: list[int]) -> tuple[list[int], list[int] | None]:
        """The starts of the windows of each record, ascending, and how many each record has.

        None in place of the counts: each has one.
        """
        size, advance = self.size_ms, self.advance_ms
        if size == advance:
            return [time - time % size for time in times], None
        behind = size - advance
        runs = [
            range(max(0, time - behind) // advance * advance, time + 1, advance) for time in times
        ]
        return list(chain.from_iterable(runs)), list(map(len, runs))

    def ends(self, starts: list[int]) -> list[int]:
        """The ends of windows, exclusive."""
        size = self.size_ms
        return [start + size for start in starts]

    def first_end(self, starts: list[int]) -> int:
        """The earliest end of some windows."""
        return min(starts) + self.size_ms

    def end_of(self, start: int) -> int:
        """The end of a window, exclusive."""
        return start + self.size_ms

    def last_closed(self, stream_time: int) -> int:
        """The latest start of a window that takes no record any more; -1: there is none."""
        last = stream_time - self.grace_ms - self.size_ms
        return last // self.advance_ms * self.advance_ms if last >= 0 else -1

    def closed_at(self, start: int) -> int:
        """The stream time from which on a window takes no record."""
        return start + self.size_ms + self.grace_ms

    def serde(self, key: Serde[Any]) -> Serde[Any]:
        """The serde of keys in these windows."""
        return time_windowed(key, self.size_ms)


@explains_misuse
@attrs.frozen
class UnlimitedWindows:
    """One window from ``start_ms`` on that never closes; earlier records are in none."""

    #: The window is kept for ever.
    kept_ms: ClassVar[int | None] = None
    #: It has no end.
    length_ms: ClassVar[int | None] = None
    #: It is a row for each key.
    bucket_ms: ClassVar[int] = 0

    start_ms: int
    grace_ms: int = 0

    @property
    def format(self) -> str:
        """The part that rows depend on."""
        return f"unlimited from {self.start_ms}"

    def starts(self, times: list[int]) -> tuple[list[int], list[int] | None]:
        """The start for each record in the window, and 1 or 0 for each record."""
        inside = [time >= self.start_ms for time in times]
        count = sum(inside)
        return [self.start_ms] * count, None if count == len(times) else list(map(int, inside))

    def ends(self, starts: list[int]) -> list[int]:
        """The end of all time, for each."""
        return list(repeat(NO_END, len(starts)))

    def first_end(self, starts: list[int]) -> int:
        """The end of all time."""
        return NO_END

    def end_of(self, start: int) -> int:
        """The end of all time."""
        return NO_END

    def serde(self, key: Serde[Any]) -> Serde[Any]:
        """The serde of keys in this window."""
        return time_windowed(key)


@explains_misuse
@attrs.frozen
class SlidingWindows:
    """Windows of any two records that are at most ``difference_ms`` apart, both ends inclusive."""

    difference_ms: int
    grace_ms: int

    @property
    def kept_ms(self) -> int:
        """The shortest time for which a store must keep windows, by their starts."""
        return 2 * self.difference_ms + self.grace_ms

    @property
    def length_ms(self) -> int | None:
        """The difference between the start and the end of each."""
        return self.difference_ms

    @property
    def bucket_ms(self) -> int:
        """The span of starts in one row: a record's windows are in two rows at most."""
        return 2 * self.difference_ms + 2

    @property
    def format(self) -> str:
        """The part that rows depend on."""
        return f"sliding {self.difference_ms} ms"

    def last_closed(self, stream_time: int) -> int:
        """The latest start of a window that takes no record any more; -1: there is none."""
        return max(-1, stream_time - self.grace_ms - self.difference_ms - 1)

    def closed_at(self, start: int) -> int:
        """The stream time from which on a window takes no record."""
        return start + self.difference_ms + self.grace_ms + 1

    def serde(self, key: Serde[Any]) -> Serde[Any]:
        """The serde of keys in these windows."""
        return time_windowed(key, self.difference_ms)


@explains_misuse
@attrs.frozen
class SessionWindows:
    """Windows of records with less than ``gap_ms`` of silence between them, or just that."""

    #: Each session has its own.
    length_ms: ClassVar[int | None] = None

    gap_ms: int
    grace_ms: int

    @property
    def kept_ms(self) -> int:
        """The shortest time for which a store must keep sessions, by their ends."""
        return self.gap_ms + self.grace_ms

    @property
    def bucket_ms(self) -> int:
        """The span of ends in one row: what a record may join is in two rows at most, if open."""
        return 2 * self.gap_ms + self.grace_ms + 1

    @property
    def format(self) -> str:
        """The part that rows depend on."""
        return f"session {self.gap_ms} ms, rows of {self.bucket_ms} ms"

    def last_closed(self, stream_time: int) -> int:
        """The latest end of a session that takes no record any more; -1: there is none."""
        return max(-1, stream_time - self.grace_ms - self.gap_ms - 1)

    def closed_at(self, end: int) -> int:
        """The stream time from which on a session takes no record."""
        return end + self.gap_ms + self.grace_ms + 1

    def serde(self, key: Serde[Any]) -> Serde[Any]:
        """The serde of keys in these windows."""
        return session_windowed(key)


#: What ``windowed_by`` takes.
Windows: TypeAlias = (
    TimeWindows | UnlimitedWindows | SlidingWindows | SessionWindows | VaryingWindows
)
#: Windows that close.
ClosingWindows: TypeAlias = TimeWindows | SlidingWindows | SessionWindows | VaryingWindows


def check_windows(call: str, given: object) -> None:
    """Refuse an argument that is no definition of windows.

    Raises:
        WrongTypeError: it is something else.
    """
    what = "windows, as of tumbling(), hopping(), sliding(), session() or unlimited()"
    check_is(call, given, get_args(Windows), what)
