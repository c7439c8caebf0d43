"""The calls that make windows, from ``tumbling`` to ``custom_windows``.

Durations are text with a unit (``"100ms" "30s" "5m" "1h" "1d"``), a ``timedelta``, or milliseconds.
"""

from __future__ import annotations

import re
from typing import cast
from zoneinfo import ZoneInfo

from streamlet.arguments import told_by_form
from streamlet.dsl.graph.durations import Duration, milliseconds, window_ms
from streamlet.dsl.graph.functions import check_takes
from streamlet.dsl.windowing.varying_windows import (
    CLOCK_CHANGE_MS,
    DAY_MS,
    LONGEST_DAYS,
    CalendarUnit,
    CalendarWindows,
    CustomWindows,
    WindowsFor,
)
from streamlet.dsl.windowing.windows import (
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
)
from streamlet.errors import TopologyError
from streamlet.user_code import shown

#: The shortest days that calendar units have.
_SHORTEST_DAYS = {"d": 1, "w": 7, "mo": 28, "y": 365}


@told_by_form
def calendar(size: str, *, tz: str, offset: Duration = 0, grace: Duration = 0) -> CalendarWindows:
    """Days, weeks, months or years of a time zone, one after another.

    A window begins when clocks there show the beginning of its period and ``offset`` more: under
    ``calendar("1d", tz="Europe/Berlin", offset="18h")`` each at 18:00, so one is of 23 hours and
    one of 25 a year. Where clocks leave that time out it begins when they go on, and where they
    show it twice, with the first. Several days are counted from 1970-01-01, weeks from a Monday,
    months and years from January 1970. The window that holds the epoch begins with it.

    Args:
        size: a number and a unit: ``"1d"``, ``"1w"``, ``"3mo"``, ``"1y"``.
        tz: name of the time zone, as in the IANA database: ``"Europe/Berlin"``, ``"UTC"``.
        offset: what is added to the beginning of each period by its clock; less than a period.
        grace: as of ``tumbling``.

    Raises:
        TopologyError: the size is no such text, the zone is unknown, or a duration is none.
    """
    found = re.fullmatch(r"([1-9]\d{0,3})(d|w|mo|y)", size) if isinstance(size, str) else None
    if found is None:
        raise TopologyError(
            f"calendar(size={shown(size)}): expected a number and a unit: '1d', '1w', '1mo' or '1y'"
        )
    count, unit = int(found[1]), cast("CalendarUnit", found[2])
    offset_ms = milliseconds("calendar(offset=)", offset)
    shortest = count * _SHORTEST_DAYS[unit]
    if offset_ms >= shortest * DAY_MS:
        raise TopologyError(f"calendar(offset={shown(offset)}): expected less than {shortest} days")
    longest_ms = count * LONGEST_DAYS[unit] * DAY_MS + CLOCK_CHANGE_MS
    text = f"calendar {size} of {tz} and {offset_ms} ms"
    grace_ms = milliseconds("calendar(grace=)", grace)
    return CalendarWindows(text, longest_ms, grace_ms, count, unit, _zone(tz), offset_ms)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, TypeError, OSError, AttributeError) as error:
        raise TopologyError(
            f"calendar(tz={shown(name)}): no such time zone here; it is a name such as "
            "'Europe/Berlin', and where the system has no zones, pip install tzdata"
        ) from error


