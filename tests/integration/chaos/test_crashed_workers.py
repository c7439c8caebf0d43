"""A worker dies inside a living instance: its tasks go on without waiting for its session's end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.chaos.checks import assert_counts_exact, contents
from tests.integration.chaos.support import Cluster, wait_for
from tests.integration.chaos.topics import Load
from tests.integration.chaos.topologies import SMALL_STATE
from tests.integration.learners.scenes import await_owners
from tests.integration.static.groups import static, watching

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

#: Longer than a test lasts: neither a session nor a rebalance can time out in one.
LONG = {"session_timeout_ms": "600000", "rebalance_timeout_ms": "600000"}


def await_progress(cluster: Cluster) -> None:
    """Wait until each task has committed records that came after now."""
    mark = {tp: one.offset for tp, one in cluster.committed().items()}
    wait_for(
        lambda: all(cluster.committed()[tp].offset > mark[tp] for tp in cluster.inputs),
        lambda: f"all tasks go on\n{cluster.logs()}",
    )


def test_the_tasks_of_a_dead_worker_go_on_with_others_at_once(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Its member is removed, and nothing is lost or counted twice."""
    cluster = make_cluster("counting", **LONG)
    a, b = cluster.instance("a", 2), cluster.instance("b")
    names = ("a-0", "a-1", "b-0")
    with Load(cluster.servers, cluster.topic("in"), rate=500) as load, watching(cluster) as group:
        a.start()
        b.start()
        cluster.await_running()
        for instance in (a, b):
            group.settled(*names)
            instance.kill_worker(instance.workers()[0])
            wait_for(
                lambda log=instance.log: "removed the dead member" in log(),
                lambda: f"the dead member is removed\n{cluster.logs()}",
            )
            await_progress(cluster)
        group.settled(*names)
        true = load.finish()
    cluster.await_settled()
    assert "starting it again at once" in a.log()
    assert [a.stop(), b.stop()] == [0, 0], cluster.logs()
    assert_counts_exact(cluster, contents(cluster, [a, b]), true)


def test_tasks_with_much_state_go_on_where_it_is_as_soon_as_the_worker_is_back(
    make_cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dead member is removed when its successor joins: one rebalance, and nobody restores."""
    monkeypatch.setenv(SMALL_STATE, "0")
    # Both are there when the tasks are first given, so neither has a copy of the other's.
    cluster = make_cluster("counting", initial_assignment_delay_ms="15000", **LONG)
    a, b = cluster.instance("a"), cluster.instance("b")
    with Load(cluster.servers, cluster.topic("in"), rate=500) as load, watching(cluster) as group:
        a.start()
        b.start()
        cluster.await_running()
        await_owners(cluster, a, b)
        before = group.settled("a-0", "b-0")
        start = len(b.log())
        a.kill_worker(a.workers()[0])
        after = group.successor("a-0", before)
        await_progress(cluster)
        assert (after.generation, after.tasks) == (before.generation + 1, before.tasks)
        assert "restoring" not in b.log()[start:]
        true = load.finish()
    cluster.await_settled()
    assert [a.stop(), b.stop()] == [0, 0], cluster.logs()
    assert_counts_exact(cluster, contents(cluster, [a, b]), true)


def test_a_dead_worker_with_a_static_id_is_back_at_once_and_nothing_moves(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster("counting", **LONG)
    a, b = static(cluster, "a"), static(cluster, "b")
    with Load(cluster.servers, cluster.topic("in"), rate=500) as load, watching(cluster) as group:
        a.start()
        b.start()
        cluster.await_running()
        before = group.settled("a-0", "b-0", over=True)
        a.kill_worker(a.workers()[0])
        after = group.successor("a-0", before)
        await_progress(cluster)
        assert (after.generation, after.tasks) == (before.generation, before.tasks)
        assert "starting it again at once" in a.log()
        true = load.finish()
    cluster.await_settled()
    assert [a.stop(), b.stop()] == [0, 0], cluster.logs()
    assert_counts_exact(cluster, contents(cluster, [a, b]), true)
