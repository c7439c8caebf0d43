"""A copy that was released long ago is learned again before its task comes back."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.integration.chaos.checks import assert_counts_exact, contents, go_on
from tests.integration.chaos.support import LONG_SESSIONS, Cluster
from tests.integration.chaos.topics import SLOW_BEAT_S, Load
from tests.integration.learners.scenes import (
    READY,
    TALKATIVE,
    assert_settled,
    await_line,
    await_owners,
)

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def test_what_was_released_long_ago_comes_back_only_after_it_was_learned(
    make_cluster: Callable[..., Cluster],
) -> None:
    """No rebalance follows a hand-over: until the next one its owner is not asked how far it is."""
    cluster = make_cluster("counting", acceptable_recovery_lag="0", **LONG_SESSIONS)
    a = cluster.instance("a", 0, more=TALKATIVE).start()
    with Load(cluster.servers, cluster.topic("in"), rate=300, beat_s=SLOW_BEAT_S) as load:
        cluster.await_running()
        b = cluster.instance("b", 0, more=TALKATIVE).start()
        await_owners(cluster, a, b)
        go_on(load)
        true = load.finish()
    cluster.await_settled()
    before = a.log_file.stat().st_size
    assert b.process is not None
    b.process.send_signal(signal.SIGUSR1)
    await_line(a, READY.says, before)
    assert b.wait() == 0, b.log()
    await_owners(cluster, a)
    assert_settled(cluster)
    a.interrupt()
    assert a.wait() == 0, a.log()
    assert_counts_exact(cluster, contents(cluster, [a]), true)
