"""Instances leave groups of the other modes, one and then all, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamlet import App
from streamlet.errors import RefusedError
from tests.integration.chaos.checks import assert_counts_exact, contents
from tests.integration.chaos.support import LONG_SESSIONS, Cluster
from tests.integration.chaos.topics import SLOW_BEAT_S, Load
from tests.integration.scaling.commands import (
    assert_left_well,
    assert_moved_once,
    await_band,
    await_periods,
    scale_down,
)
from tests.integration.scaling.scenes import Marks

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


@pytest.mark.parametrize("mode", ["eager", "upgrading"])
def test_one_leaves_by_name_then_all_do(make_cluster: Callable[..., Cluster], mode: str) -> None:
    """Without learners tasks move in two rounds; in mode upgrading they move warm, as ever."""
    cluster = make_cluster(
        "counting",
        stream_rebalancing_mode=mode,
        initial_assignment_delay_ms="10000",
        **LONG_SESSIONS,
    )
    a, b, c = three = [cluster.instance(name, 0).start() for name in "abc"]
    with Load(cluster.servers, cluster.topic("in"), rate=500, beat_s=SLOW_BEAT_S) as load:
        await_band(cluster, three)
        before = await_periods(cluster, {"a", "b", "c"})
        found = scale_down(cluster, "--name", "b", "--yes", "--wait")
        assert (found.code, found.document["done"]) == (0, True), (found, cluster.logs())
        targets = {move["to"] for move in found.document["moves"]}
        assert b.wait() == 0, b.log()
        after = await_periods(cluster, {"a", "c"})
        if mode == "upgrading":
            assert_left_well([b], [a, c])
            assert_moved_once(before, after, ["b"])
            assert targets <= {"a-0", "c-0"}
        else:
            assert targets == {None}

        app = App(cluster.name, bootstrap_servers=cluster.servers)
        with pytest.raises(RefusedError, match="none would go on"):
            app.scale_down(names=["a", "c"])
        assert Marks(cluster).names() == set()
        all_gone = app.scale_down(names=["a", "c"], even_all=True)
        assert (all_gone.done, all_gone.staying) == (True, ())
        assert (a.wait(), c.wait()) == (0, 0), cluster.logs()

        # To start is to want to run: what came meanwhile is counted, and nothing twice.
        a.start()
        true = load.finish()
    cluster.await_settled()
    a.interrupt()
    assert a.wait() == 0, a.log()
    assert_counts_exact(cluster, contents(cluster, three), true)
