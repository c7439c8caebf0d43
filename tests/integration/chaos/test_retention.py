"""Retention that overtakes a partition while a worker runs: that concerns one task alone."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from streamlet.types import TaskId, TopicPartition
from tests.integration.chaos.checks import assert_counts_exact, contents, go_on
from tests.integration.chaos.support import Cluster, Instance, wait_for
from tests.integration.chaos.topics import Load
from tests.integration.learners.scenes import await_owners
from tests.integration.test_status_command import run as status

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

#: So long that no pause of a test costs the membership. And no fetch of a worker that is paused
#: still waits at the broker when a test sends something: it would be answered with that. If one
#: does, the answer has the first batch only.
PATIENT = {
    "session_timeout_ms": "60000",
    "consumer_fetch_wait_max_ms": "5",
    "consumer_max_partition_fetch_bytes": "100",
}
RECORDS = 2_000
NONE = ("--set", "auto.offset.reset=none")


@contextmanager
def paused(*pids: int) -> Iterator[None]:
    """Processes that stand still meanwhile."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def settled(make_cluster: Callable[..., Cluster]) -> tuple[Cluster, Load, Instance]:
    """A cluster with two partitions whose stopped instance has counted all there is."""
    cluster = make_cluster(partitions=2, **PATIENT)
    load = Load(cluster.servers, cluster.topic("in"))
    load.send(RECORDS)
    load.flush()
    instance = cluster.instance("a").start()
    cluster.await_settled()
    assert instance.stop() == 0, instance.log()
    return cluster, load, instance


def overtake(cluster: Cluster, load: Load) -> tuple[TopicPartition, int]:
    """Delete half of what nobody has read of a partition; which, and up to where.

    A fetch that waits at the broker is answered with the first records that come, also to a process
    that stands still.
    """
    tp = TopicPartition(cluster.topic("in"), 0)
    load.send(100)
    load.flush()
    read = cluster.admin.end_offsets([tp])[tp]
    load.send(RECORDS)
    load.flush()
    cut = (read + cluster.admin.end_offsets([tp])[tp]) // 2
    delete(cluster, {tp: cut})
    return tp, cut


def lost_by(instance: Instance, tp: TopicPartition, cut: int) -> int:
    """How many records the task had not read that were deleted."""
    found = re.search(rf"task 0_0: {tp} holds {cut} to \d+, its position is (\d+)", instance.log())
    assert found, instance.log()
    return cut - int(found[1])


def delete(cluster: Cluster, before: dict[TopicPartition, int]) -> None:
    """Delete the records below these offsets."""
    cluster.admin.delete_records(before)
    partitions = list(before)
    wait_for(lambda: cluster.admin.start_offsets(partitions) == before, "they are deleted")


def counted(cluster: Cluster, instance: Instance) -> list[int]:
    """Records that the stores of a stopped instance have counted, by partition."""
    copies = contents(cluster, [instance])
    values = [copies[TaskId(0, p)].entries["counts"].values() for p in range(2)]
    return [sum(int.from_bytes(v, "big", signed=True) for v in column) for column in values]


def all_but(cluster: Cluster, lost: int) -> list[int]:
    """Records that were ever in each partition, without those lost of the first."""
    ends = cluster.admin.end_offsets(cluster.partitions(cluster.topic("in")))
    first, second = (ends[tp] for tp in cluster.partitions(cluster.topic("in")))
    return [first - lost, second]


