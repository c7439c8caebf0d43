"""An optimised topology: what shares a topic or a store is exact whatever fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.chaos.support import Cluster
from tests.integration.chaos.test_assorted import PARTITIONS, rows_on_disk, told, undisturbed
from tests.integration.chaos.topics import Load
from tests.integration.chaos.topologies import BEAT_S
from tests.integration.learners.scenes import await_owners

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def test_merged_topics_and_a_shared_store_survive_a_killed_worker_and_a_lost_host(
    make_cluster: Callable[..., Cluster],
) -> None:
    """Stores and pairs are those of the same topology where nothing fails."""
    cluster = make_cluster("optimized", partitions=PARTITIONS)
    (shared,) = cluster.topology.repartition_topics
    stores = [spec.name for part in cluster.topology.subtopologies for spec in part.stores]
    assert len(stores) == 3, "the join of a stream with itself has one store"
    one = cluster.instance("one").start()
    with Load(cluster.servers, cluster.topic("in"), keys=40, rate=200, beat_s=BEAT_S) as events:
        cluster.await_running()
        one.kill_worker(one.await_workers()[0])
        cluster.await_running()
        one.kill()
        two = cluster.instance("two").start()
        await_owners(cluster, two)
        events.finish()
    cluster.await_settled()
    assert two.stop() == 0, two.log()

    rows, results = undisturbed(cluster, "optimized", ["pairs"])
    filled = {name for of_task in rows.values() for name, found in of_task.items() if found}
    assert filled == set(stores)
    assert rows_on_disk(cluster, two) == rows
    assert set(told(cluster, "pairs")) == results["pairs"].keys()
    counts = dict(row for of_task in rows.values() for row in of_task.get("counts", ()))
    assert sum(counts.values()) == events.total
    assert shared in cluster.admin.topics()
