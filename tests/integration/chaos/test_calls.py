"""State behind calls of async functions: a hand-over under load, then kill -9.

The records come through a repartition topic, so those that a crash has written twice count once.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.chaos.checks import assert_counts_exact, await_share, contents, go_on
from tests.integration.chaos.support import Cluster
from tests.integration.chaos.topics import Load

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def test_state_behind_calls_is_exact_over_a_hand_over_and_kill_9(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster("calling", partitions=2)
    one = cluster.instance("one").start()
    with Load(cluster.servers, cluster.topic("in"), keys=100, rate=1_000) as load:
        cluster.await_running()
        two = cluster.instance("two").start()
        await_share(cluster, two)
        go_on(load)
        one.kill_worker(one.await_workers()[0])
        go_on(load)
        true = load.finish()
    cluster.await_settled()
    assert [one.stop(), two.stop()] == [0, 0], cluster.logs()
    copies = contents(cluster, [one, two])
    assert sorted(copies) == [task for task in cluster.tasks if task.subtopology == 1]
    assert_counts_exact(cluster, copies, true)
