"""What a follower of a changelog holds back until its commit is proved (N5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet.state.holding_reader import HoldingReader
from streamlet.types import StateNumber
from tests.unit.state.changelog_log import Log, follow, settled


@pytest.mark.parametrize("cut", range(4))
def test_a_follower_holds_the_newest_number_back_until_the_next(cut: int) -> None:
    """Whether commit 2 was accepted is not known before number 3 is there (N5)."""
    log = Log().flush(1, 1, a=b"1").flush(1, 2, a=b"2", b=b"2")
    follower, store = follow(log, cut)
    assert store == {b"a": b"1"}
    assert follower.position(3) == 1
    log.flush(1, 3, c=b"3")
    assert follow(log, cut)[1] == {b"a": b"2", b"b": b"2"}


def test_a_mark_says_what_counts_of_the_records_held_back() -> None:
    log = Log().flush(1, 1, a=b"1").flush(1, 2, a=b"2")
    assert settled(*follow(log), 1, 2) == {b"a": b"2"}
    follower, store = follow(log)
    assert settled(follower, store, 1, 1) == {b"a": b"1"}
    assert follower.skipped == {b"a": 1}


def test_the_first_number_of_a_new_epoch_proves_nothing_of_the_one_before() -> None:
    """Owner 1 died between flush and commit 2; owner 2 wrote its keys again, and died likewise."""
    log = Log().flush(1, 1, a=b"1", b=b"1").flush(1, 2, a=b"lost", b=b"lost")
    log.flush(2, 1, a=b"1", b=b"1", c=b"new")
    follower, store = follow(log)
    assert store == {b"a": b"1", b"b": b"1"}
    assert follower.held == 5
    assert settled(follower, store, 1, 1) == {b"a": b"1", b"b": b"1"}
    assert set(follower.skipped) == {b"a", b"b", b"c"}


def test_the_second_number_of_an_epoch_settles_everything_before_it() -> None:
    log = Log().flush(1, 1, a=b"1").flush(1, 2, a=b"lost").flush(2, 1, a=b"1").flush(2, 2, b=b"2")
    follower, store = follow(log)
    assert store == {b"a": b"1"}
    assert (follower.held, follower.newest) == (1, StateNumber(2, 1))


def test_a_follower_skips_a_stale_epoch_and_remembers_its_keys() -> None:
    log = Log().flush(2, 1, a=b"2").flush(1, 9, a=b"old", b=b"old").flush(2, 2, c=b"3")
    follower, store = follow(log)
    assert store == {b"a": b"2"}
    assert follower.skipped == {b"a": 1, b"b": 2}, "the stale record of a lies behind the good one"
    assert follower.position(4) == 1


def test_a_position_held_back_goes_with_the_epoch_met_before_it() -> None:
    """Else a follower that begins there again takes the committed records of epoch 1 for stale."""
    log = Log().flush(1, 1, a=b"1", b=b"1").flush(2, 1, c=b"2")
    follower, _ = follow(log)
    assert (follower.position(3), follower.highest) == (0, 2)
    assert follower.epoch_before(0) == 0
    again = HoldingReader("st-changelog-0", follower.epoch_before(0))
    store = dict(zip(*again.read(log.batch()), strict=True))
    assert settled(again, store, 2, 1) == {b"a": b"1", b"b": b"1", b"c": b"2"}
    assert follower.epoch_before(3) == 2


# -- records held back that take too much memory ---------------------------------------------------

#: Commits in the order of a log: mostly the next one, and now and then any.
flushes = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5), st.sampled_from("abcd")))


def read_on(
    follower: HoldingReader, store: dict[bytes, bytes | None], log: Log, start: int, most: int
) -> int:
    """Read so many records more; the offset to go on at."""
    batch = log.batch(start, start + most)
    store.update(zip(*follower.read(batch), strict=True))
    back = follower.back()
    return start + len(batch) if back is None else back


@given(flushes, st.integers(1, 4), st.lists(st.booleans(), min_size=40), st.integers(0, 5))
def test_a_follower_that_forgets_ends_with_what_one_has_that_holds_all_back(
    flushed: list[tuple[int, int, str]], most: int, forgets: list[bool], committed: int
) -> None:
    log = Log()
    for at, (epoch, number, key) in enumerate(sorted(flushed, key=lambda one: one[0])):
        log.flush(epoch, number, **{key: b"%d" % at})
    log.flush(2, 9, a=b"stale").flush(3, 9, x=b"last")
    held, whole = follow(log)
    one, store, start = HoldingReader("st-changelog-0"), dict[bytes, bytes | None](), 0
    for forget in forgets:
        if forget:
            one.forget()
        start = read_on(one, store, log, start, most)
    while start < len(log.keys):
        start = read_on(one, store, log, start, most)
    one.go_back()
    back = one.back()
    start = start if back is None else back
    while start < len(log.keys):
        start = read_on(one, store, log, start, most)
    assert (store, one.position(start)) == (whole, held.position(len(log.keys)))
    assert (one.skipped, one.highest, one.newest) == (held.skipped, held.highest, held.newest)
    limit = (3, committed)
    assert settled(one, store, *limit) == settled(held, whole, *limit)
    assert (one.skipped, one.beyond, one.held_bytes) == (held.skipped, held.beyond, 0)


def test_what_was_forgotten_is_read_again_when_its_commit_is_proved(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = Log().flush(1, 1, a=b"1").flush(1, 2, a=b"2" * 1_000, b=b"2").flush(1, 2, c=b"2")
    follower, store = follow(log, 2)
    assert follower.held_bytes > 1_000
    follower.forget()
    assert (follower.held, follower.held_bytes, follower.position(4)) == (0, 0, 1)
    (line,) = caplog.messages
    assert "st-changelog-0: records of commit (1, 2) from offset 1 on take 2 KiB" in line
    log.flush(1, 3, d=b"3")
    assert [read_on(follower, store, log, start, 10) for start in (4, 1)] == [1, 5]
    assert store == {b"a": b"2" * 1_000, b"b": b"2", b"c": b"2"}
    assert not follower.forgetful
