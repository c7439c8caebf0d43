"""Windows that a function of the user's gives, and those of a calendar.

Both are like ``TimeWindows``: each window is a row of its own, from its start to its end. What
differs is that a window's end is asked for, since windows may differ in size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from itertools import chain, islice, pairwise
from typing import Any, ClassVar, Literal, TypeAlias
from zoneinfo import ZoneInfo

import attrs

from streamlet.errors import error_text
from streamlet.lazy_results import refuse_promise
from streamlet.serdes import SerdeLike, Windowed
from streamlet.serdes import serde as serde_of
from streamlet.serdes.serde import Serde
from streamlet.serdes.windowed import windowed_until
from streamlet.user_code import plain_hint, shown

#: ``(time) -> windows``, each a pair of start (inclusive) and end (exclusive), ms since the epoch.
WindowsFor: TypeAlias = Callable[[int], Iterable[tuple[int, int]]]

#: Windows of one time, at most.
MOST_WINDOWS = 1_000
#: Times whose windows are remembered.
_REMEMBERED = 10_000
#: A calendar's window may be so much longer than its days: clocks were never set back by more.
CLOCK_CHANGE_MS = 4 * 3_600_000
DAY_MS = 86_400_000


class WindowsRefused(Exception):
    """A definition gave no windows for the time of a record; ``__cause__`` says why.

    Attributes:
        index: of the record in its column.
    """

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


@attrs.frozen
class VaryingWindows(ABC):
    """The part that windows of a function and of a calendar share.

    ``format`` says what rows mean: under another one a store's rows mean something else.
    """

    #: Each window is a row.
    bucket_ms: ClassVar[int] = 0

    format: str
    max_size_ms: int
    grace_ms: int

    @abstractmethod
    def at(self, time: int) -> tuple[tuple[int, int], ...]:
        """The windows that a time is in, by their starts.

        Raises:
            ValueError: the definition gave something else.
        """

    @property
    def kept_ms(self) -> int:
        """The shortest time for which a store must keep windows, by their starts."""
        return self.max_size_ms + self.grace_ms

    @property
    def kept_for_results_ms(self) -> int:
        """``kept_ms`` and a size more: the record that closes a window must not expire it."""
        return self.kept_ms + self.max_size_ms

    @property
    def length_ms(self) -> int | None:
        """The most that the start and the end of a window differ."""
        return self.max_size_ms

    def starts(self, times: list[int]) -> tuple[list[int], list[int] | None]:
        """The starts of the windows of each record, ascending, and how many each record has.

        Raises:
            WindowsRefused: the definition gave no windows for one, or failed.
        """
        found, at, grace = [], self.at, self.grace_ms
        for index, time in enumerate(times):
            try:
                found.append(at(time))
                if 0 < grace <= time:
                    at(time - grace)  # `last_closed` asks for that
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # a user function may raise anything, or exit
                raise WindowsRefused(index) from error
        counts = list(map(len, found))
        starts = [start for start, _ in chain.from_iterable(found)]
        return starts, None if counts.count(1) == len(counts) else counts

    def end_of(self, start: int) -> int:
        """The end of a window, exclusive."""
        end = dict(self.at(start)).get(start)
        if end is None:
            raise ValueError(f"{self.format}: no window begins at {start}")
        return end

    def ends(self, starts: list[int]) -> list[int]:
        """The ends of windows, exclusive."""
        known = {start: self.end_of(start) for start in set(starts)}
        return [known[start] for start in starts]

    def first_end(self, starts: list[int]) -> int:
        """The earliest end of some windows."""
        return min(map(self.end_of, set(starts)))

    def closed_before(self, time: int) -> int:
        """All windows that begin before this have ended by a time, none of those that are left."""
        if time < 0:
            return 0
        return min((start for start, _ in self.at(time)), default=time + 1)

    def last_closed(self, stream_time: int) -> int:
        """The latest time such that no window that begins until then takes a record; -1: none.

        A record for whose time there are no windows is refused; it closes none before that.
        """
        try:
            return self.closed_before(stream_time - self.grace_ms) - 1
        except KeyboardInterrupt:
            raise
        except BaseException:  # `starts` refuses the record of this time
            return -1

    def closed_at(self, start: int) -> int:
        """The stream time from which on a window takes no record."""
        return self.end_of(start) + self.grace_ms

    def serde(self, key: SerdeLike[Any]) -> Serde[Windowed[Any]]:
        """The serde of keys in these windows, to read a topic of them.

        Raises:
            SerdeError: there is no serde for the key.
        """
        return windowed_until(serde_of(key), self.end_of, self.format)


@attrs.frozen
class CustomWindows(VaryingWindows):
    """Windows of a function of the user's; made by ``custom_windows``."""

    windows_for: WindowsFor
    _known: dict[int, tuple[tuple[int, int], ...]] = attrs.field(
        factory=dict, init=False, eq=False, repr=False
    )

    def at(self, time: int) -> tuple[tuple[int, int], ...]:
        """The windows that a time is in, by their starts; errors as of the definition."""
        known = self._known.get(time)
        if known is None:
            known = self._asked(time)
            for window in known:
                if window not in (known if window[0] == time else self._asked(window[0])):
                    raise ValueError(
                        f"{self.format}: {window} is a window of the time {time}, but not of its "
                        "own start; a window is in the answer for each time in it"
                    )
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[time] = known
        return known

    def _asked(self, time: int) -> tuple[tuple[int, int], ...]:
        given: Any = self.windows_for(time)
        try:
            # It may have no end: no more is taken of it than shows that it is too much.
            found = sorted((start, end) for start, end in islice(given, MOST_WINDOWS + 1))
        except (TypeError, ValueError) as error:
            refuse_promise(given, yields=True)
            raise ValueError(
                f"{self.format}: expected pairs of start and end for the time {time}, got "
                f"{shown(given)}: {error_text(error)}"
            ) from error
        if len(found) > MOST_WINDOWS:
            raise ValueError(f"{self.format}: more than {MOST_WINDOWS} windows of the time {time}")
        for window in found:
            problem = self._problem(time, *window)
            if problem:
                raise ValueError(f"{self.format}: window {window} of the time {time} {problem}")
        if any(one[0] == other[0] for one, other in pairwise(found)):
            raise ValueError(
                f"{self.format}: two windows of the time {time} have one start: {found}"
            )
        return tuple(found)

    def _problem(self, time: int, start: Any, end: Any) -> str:
        if type(start) is not int or type(end) is not int:
            return f"is not of two numbers of ms{plain_hint(start) or plain_hint(end)}"
        if start < 0:
            return "begins before the epoch"
        if not start <= time < end:
            return "does not hold it: its start is not after the time, and its end is"
        size = end - start
        return f"is longer than max_size: {size} ms" if size > self.max_size_ms else ""


