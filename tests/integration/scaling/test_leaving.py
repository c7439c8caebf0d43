"""Instances that are to leave: their tasks are handed over warm, then they end by themselves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from streamlet.admin.snapshot import read
from streamlet.coordinator.transport import Transport
from streamlet.state.directory import StateDirectory
from streamlet.testing import KafkaBroker
from streamlet.types import TaskId
from tests.integration.chaos.fork_server import ROOT
from tests.integration.chaos.support import LONG_SESSIONS, Cluster, Instance, wait_for
from tests.integration.chaos.topics import SLOW_BEAT_S, Load
from tests.integration.learners.scenes import assert_exact_in_the_end, await_owners
from tests.integration.scaling.scenes import NEVER_READY, Marks

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def assert_drained(instance: Instance) -> None:
    """It ended by itself, and well, and every task it lost it lost in a hand-over."""
    assert instance.wait() == 0, instance.log()
    assert f"{instance.name} drained: " in instance.log()
    assert "lost all tasks" not in instance.log()


def await_let_go(cluster: Cluster, instance: Instance) -> None:
    """Wait until it has the state of what it runs open, and of nothing else.

    A task that comes back before its stores were closed has no copy to be promoted.
    """

    def held() -> set[TaskId]:
        folders = StateDirectory(instance.state, cluster.name).tasks()
        return {folder.task for folder in folders if folder.holder is not None}

    def runs() -> set[TaskId]:
        owners = cluster.owners().items()
        return {task for task, owner in owners if owner.split("-")[0] == instance.name}

    wait_for(lambda: held() <= runs(), lambda: f"{held()} are held\n{instance.log()}")


def test_marked_instances_hand_over_and_end_one_after_the_other(
    make_cluster: Callable[..., Cluster],
) -> None:
    """One by a mark in the topic; then the leader, by a signal, while the load goes on."""
    cluster = make_cluster("counting", **LONG_SESSIONS)
    a = cluster.instance("a", 0).start()
    with Load(cluster.servers, cluster.topic("in"), rate=1_000, beat_s=SLOW_BEAT_S) as load:
        cluster.await_running()
        b, c = cluster.instance("b", 2).start(), cluster.instance("c").start()
        await_owners(cluster, a, b, c)
        await_let_go(cluster, c)
        marks = Marks(cluster)
        marks.mark(b)
        assert_drained(b)
        await_owners(cluster, a, c)
        assert (marks.names(), marks.of(b)) == (set(), None)

        assert a.process is not None
        a.process.send_signal(signal.SIGUSR1)
        wait_for(lambda: marks.names() == {"a"}, lambda: f"a is marked\n{a.log()}")
        assert_drained(a)
        await_owners(cluster, c)
        assert_exact_in_the_end(cluster, [c], load)
    for instance in (a, b):
        assert "is restored without its copy" not in c.log(), instance.name


def test_a_mark_can_be_cancelled_and_a_deadline_is_kept_though_a_worker_dies(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Learners never say that they are ready, so that without a deadline nobody ever leaves."""
    cluster = make_cluster("counting", **NEVER_READY)
    a, b = cluster.instance("a").start(), cluster.instance("b", 2).start()
    with Load(cluster.servers, cluster.topic("in"), rate=500, beat_s=SLOW_BEAT_S) as load:
        await_owners(cluster, a, b)
        marks = Marks(cluster)
        marks.mark(b)
        marks.await_leaving(b, True)
        marks.cancel(b)
        marks.await_leaving(b, False)
        await_owners(cluster, a, b)

        # The worker that takes the place of the dead one is bound by the mark as well.
        marks.mark(b, deadline_in_ms=15_000)
        marks.await_leaving(b, True)
        b.kill_worker(b.await_workers()[0])
        assert_drained(b)
        assert b.log().count(" started (pid ") == 3
        await_owners(cluster, a)

        # It starts without its old mark, and is as welcome as anybody.
        marks.mark(b)
        b.start()
        wait_for(lambda: marks.of(b) is not None, lambda: f"b is back\n{b.log()}")
        assert marks.names() == set()
        assert b.stop() == 0
        assert_exact_in_the_end(cluster, [a], load)


def test_a_mark_and_its_deadline_outlive_the_leader_and_the_broker(
    kafka_broker: KafkaBroker, make_cluster: Callable[..., Cluster]
) -> None:
    """Learners never say that they are ready: only rebalances and the deadline move anything."""
    cluster = make_cluster("counting", session_timeout_ms="15000", **NEVER_READY)
    a, b, c = (cluster.instance(name).start() for name in "abc")
    with Load(cluster.servers, cluster.topic("in"), rate=500, beat_s=SLOW_BEAT_S) as load:
        await_owners(cluster, a, b, c)
        marks = Marks(cluster)
        marks.mark(c, deadline_in_ms=20_000)
        marks.await_leaving(c, True)
        kafka_broker.restart()
        newest = wait_for(lambda: leader_of(cluster), "a broker that is up again tells who leads")
        leader, other = (a, b) if newest.startswith("a-") else (b, a)
        leader.kill()
        assert c.wait(300) == 0, c.log()
        assert "c drained: " in c.log()
        await_owners(cluster, other)
        assert_exact_in_the_end(cluster, [other], load)


def leader_of(cluster: Cluster) -> str:
    """The member whose plan was the last."""
    transport = Transport(cluster.servers, client_id="look")
    try:
        return read(transport.describe_group(cluster.name, 10_000).result()).newest.leader
    finally:
        transport.close()


def test_a_static_member_leaves_for_good_by_sigterm_or_by_command(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster("counting", **LONG_SESSIONS)
    a = cluster.instance("a").start()
    cluster.await_running()
    b = cluster.instance("b", 0, more=("--instance-id", "b", "--drain-on-sigterm")).start()
    c = cluster.instance("c", more=("--instance-id", "c")).start()
    with Load(cluster.servers, cluster.topic("in"), rate=500, beat_s=SLOW_BEAT_S) as load:
        await_owners(cluster, a, b, c)
        assert b.process is not None
        b.process.terminate()
        assert_drained(b)
        command = [sys.executable, "-m", "streamlet", "drain", cluster.name, "--json"]
        done = subprocess.run(
            [*command, "--state-dir", str(c.state), "--timeout", "300s"],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert (answer["application"], answer["name"], answer["drained"]) == (
            cluster.name,
            "c",
            True,
        )
        assert_drained(c)
        assert members(cluster) == [None]
        assert_exact_in_the_end(cluster, [a], load)


def members(cluster: Cluster) -> list[str | None]:
    """Static ids of the group's members."""
    transport = Transport(cluster.servers, client_id="look")
    try:
        found = transport.describe_group(cluster.name, 10_000).result()
        return [member.instance_id for member in found.members]
    finally:
        transport.close()
