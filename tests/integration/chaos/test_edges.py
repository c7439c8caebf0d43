"""Repartition topics with prefixes: every store of every subtopology is exact, whatever fails."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from streamlet.testing import KafkaBroker
from tests.integration.chaos.chained import assert_all_exact, rows_of_digits
from tests.integration.chaos.faults import Faults
from tests.integration.chaos.support import Cluster, wait_for
from tests.integration.chaos.topics import Load

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

ALL = (
    Faults.kill_worker,
    Faults.add_host,
    Faults.kill_host,
    Faults.freeze,
    Faults.lose_host,
    Faults.restart_broker,
    Faults.stop_host,
    Faults.kill_worker,
)


def test_every_store_behind_repartitions_is_exact_whatever_fails(
    make_cluster: Callable[..., Cluster], kafka_broker: KafkaBroker, seed: int, rounds: int
) -> None:
    """Also on a fresh host that restores all of it. Six rounds make each fault once."""
    cluster = make_cluster("chained")
    dice = random.Random(seed)
    rows_of_digits(cluster)
    faults = Faults(cluster, kafka_broker, dice)
    cluster.await_settled()  # from here on each event meets a row
    with Load(cluster.servers, cluster.topic("in"), rate=1_000, seed=seed) as load:
        for _ in range(max(1, rounds // 6)):
            for fault in dice.sample(ALL, len(ALL)):
                faults.make(fault)
        true = load.finish()
    cluster.await_settled()
    assert [one.stop() for one in faults.instances] == [0] * len(faults.instances), cluster.logs()
    assert_all_exact(cluster, [one for one in cluster.instances if one in faults.instances], true)

    fresh = cluster.instance("fresh").start()
    wait_for(
        lambda: all(owner.startswith("fresh-") for owner in cluster.owners().values()),
        lambda: f"it has all tasks\n{fresh.log()}",
    )
    assert fresh.stop() == 0, fresh.log()
    assert_all_exact(cluster, [fresh], true)
    print(f"{load.total} records, {dict(faults.made)}")
