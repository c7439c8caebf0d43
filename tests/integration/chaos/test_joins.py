"""Instances that join and leave: only the tasks that move stop, and joins stop nobody's commits."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from itertools import groupby, pairwise

import pytest

from streamlet.types import TaskId
from tests.integration.chaos.checks import assert_complete_and_in_order, await_share
from tests.integration.chaos.support import (
    LONG_SESSIONS,
    PARTITIONS,
    Cluster,
    Moment,
    Watch,
    wait_for,
)
from tests.integration.chaos.topics import Load, Record, read_all

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def periods(moments: list[Moment], task: TaskId) -> list[tuple[str, int]]:
    """Who owned a task, in which epoch, one after the other."""
    commits = (moment.commits[task].metadata for moment in moments)
    known = ((found.by, found.epoch) for found in commits if found is not None)
    return [period for period, _ in groupby(known)]


def shares(cluster: Cluster) -> list[int]:
    """The numbers of tasks that instances own, ascending."""
    return sorted(Counter(owner[0] for owner in cluster.owners().values()).values())


def longest_gaps(records: list[Record]) -> dict[int, int]:
    """The longest time in which nothing arrived, by partition, in ms."""
    times = {
        p: [record.at_ms for record in part]
        for p, part in groupby(records, lambda record: record.partition)
    }
    return {p: max(b - a for a, b in pairwise(ats)) for p, ats in times.items()}


def test_only_tasks_that_move_stop_when_instances_come_and_go(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster("counting", **LONG_SESSIONS)
    a = cluster.instance("a").start()
    with Load(cluster.servers, cluster.topic("in"), rate=1_500) as load:
        cluster.await_running()
        watch = Watch(cluster)
        watch.start()
        b = cluster.instance("b").start()
        await_share(cluster, b)
        c = cluster.instance("c", 2).start()
        await_share(cluster, c, 2)
        assert b.stop() == 0, b.log()
        wait_for(
            lambda: not any(owner.startswith("b-") for owner in cluster.owners().values()),
            lambda: f"b's tasks have new owners\n{cluster.logs()}",
        )
        true = load.finish()
    cluster.await_settled()
    moments = watch.finish()
    assert [a.stop(), c.stop()] == [0, 0], cluster.logs()

    records = read_all(cluster.servers, cluster.topic("counts"), range(PARTITIONS))
    assert_complete_and_in_order(records, true)
    groups: Counter[str] = Counter()
    for key, count in true.items():
        groups[key[-1]] += count
    assert_complete_and_in_order(
        read_all(cluster.servers, cluster.topic("groups"), range(PARTITIONS)), groups
    )
    owned = {task: periods(moments, task) for task in cluster.tasks}
    stayed = {task for task, found in owned.items() if len({by for by, _ in found}) == 1}
    assert 0 < len(stayed) < len(owned)
    for task, found in owned.items():  # another epoch is a task that stopped and began anew
        assert all(before[0] != after[0] for before, after in pairwise(found)), (task, found)
    for partition, gap in longest_gaps(records).items():
        kind = "stayed" if TaskId(0, partition) in stayed else "moved"
        print(f"task 0_{partition} {kind}: longest gap in its output {gap} ms")


def test_a_join_that_waits_for_a_dead_member_stops_nobodys_commits(
    make_cluster: Callable[..., Cluster],
) -> None:
    """One instance is killed and another started: its join is parked until the session is over."""
    cluster = make_cluster("counting", session_timeout_ms="30000")
    a, b, c = (cluster.instance(name).start() for name in "abc")
    with Load(cluster.servers, cluster.topic("in"), rate=1_000) as load:
        cluster.await_running()
        # Before that a task may be on its way to the one that is killed, and waits with it.
        wait_for(lambda: shares(cluster) == [2, 3, 3], lambda: f"all is shared\n{cluster.logs()}")
        watch = Watch(cluster)
        watch.start()
        before = cluster.owners()
        c.kill()
        d = cluster.instance("d").start()
        wait_for(lambda: "REBALANCING" in d.log(), lambda: f"d joins\n{d.log()}")
        joined = time.monotonic()
        await_share(cluster, d)
        true = load.finish()
    cluster.await_settled()
    moments = watch.finish()
    assert [a.stop(), b.stop(), d.stop()] == [0, 0, 0], cluster.logs()

    survivors = [task for task, owner in before.items() if owner[0] in "ab"]
    assert len(survivors) >= 4
    for task in survivors:
        parked, offsets = commits_while_parked(moments, task, joined)
        print(f"{task}: {len(offsets)} commits in {parked:.1f} s of the parked join")
        assert parked > 1, "the join was not parked"
        assert len(offsets) > parked, "fewer than one commit a second"
    records = read_all(cluster.servers, cluster.topic("counts"), range(PARTITIONS))
    assert {record.key.decode(): record.number for record in records} == true


def commits_while_parked(
    moments: list[Moment], task: TaskId, joined: float
) -> tuple[float, set[int]]:
    """How long commits bore the old generation after a join began, and the offsets of that time."""
    first = next(m for m in moments if m.at >= joined)
    old = first.commits[task].metadata
    assert old is not None
    while_parked = [
        moment
        for moment in moments
        if moment.at >= joined
        and (found := moment.commits[task].metadata) is not None
        and found.generation == old.generation
    ]
    seconds = while_parked[-1].at - joined
    return seconds, {moment.commits[task].offset for moment in while_parked}