def test_a_task_that_retention_overtakes_goes_on_where_the_setting_says(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster, load, instance = settled(make_cluster)
    (worker,) = instance.start().await_workers()
    cluster_runs(instance)
    with paused(worker):
        tp, cut = overtake(cluster, load)
    cluster.await_settled()
    lost = lost_by(instance, tp, cut)
    assert f"it goes on at earliest, {cut}" in instance.log()
    assert instance.workers() == [worker], f"the worker went on\n{instance.log()}"
    assert instance.stop() == 0, instance.log()
    assert lost > 0
    assert counted(cluster, instance) == all_but(cluster, lost)


def cluster_runs(instance: Instance) -> None:
    """Wait until the latest run of an instance runs all its tasks."""
    wait_for(
        lambda: "RUNNING tasks: 0_0 0_1 1_0 1_1" in instance.log(),
        lambda: f"it runs\n{instance.log()}",
    )


def test_without_a_reset_policy_the_task_is_halted_alone_and_says_so(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Also at the next start; with a policy it goes on."""
    cluster, load, first = settled(make_cluster)
    strict = cluster.instance("strict", state_of=first, more=NONE)
    (worker,) = strict.start().await_workers()
    cluster_runs(strict)
    with paused(worker):
        tp, cut = overtake(cluster, load)
    assert_only_one_stands_still(cluster, strict, worker)
    lost = lost_by(strict, tp, cut)
    assert strict.stop() == 0, strict.log()
    assert counted(cluster, strict)[0] < cut
    load.send(100)
    load.flush()
    (worker,) = strict.start().await_workers()
    assert_only_one_stands_still(cluster, strict, worker)
    assert strict.stop() == 0, strict.log()
    first.start()
    cluster.await_settled()
    assert first.stop() == 0, first.log()
    assert counted(cluster, first) == all_but(cluster, lost)


def assert_only_one_stands_still(cluster: Cluster, instance: Instance, worker: int) -> None:
    """The log and the status name the task, and everything else is processed."""
    log = instance.log
    wait_for(lambda: "the task is halted, the others go on" in log(), lambda: f"it halts\n{log()}")
    other = TopicPartition(cluster.topic("in"), 1)
    end = cluster.admin.end_offsets([other])[other]
    wait_for(lambda: cluster.committed()[other].offset == end, lambda: f"the other runs\n{log()}")
    code, found = wait_for(
        lambda: shown if (shown := status(cluster.servers, cluster.name, "--check"))[0] else None,
        "the status tells",
    )
    assert (code, [v["rule"] for v in found["violations"]]) == (1, ["T1"])
    tasks = [t for i in found["instances"] for m in i["members"] for t in m["tasks"]]
    assert [t["task"] for t in tasks if t["problem"] is not None] == ["0_0"]
    assert "auto.offset.reset is none" in found["violations"][0]["text"]
    assert instance.workers() == [worker], f"the worker went on\n{log()}"


def test_a_late_member_outlives_the_purge_of_what_the_new_owner_has_read(
    make_cluster: Callable[..., Cluster],
) -> None:
    """It wakes up at an offset of a repartition topic that is gone; its tasks are gone as well.

    It has delivered everything when it falls asleep: what it had under way would be too old, and
    its worker would fail. And nothing comes while records are deleted, which owners do as well.
    """
    cluster = make_cluster(partitions=2)
    late, other = cluster.instance("late"), cluster.instance("other")
    load = Load(cluster.servers, cluster.topic("in"))
    load.send(RECORDS)
    load.flush()
    (worker,) = late.start().await_workers()
    cluster.await_settled()
    before = cluster.committed()
    with paused(worker):
        other.start()
        await_owners(cluster, other)
        load.send(RECORDS)
        load.flush()
        cluster.await_settled()
        found = cluster.committed()
        repartition = [tp for tp in cluster.inputs if tp.topic.endswith("-repartition")]
        assert all(found[tp].offset > before[tp].offset for tp in repartition)
        delete(cluster, {tp: found[tp].offset for tp in repartition})
    await_owners(cluster, late, other)
    with load:
        go_on(load)
        true = load.finish()
    cluster.await_settled()
    assert late.workers() == [worker], f"the worker went on\n{late.log()}"
    assert [late.stop(), other.stop()] == [0, 0], cluster.logs()
    assert_counts_exact(cluster, contents(cluster, [late, other]), true)
