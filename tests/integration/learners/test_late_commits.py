"""A commit that the network delays across a mark (counterexample V5 of the hand-over protocol)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamlet.testing import FaultProxy
from tests.integration.chaos.checks import go_on
from tests.integration.chaos.support import Cluster, wait_for
from tests.integration.chaos.topics import Load
from tests.integration.learners.scenes import (
    LEARNING,
    TALKATIVE,
    assert_exact_in_the_end,
    await_owners,
    catch,
)

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


@pytest.mark.parametrize("delayed", ["commit", "mark"])
def test_a_commit_delayed_across_a_mark_takes_nothing_back(
    make_cluster: Callable[..., Cluster], delayed: str
) -> None:
    """The broker lets every member of a generation commit anything: only a new one fences it."""
    cluster = make_cluster("counting", session_timeout_ms="20000")
    with (
        FaultProxy(cluster.servers) as proxy,
        Load(cluster.servers, cluster.topic("in"), rate=1_000) as load,
    ):
        behind = ("--bootstrap-servers", proxy.bootstrap_servers)
        owner = cluster.instance("a", more=(*TALKATIVE, *behind)).start()
        joiner = cluster.instance("b", more=TALKATIVE)
        cluster.await_running()
        if delayed == "mark":
            held = proxy.hold("OffsetCommit", where=lambda one: b'"release"' in one.frame)
            joiner.start()
        else:
            catch(LEARNING, owner, joiner)
            held = proxy.hold("OffsetCommit")
        wait_for(lambda: held.happened > 0, lambda: f"a {delayed} is sent\n{cluster.logs()}")
        await_owners(cluster, owner, joiner)
        go_on(load)
        before = cluster.committed()
        held.release()
        held.wait(ended=True)
        after = cluster.committed()
        assert all(after[tp].offset >= one.offset for tp, one in before.items())
        assert_exact_in_the_end(cluster, [owner, joiner], load)
