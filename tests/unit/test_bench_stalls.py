"""When the machine let nobody run is seen, and found where it matters."""

from __future__ import annotations

from bench.stalls import Stalls, seen, watching


def test_the_longest_stall_that_touches_a_window_counts() -> None:
    stalls = Stalls([(100, 110), (200, 230)])
    stalls.take("300 390\n")
    assert stalls.longest((105, 250)) == 30
    assert stalls.longest((110, 199)) == 10
    assert stalls.longest((231, 299)) == 0
    assert stalls.longest((0, 400)) == 90


def test_a_sleep_that_takes_much_longer_is_a_stall() -> None:
    """Each sleep of a millisecond begins when the one before ended."""
    times = iter([0, 1, 1, 7, 7, 12, 12, 30])
    ends = iter([False, False, False, True])
    found = list(seen(lambda: next(ends), lambda: next(times) * 1_000_000))
    assert found == [(1, 7), (12, 30)]


def test_watching_ends_with_its_block() -> None:
    with watching() as stalls:
        assert stalls.longest((0, 1)) == 0
