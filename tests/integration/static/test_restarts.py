"""Static members restart, are doubled, change their number and their kind; on a real broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.chaos.checks import assert_counts_exact, contents
from tests.integration.chaos.support import Cluster, wait_for
from tests.integration.chaos.topics import SLOW_BEAT_S, Load
from tests.integration.static.groups import PATIENT, static, watching

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def test_a_rolling_restart_of_all_instances_keeps_generation_and_tasks(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Gracefully and by kill -9, follower and leader, beside a dynamic member."""
    cluster = make_cluster("counting", session_timeout_ms=PATIENT)
    a, b = static(cluster, "a"), static(cluster, "b")
    dynamic = cluster.instance("c")
    with (
        Load(cluster.servers, cluster.topic("in"), rate=200, beat_s=SLOW_BEAT_S) as load,
        watching(cluster) as group,
    ):
        dynamic.start()
        cluster.await_running()
        a.start()
        b.start()
        before = group.settled("a-0", "b-0", "c-0", over=True)
        assert before.ids == {"a-0": "a-0", "b-0": "b-0", "c-0": None}

        a.stop()
        a.start()
        now = group.successor("a-0", before)
        b.kill()
        b.start()
        now = group.successor("b-0", now)

        assert (now.generation, now.tasks) == (before.generation, before.tasks), cluster.logs()
        # Both go on with their tasks: what comes now is committed by the new processes.
        mark = cluster.committed()
        wait_for(
            lambda: all(cluster.committed()[tp].offset > mark[tp].offset for tp in cluster.inputs),
            lambda: f"all tasks go on\n{cluster.logs()}",
        )
        assert group.seen().generation == before.generation, cluster.logs()
        true = load.finish()
    cluster.await_settled()
    living = [a, b, dynamic]
    assert [instance.stop() for instance in living] == [0, 0, 0], cluster.logs()
    assert_counts_exact(cluster, contents(cluster, living), true)


def test_the_same_static_id_twice_ends_the_older_process(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster("counting", session_timeout_ms=PATIENT)
    older, newer = static(cluster, "a"), static(cluster, "a")
    older.start()
    cluster.await_running()

    newer.start()

    assert older.wait() == 6, cluster.logs()
    assert "another process joined group" in older.log()
    assert "group.instance.id a-0" in older.log()
    with watching(cluster) as group:
        group.settled("a-0")
    cluster.await_settled()
    assert newer.stop() == 0, cluster.logs()


def test_ids_of_workers_that_are_no_more_are_removed_at_the_start(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Three workers, then two, then one on an empty disk; nothing waits for a session to end."""
    cluster = make_cluster("counting", session_timeout_ms=PATIENT)
    with watching(cluster) as group:
        three = static(cluster, "a", processes=3).start()
        cluster.await_running()
        group.settled("a-0", "a-1", "a-2")
        three.stop()
        two = static(cluster, "a", processes=2, state_of=three).start()
        group.settled("a-0", "a-1")
        assert "a-2 is a member of an earlier run of this instance, it was removed" in two.log()
        two.stop()
        one = static(cluster, "a").start()
        group.settled("a-0")
        assert one.stop() == 0, cluster.logs()


def test_a_rolling_bounce_switches_to_static_members_and_back(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster("counting", session_timeout_ms=PATIENT)
    with (
        Load(cluster.servers, cluster.topic("in"), rate=200, beat_s=SLOW_BEAT_S) as load,
        watching(cluster) as group,
    ):
        living = [cluster.instance(name).start() for name in "ab"]
        cluster.await_running()
        group.settled("a-0", "b-0")
        for make in (static, Cluster.instance):
            for place, old in enumerate(living):
                before = group.seen()
                assert old.stop() == 0, cluster.logs()
                living[place] = make(cluster, old.name, state_of=old).start()
                group.successor(f"{old.name}-0", before)
                seen = group.settled("a-0", "b-0")
            static_now = make is static
            assert seen.ids == {m: m if static_now else None for m in ("a-0", "b-0")}
        true = load.finish()
    cluster.await_settled()
    assert [instance.stop() for instance in living] == [0, 0], cluster.logs()
    assert_counts_exact(cluster, contents(cluster, living), true)
