"""``streamlet scale-down`` on a real broker: who is marked hands over warm, and ends by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from streamlet import App
from streamlet.testing import KafkaBroker
from tests.integration.chaos.support import LONG_SESSIONS, SELDOM_S, Cluster, Instance, wait_for
from tests.integration.chaos.topics import SLOW_BEAT_S, Load
from tests.integration.scaling.commands import (
    ON_THE_WAY,
    Answer,
    answer,
    assert_left_well,
    assert_moved_once,
    await_band,
    await_periods,
    await_words,
    begin,
    learners,
    look,
    scale_down,
)
from tests.integration.scaling.scenes import assert_nothing_lost

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def named(instances: Sequence[Instance], found: Answer, key: str) -> list[Instance]:
    """The instances that an answer names."""
    return [one for one in instances if one.name in found.document[key]]


def test_half_of_eight_leave_then_more_whatever_becomes_of_commands_and_broker(
    kafka_broker: KafkaBroker, make_cluster: Callable[..., Cluster]
) -> None:
    """32 stateful tasks. The second command is killed, and the broker restarts meanwhile."""
    cluster = make_cluster("counting", partitions=16, session_timeout_ms="60000")
    eight = [cluster.instance(f"h{n}", 0).start() for n in range(1, 9)]
    with Load(cluster.servers, cluster.topic("in"), rate=500, beat_s=SLOW_BEAT_S) as load:
        await_band(cluster, eight)
        before = await_periods(cluster, {one.name for one in eight})

        found = scale_down(cluster, "--percent", "50", "--yes", "--wait")
        assert found.code == 0, found
        assert found.document["done"] is True
        leavers, four = named(eight, found, "leaving"), named(eight, found, "staying")
        assert (len(leavers), len(four)) == (4, 4)
        moves = found.document["moves"]
        assert len(moves) == 16
        assert {move["to"].split("-")[0] for move in moves} == {one.name for one in four}
        assert sum(move["bytes"] for move in moves) > 0

        assert_left_well(leavers, four)
        await_band(cluster, four)
        after = await_periods(cluster, {one.name for one in four})
        assert_moved_once(before, after, found.document["leaving"])

        killed = begin(cluster, "scale-down", cluster.name, "--percent", "75", "--yes")
        await_words(killed, ": queued", ": learning", ": ready", ": ordered", ": active")
        killed.kill()
        kafka_broker.restart()
        answer(killed)
        gone = wait_for(
            lambda: [one for one in four if one.process and one.process.poll() is not None],
            lambda: f"one leaves\n{cluster.logs()}",
        )
        assert [one.wait() for one in gone] == [0], cluster.logs()
        three = [one for one in four if one not in gone]
        await_periods(cluster, {one.name for one in three})
        assert_nothing_lost(cluster, three, load)


def test_two_commands_at_once_are_as_one(make_cluster: Callable[..., Cluster]) -> None:
    """Each for half of four; from Python it is the same."""
    cluster = make_cluster("counting", **LONG_SESSIONS)
    four = [cluster.instance(f"h{n}", 0).start() for n in range(1, 5)]
    with Load(cluster.servers, cluster.topic("in"), rate=500, beat_s=SLOW_BEAT_S) as load:
        await_band(cluster, four)
        words = ("scale-down", cluster.name, "--percent", "50", "--yes", "--json", "--wait")
        both = [answer(process) for process in [begin(cluster, *words), begin(cluster, *words)]]
        assert [found.code for found in both] == [0, 0], both
        leavers = named(four, both[0], "leaving")
        assert len(leavers) == 2
        assert both[0].document["leaving"] == both[1].document["leaving"]
        two = [one for one in four if one not in leavers]
        assert_left_well(leavers, two)
        await_band(cluster, two)

        app = App(cluster.name, bootstrap_servers=cluster.servers)
        plan = app.scale_down(names=[two[1].name], dry_run=True)
        assert (plan.leaving, plan.done, len(plan.moves)) == ((two[1].name,), False, 4)
        assert app.scale_down(names=[two[1].name]).done
        assert_left_well([two[1]], [two[0]])
        assert_nothing_lost(cluster, [two[0]], load)


def test_half_of_four_stay_after_all_then_are_out_in_time_though_learners_are_slow(
    make_cluster: Callable[..., Cluster],
) -> None:
    """16 stateful tasks, of which no learner ever says that it is ready.

    So without a time limit nobody ever leaves, and with one it is the group that keeps it: the
    command is killed.
    """
    cluster = make_cluster(
        "counting",
        partitions=8,
        session_timeout_ms="60000",
        learner_ready_linger_ms="600000",
        initial_assignment_delay_ms="20000",
    )
    every = [cluster.instance(f"h{n}", 0).start() for n in range(1, 5)]
    names = {one.name for one in every}
    with Load(cluster.servers, cluster.topic("in"), rate=500, beat_s=SLOW_BEAT_S) as load:
        await_periods(cluster, names)
        marked = scale_down(cluster, "--percent", "50", "--yes")
        assert (marked.code, marked.document["done"]) == (0, False), marked
        moving = {move["task"] for move in marked.document["moves"]}
        assert len(marked.document["leaving"]) == 2
        assert len(moving) == 8
        wait_for(lambda: learners(look(cluster)), "some are learned", pause_s=SELDOM_S)
        assert set(learners(look(cluster))) <= moving
        cancelled = scale_down(cluster, "--cancel", "--wait")
        assert (cancelled.code, cancelled.document["leaving"]) == (0, []), cancelled
        assert cancelled.document["done"] is True
        assert learners(look(cluster)) == []
        # What has next to no state may have gone by then; the rest stays where it is.
        before = await_periods(cluster, names)

        words = ("--percent", "50", "--timeout", "20s", "--yes")
        killed = begin(cluster, "scale-down", cluster.name, *words)
        await_words(killed, *ON_THE_WAY)
        killed.kill()
        answer(killed)
        again = scale_down(cluster, "--percent", "50", "--dry-run")
        leavers, two = named(every, again, "leaving"), named(every, again, "staying")
        assert (len(leavers), len(two)) == (2, 2), again
        assert [one.wait() for one in leavers] == [0] * 2, cluster.logs()
        after = await_periods(cluster, {one.name for one in two})
        assert_moved_once(before, after, [one.name for one in leavers])
        assert_nothing_lost(cluster, two, load)


def test_tasks_go_where_the_plan_says_though_earlier_owners_have_copies_too(
    make_cluster: Callable[..., Cluster],
) -> None:
    """What the third instance got from the second goes back, though the first has a copy, too."""
    cluster = make_cluster("counting", partitions=6, **LONG_SESSIONS)
    with Load(cluster.servers, cluster.topic("in"), rate=500, beat_s=SLOW_BEAT_S) as load:
        three: list[Instance] = []
        for number in (1, 2, 3):
            three.append(cluster.instance(f"h{number}", 0).start())
            await_band(cluster, three)
        found = scale_down(cluster, "--name", "h3", "--yes", "--wait")
        assert found.code == 0, found
        assert_left_well(three[2:], three[:2])
        planned = {move["task"]: move["to"].removesuffix("-0") for move in found.document["moves"]}
        assert len(planned) >= 2
        after = await_periods(cluster, {"h1", "h2"})
        assert {str(task): after[task].owner for task in after if str(task) in planned} == planned
        assert_nothing_lost(cluster, three[:2], load)
