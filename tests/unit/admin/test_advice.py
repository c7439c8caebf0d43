"""How many instances are advised, and the reasons given."""

from __future__ import annotations

import pytest

from streamlet.admin.advice import Advice, InstanceSample, Observation, advise
from streamlet.types import TopicPartition

P0, P1 = TopicPartition("in", 0), TopicPartition("in", 1)


def seen(at_s: float, *positions: tuple[int, int]) -> Observation:
    """Committed and end offset of partitions 0, 1, …"""
    tps = [TopicPartition("in", n) for n in range(len(positions))]
    committed = {tp: one[0] for tp, one in zip(tps, positions, strict=True)}
    ends = {tp: one[1] for tp, one in zip(tps, positions, strict=True)}
    return Observation(round(at_s * 1000), committed, ends)


def staying(count: int, busy: float | None = None, members: int = 1) -> list[InstanceSample]:
    return [InstanceSample(f"h{n}", members, members, busy) for n in range(count)]


def moving(arriving: int, processed: int, lag: int, seconds: int = 60) -> list[Observation]:
    """Two looks at two partitions alike; ``lag`` is that of the second look, rates are of both."""
    end = arriving * seconds // 2 + 1_000_000
    done = end - lag // 2
    first = (done - processed * seconds // 2, end - arriving * seconds // 2)
    return [seen(0, first, first), seen(seconds, (done, end), (done, end))]


def test_a_lag_that_grows_needs_more_in_proportion() -> None:
    """Two work off 1,000/s; 2,000/s arrive, and 300,000 records wait: 3,000/s are needed."""
    found = advise(moving(2_000, 1_000, 300_000), staying(2), tasks=24)
    assert found.instances == 6
    assert found.current == 2
    assert (found.arriving_per_s, found.processed_per_s) == (2_000, 1_000)
    assert (found.lag, found.lag_per_s, found.window_s) == (300_000, 1_000, 60)
    assert "lag 300,000 grows by +1,000/s" in found.reasons[0]
    assert (
        "3,000/s would work it off in 300 s, and an instance is able to 500/s" in found.reasons[1]
    )


def test_a_lag_that_falls_fast_enough_needs_nothing_more() -> None:
    found = advise(moving(1_000, 3_000, 300_000), staying(2), tasks=24)
    assert found.instances == 2


def test_nobody_is_taken_away_while_there_is_a_lag() -> None:
    found = advise(moving(10, 3_000, 10_000), staying(4, busy=0.05), tasks=24)
    assert found.instances == 4


def test_what_busy_members_leave_unused_counts() -> None:
    """They process 1,000/s in half of their time, so they are able to 2,000/s."""
    found = advise(moving(1_500, 1_000, 60_000), staying(2, busy=0.5), tasks=24)
    assert found.instances == 2


@pytest.mark.parametrize(
    ("busy", "current", "wanted"),
    [(0.7, 4, 4), (0.35, 4, 2), (0.1, 4, 1), (0.0, 3, 1), (0.95, 4, 6), (None, 4, 4)],
)
def test_without_a_lag_it_goes_by_how_busy_they_are(
    busy: float | None, current: int, wanted: int
) -> None:
    found = advise(moving(1_000, 1_000, 500), staying(current, busy), tasks=24)
    assert found.instances == wanted
    assert "no lag" in found.reasons[0]


def test_one_that_does_not_tell_how_busy_it_is_keeps_the_number() -> None:
    found = advise(moving(1_000, 1_000, 0), [*staying(3, 0.1), InstanceSample("old")], tasks=24)
    assert found.instances == 4
    assert "not known" in found.reasons[0]


def test_no_more_than_have_a_task() -> None:
    found = advise(moving(100_000, 1_000, 9_000_000), staying(2), tasks=5)
    assert (found.instances, found.most) == (5, 5)
    assert "5 tasks: with more than 5 some would have nothing to run" in found.reasons
    found = advise(moving(100_000, 1_000, 9_000_000), staying(2, members=4), tasks=10)
    assert (found.instances, found.most) == (3, 3)


def test_a_partition_that_holds_the_others_up_is_named() -> None:
    looks = [seen(0, (0, 1_000), (0, 10)), seen(10, (500, 9_000), (60, 70))]
    found = advise(looks, staying(1), tasks=2)
    assert found.instances == 2
    assert (
        "100% of the lag is in in-0, which one member runs: others cannot help it"
        in (found.reasons[-1])
    )


def test_leaving_instances_are_not_counted_on() -> None:
    instances = [*staying(1), InstanceSample("going", leaving=True)]
    found = advise(moving(1_000, 500, 30_000), instances, tasks=24)
    assert found.current == 1
    assert found.instances == 3
    nobody = advise(moving(1_000, 0, 30_000), [InstanceSample("going", leaving=True)], tasks=24)
    assert (nobody.instances, nobody.current) == (1, 0)


@pytest.mark.parametrize("looks", [[], [seen(0, (0, 500))], [seen(5, (0, 500)), seen(5, (0, 500))]])
def test_no_trend_no_change(looks: list[Observation]) -> None:
    found = advise(looks, staying(3), tasks=24)
    assert found.instances == 3
    assert "look for longer" in found.reasons[0]


def test_where_nothing_is_processed_more_would_not_help() -> None:
    found = advise(moving(1_000, 0, 300_000), staying(3), tasks=24)
    assert found.instances == 3
    assert "nothing is processed" in found.reasons[1]


def test_a_partition_committed_for_the_first_time_has_no_rate() -> None:
    first = Observation(0, {P0: 100}, {P0: 100})
    last = Observation(10_000, {P0: 200, P1: 1_000_000}, {P0: 200, P1: 1_000_000})
    found = advise([first, last], staying(1), tasks=2)
    assert (found.arriving_per_s, found.processed_per_s) == (10, 10)


def test_a_topic_made_anew_gives_no_negative_rates() -> None:
    found = advise([seen(0, (500, 500)), seen(10, (3, 3))], staying(1), tasks=1)
    assert (found.arriving_per_s, found.processed_per_s) == (0, 0)


def test_advice_is_plain_values_for_json() -> None:
    found: Advice = advise([], [], tasks=0)
    assert found.to_dict() == {
        "instances": 1,
        "current": 0,
        "most": 1,
        "tasks": 0,
        "lag": 0,
        "lag_per_s": 0.0,
        "arriving_per_s": 0.0,
        "processed_per_s": 0.0,
        "window_s": 0.0,
        "reasons": ["no instance runs that stays"],
    }