#: Units of calendar windows.
CalendarUnit: TypeAlias = Literal["d", "w", "mo", "y"]
#: The first day of the periods that are counted: weeks begin on Mondays.
_FIRST_DAY = {"d": date(1970, 1, 1), "w": date(1969, 12, 29)}
#: The longest each may be, in days.
LONGEST_DAYS = {"d": 1, "w": 7, "mo": 31, "y": 366}
#: Windows whose ends are remembered.
_MOST_KNOWN = 2_000


@attrs.frozen
class CalendarWindows(VaryingWindows):
    """Windows of a calendar, one after another; made by ``calendar``."""

    count: int
    unit: CalendarUnit
    zone: ZoneInfo
    offset_ms: int
    #: Known windows by their starts, ascending; replaced, never changed.
    _known: list[tuple[list[int], list[int]]] = attrs.field(
        factory=lambda: [([], [])], init=False, eq=False, repr=False
    )

    def at(self, time: int) -> tuple[tuple[int, int], ...]:
        """The window that a time is in."""
        starts, ends = self._known[0]
        place = bisect_right(starts, time) - 1
        if place >= 0 and time < ends[place]:
            return ((starts[place], ends[place]),)
        start, end = self._window(time)
        if len(starts) >= _MOST_KNOWN:
            starts, ends = [], []
        place = bisect_right(starts, start)
        starts, ends = (
            [*starts[:place], start, *starts[place:]],
            [*ends[:place], end, *ends[place:]],
        )
        self._known[0] = starts, ends
        return ((start, end),)

    def _window(self, time: int) -> tuple[int, int]:
        if time > _LATEST_MS:
            raise ValueError(f"{self.format}: the time {time} is beyond the year 8999")
        # Within one zone datetimes are added to by what clocks show.
        clock = datetime.fromtimestamp(time // 1000, self.zone)
        number = self._period(clock - timedelta(milliseconds=self.offset_ms))
        while self._start(number) > time:
            number -= 1
        while (end := self._start(number + 1)) <= time:  # a time that clocks show twice
            number += 1
        return max(0, self._start(number)), end

    def _period(self, local: datetime) -> int:
        """The number of the period that a local time is in, or of the one before or behind it."""
        if self.unit in ("d", "w"):
            days = (local.date() - _FIRST_DAY[self.unit]).days
            return days // (self.count * LONGEST_DAYS[self.unit])
        months = (local.year - 1970) * 12 + local.month - 1
        return months // self._months

    def _start(self, number: int) -> int:
        """The first ms of a period, since the epoch."""
        if self.unit in ("d", "w"):
            days = number * self.count * LONGEST_DAYS[self.unit]
            day = _FIRST_DAY[self.unit] + timedelta(days=days)
        else:
            years, month = divmod(number * self._months, 12)
            day = date(1970 + years, month + 1, 1)
        midnight = datetime(day.year, day.month, day.day, tzinfo=self.zone)
        begin = midnight + timedelta(milliseconds=self.offset_ms)
        return (begin.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)

    @property
    def _months(self) -> int:
        return self.count * (12 if self.unit == "y" else 1)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Later times have no calendar: years end at 9999.
_LATEST_MS = (datetime(9000, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
