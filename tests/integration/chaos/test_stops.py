"""Ctrl-C: once is graceful and leaves nothing to repeat, twice is now."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import psutil
import pytest

from tests.integration.chaos.checks import assert_complete_and_in_order, await_share
from tests.integration.chaos.support import PARTITIONS, Cluster, wait_for
from tests.integration.chaos.topics import Load, read_all

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def test_after_one_interrupt_another_takes_over_at_once_and_repeats_nothing(
    make_cluster: Callable[..., Cluster],
) -> None:
    """The first has left the group: its session, of a quarter of an hour, is not waited for."""
    cluster = make_cluster("counting", session_timeout_ms="900000")
    first = cluster.instance("first", 2).start()
    with Load(cluster.servers, cluster.topic("in")) as load:
        cluster.await_running()
        assert first.stop() == 0, first.log()
        second = cluster.instance("second").start()
        wait_for(
            lambda: {owner.split("-")[0] for owner in cluster.owners().values()} == {"second"},
            lambda: f"the second has all tasks\n{cluster.logs()}",
        )
        true = load.finish()
    cluster.await_settled()
    assert second.stop() == 0, second.log()
    records = read_all(cluster.servers, cluster.topic("counts"), range(PARTITIONS))
    assert_complete_and_in_order(records, true)


def test_a_second_interrupt_stops_workers_that_are_busy(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster("counting")
    instance = cluster.instance("a").start()
    with Load(cluster.servers, cluster.topic("in")):
        cluster.await_running()
        (worker,) = instance.workers()
        os.kill(worker, signal.SIGSTOP)  # as deep in a user's function as can be
        instance.interrupt()
        wait_for(lambda: "stopping" in instance.log(), instance.log)
        instance.interrupt()
        assert instance.wait() == 130
    assert not psutil.pid_exists(worker)


def test_workers_whose_supervisor_was_killed_commit_leave_and_end(
    make_cluster: Callable[..., Cluster],
) -> None:
    """They notice at their standard input; the next instance finds state and folder free."""
    cluster = make_cluster("counting", session_timeout_ms="60000")
    first = cluster.instance("first").start()
    with Load(cluster.servers, cluster.topic("in")) as load:
        cluster.await_running()
        (worker,) = first.workers()
        assert first.process is not None
        first.process.kill()
        assert first.wait() == -signal.SIGKILL
        second = cluster.instance("second", state_of=first).start()
        wait_for(lambda: not psutil.pid_exists(worker), lambda: f"it ends\n{first.log()}")
        await_share(cluster, second)
        true = load.finish()
    cluster.await_settled()
    assert second.stop() == 0, second.log()
    records = read_all(cluster.servers, cluster.topic("counts"), range(PARTITIONS))
    assert_complete_and_in_order(records, true)
