"""Everybody stops for each rebalance, and every record is counted once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.chaos.checks import assert_complete_and_in_order
from tests.integration.chaos.support import PARTITIONS, Cluster
from tests.integration.chaos.topics import Load, read_all
from tests.integration.learners.scenes import (
    TALKATIVE,
    assert_exact_in_the_end,
    await_owners,
    go_on,
)

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def test_eager_instances_come_and_go_and_stop_everything_each_time(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster("counting", stream_rebalancing_mode="eager")
    a, b = (cluster.instance(name, more=TALKATIVE) for name in "ab")
    a.start()
    with Load(cluster.servers, cluster.topic("in"), rate=1_000) as load:
        cluster.await_running()
        mark = len(a.log())
        b.start()
        await_owners(cluster, a, b)
        stopped = a.log()[mark:]
        assert a.stop() == 0, a.log()
        await_owners(cluster, b)
        go_on(load)
        assert_exact_in_the_end(cluster, [b], load)
    # A member with all tasks stops all of them, though it is given half of them again.
    assert all(f"Close(task={task!r})" in stopped for task in cluster.tasks)
    assert "SetCopies(learner=frozenset({" not in b.log()
    records = read_all(cluster.servers, cluster.topic("counts"), range(PARTITIONS))
    assert_complete_and_in_order(records, load.produced)
