"""What the hand-over benchmark makes of an output topic."""

from __future__ import annotations

import pytest

from bench.committed_reader import ReadTimes
from bench.handover_gaps import Arrivals, Move, Silence, Tally, live_moves, percentile, summary
from bench.handover_load import keys_in_turn
from streamlet.kafka.murmur2 import partition_of


@pytest.mark.parametrize("keys", [96, 100])
def test_the_load_writes_to_one_partition_after_the_other(keys: int) -> None:
    in_turn = keys_in_turn(keys, 32)
    assert (len(in_turn), len(set(in_turn))) == (keys, keys)
    assert [partition_of(key, 32) for key in in_turn] == [n % 32 for n in range(keys)]


def arrivals(silence_ms: int = 0) -> Arrivals:
    """Two partitions, a record each 10 ms for 20 s; 0 changes hands from 1 to 2 after 10 s."""
    found = Arrivals(2)
    for at in range(0, 20_000, 10):
        found.tell(1, 1, at)
        if not 10_000 <= at < 10_000 + silence_ms:
            found.tell(0, 1 if at < 10_000 else 2, at)
    return found


def test_a_move_is_a_change_of_writer() -> None:
    assert arrivals(40).moves == [Move(0, 1, 2, 9_990, 10_040)]


def test_a_gap_is_the_longest_silence_beyond_the_usual_one() -> None:
    found = arrivals(90)
    moved, others = found.gaps(found.moves, {})
    assert (moved, others) == ([Silence(100, 10)], [Silence(10, 10)])
    assert [one.gap for one in moved + others] == [90.0, 0.0]


def test_what_is_usual_is_no_gap() -> None:
    moved, others = arrivals().gaps(arrivals().moves, {})
    assert [one.gap for one in moved + others] == [0.0, 0.0]


def test_usual_is_what_was_usual_before_the_new_owner_was_started() -> None:
    found = Arrivals(1)
    for at in [*range(0, 5_000, 10), *range(5_000, 10_000, 100), *range(10_050, 20_000, 10)]:
        found.tell(0, 1 if at < 10_000 else 2, at)
    assert found.gaps(found.moves, {})[0] == [Silence(150, 100)]
    assert found.gaps(found.moves, {2: 5_000})[0] == [Silence(150, 10)]


def test_a_stop_of_those_that_stay_is_seen_in_the_same_window() -> None:
    found = Arrivals(2)
    for at in range(0, 20_000, 10):
        found.tell(0, 1 if at < 10_000 else 2, at)
        if not 10_050 <= at < 10_150:
            found.tell(1, 1, at)
    moved, others = found.gaps(found.moves, {})
    assert ([one.gap for one in moved], [one.gap for one in others]) == ([0.0], [100.0])


def test_partitions_that_move_in_the_same_window_are_no_others() -> None:
    found = Arrivals(2)
    for at in range(0, 20_000, 10):
        found.tell(0, 1 if at < 10_000 else 2, at)
        found.tell(1, 1 if at < 10_100 else 2, at)
    assert found.gaps(found.moves, {})[1] == []


def test_a_move_from_an_owner_that_was_told_to_stop_before_is_no_handover() -> None:
    move = Move(0, 1, 2, 100, 200)
    assert live_moves([move], {}) == [move]
    assert live_moves([move], {1: 300}) == [move]
    assert live_moves([move], {1: 50}) == []


def test_a_move_is_found_again_where_the_same_records_have_other_times() -> None:
    """Those of a reader, which has records of a transaction at its end."""
    appended, read = Arrivals(1), Arrivals(1)
    for at in range(0, 3_000, 10):
        appended.tell(0, at // 1_000, at)
        read.tell(0, at // 1_000, at - at % 100 + 100)
    assert appended.moves == [Move(0, 0, 1, 990, 1_000), Move(0, 1, 2, 1_990, 2_000)]
    assert read.same_moves(appended, appended.moves[1:]) == [Move(0, 1, 2, 2_000, 2_100)]


def test_a_record_was_read_with_the_batch_that_it_is_in() -> None:
    times = ReadTimes()
    for offset, at_us in [(3, 100), (4, 100), (9, 250)]:
        times.add(offset, at_us)
    assert [times.at_us(offset) for offset in (0, 4, 5, 9, 10)] == [100, 100, 250, 250, None]


@pytest.mark.parametrize(("percent", "value"), [(50, 50), (99, 99), (100, 100), (0.5, 1)])
def test_percentiles_are_values_that_occurred(percent: float, value: int) -> None:
    assert percentile([*range(1, 101)], percent) == value


def test_nothing_has_no_summary() -> None:
    assert summary([]) is None
    assert summary([3.0, 1.0, 2.0]) == {"p50": 2.0, "p99": 3.0, "max": 3.0}


def test_updates_that_are_missing_or_come_again_are_counted() -> None:
    tally = Tally()
    for count in (1, 2, 2, 4):
        tally.tell(b"a", count)
    assert tally.finish({b"a": 6, b"b": 1}) == ""
    assert (tally.lost, tally.duplicates) == (1 + 2 + 1, 1)


def test_a_key_that_was_counted_too_often_is_wrong() -> None:
    tally = Tally()
    tally.tell(b"a", 1)
    tally.tell(b"a", 2)
    assert "b'a'" in tally.finish({b"a": 1})