@told_by_form
def custom_windows(
    name: str, windows_for: WindowsFor, *, max_size: Duration, grace: Duration = 0
) -> CustomWindows:
    """Windows of your own: ``windows_for(time)`` gives those that a time is in.

    It takes a time in ms since the epoch and gives pairs of start and end in ms, of which the start
    is not after the time and the end is: none, if the record is to be left out, up to 1,000. It is
    a pure function: a window is in its answer for each time in it, on any host and after any
    restart. Windows may overlap, differ in size and leave gaps. No two begin at one time.

    What it gives is checked with each record. A wrong answer is an error of that record, as if an
    aggregator had failed, so the error policy says what becomes of it. The function is also asked
    for the time that is ``grace`` before the record's.

    Args:
        name: of the definition: state that was made under another name is refused.
        windows_for: the function.
        max_size: no window is longer. The store keeps windows by that.
        grace: as of ``tumbling``.

    Raises:
        TopologyError: there is no name, or a duration is none.
    """
    if not isinstance(name, str) or not name:
        raise TopologyError(f"custom_windows(name={shown(name)}): expected a text")
    check_takes("custom_windows()", windows_for, "time")
    return CustomWindows(
        f"custom {name}",
        milliseconds("custom_windows(max_size=)", max_size, 1),
        milliseconds("custom_windows(grace=)", grace),
        windows_for,
    )


@told_by_form
def tumbling(size: Duration, *, grace: Duration = 0) -> TimeWindows:
    """Windows of ``size`` one after another, the first at the epoch.

    A record falls into the one window whose start is not after its timestamp and whose end is.
    Those of a day begin at midnight UTC; ``calendar`` makes days of a time zone.

    Args:
        size: of each window. A number without a unit is in ms, as everywhere; one below 1,000 was
            probably meant in seconds, so a warning says how to write either.
        grace: how far stream time may be behind a window's end while it takes late records.

    Raises:
        TopologyError: one is no duration, or the size is 0.
    """
    size_ms = window_ms("tumbling(size=)", size)
    return TimeWindows(size_ms, size_ms, milliseconds("tumbling(grace=)", grace))


@told_by_form
def hopping(size: Duration, advance: Duration, *, grace: Duration = 0) -> TimeWindows:
    """Windows of ``size``, one of which begins each ``advance``, the first at the epoch.

    A record falls into ``size / advance`` of them, and is counted in each.

    Args:
        size: of each window.
        advance: time between the starts of two windows, at most ``size``.
        grace: as of ``tumbling``.

    Raises:
        TopologyError: one is no duration, or ``advance`` is 0 or longer than ``size``.
    """
    size_ms = window_ms("hopping(size=)", size)
    advance_ms = milliseconds("hopping(advance=)", advance, 1)
    if advance_ms > size_ms:
        raise TopologyError(
            f"hopping(): an advance of {advance_ms} ms is longer than windows of {size_ms} ms: "
            "records between two windows would be in none"
        )
    return TimeWindows(size_ms, advance_ms, milliseconds("hopping(grace=)", grace))


@told_by_form
def sliding(difference: Duration, *, grace: Duration = 0) -> SlidingWindows:
    """Windows around records: two are in one when at most ``difference`` apart.

    There is a window that ends with each record, and one that begins behind each, if it differs
    from all others. Both bounds are inclusive.

    Args:
        difference: of the times of two records in one window, at most.
        grace: as of ``tumbling``.

    Raises:
        TopologyError: one is no duration.
    """
    return SlidingWindows(
        window_ms("sliding(difference=)", difference, 0), milliseconds("sliding(grace=)", grace)
    )


@told_by_form
def session(gap: Duration, *, grace: Duration = 0) -> SessionWindows:
    """Windows that end when no record came for longer than ``gap``.

    They begin with their first record and end with their last one, both inclusive. A record that
    comes between two sessions and is at most ``gap`` away from both merges them.

    Args:
        gap: the longest time between two records of a session.
        grace: as of ``tumbling``, beyond the gap.

    Raises:
        TopologyError: one is no duration.
    """
    return SessionWindows(window_ms("session(gap=)", gap), milliseconds("session(grace=)", grace))


@told_by_form
def unlimited(start: Duration = 0) -> UnlimitedWindows:
    """One window from ``start`` (ms since the epoch) on, which never closes.

    Records before it are in no window and left out.

    Raises:
        TopologyError: ``start`` is no time.
    """
    return UnlimitedWindows(milliseconds("unlimited(start=)", start))
