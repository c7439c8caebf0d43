"""Which records are behind others, and the times of the rows that they are added to."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from streamlet.columnwise import PLAIN, highest_time, late_places

#: Short runs that rise, with drops between them.
TIMES = st.lists(st.integers(0, 30), max_size=60) | st.lists(
    st.lists(st.integers(0, 1000), max_size=8).map(sorted), max_size=8
).map(lambda runs: [time for run in runs for time in run])


@given(TIMES, st.integers(-1, 40))
def test_late_are_those_below_the_highest_time_so_far(times: list[int], latest: int) -> None:
    highest = accumulate(times, max, initial=latest)
    expected = [
        at for at, (time, most) in enumerate(zip(times, highest, strict=False)) if time < most
    ]
    assert late_places(times, latest) == PLAIN["late_places"](times, latest) == expected
    assert highest_time([latest, *times]) == max([latest, *times])
