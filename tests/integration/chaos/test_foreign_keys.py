"""Joins by foreign keys under load: kill -9, and a host without any state goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamlet.types import TaskId
from tests.integration.chaos.checks import contents
from tests.integration.chaos.states import Copy
from tests.integration.chaos.support import Cluster, wait_for
from tests.integration.chaos.topics import Load, last_numbers, read_all

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

#: Rows that are referred to; fewer than digits, so that some rows have no partner.
NAMES = 8
KEYS = 100


def test_joins_by_foreign_keys_survive_kill_9_and_go_on_on_a_host_without_state(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster("referring", partitions=2)
    cluster.admin.alter_topics({cluster.topic("names"): {"retention.ms": "604800000"}})
    one = cluster.instance("one").start()
    servers = cluster.servers
    with (
        Load(servers, cluster.topic("in"), keys=KEYS, rate=500) as events,
        Load(servers, cluster.topic("names"), keys=NAMES, rate=50, seed=1) as names,
    ):
        cluster.await_running()
        one.kill()
        fresh = cluster.instance("fresh").start()
        wait_for(
            lambda: all(owner.startswith("fresh-") for owner in cluster.owners().values()),
            lambda: f"it has all tasks\n{fresh.log()}",
        )
        events.finish()
        names.send(20)  # each change meets what was asked for before the restore, too
        names.finish()
    cluster.await_settled()
    assert fresh.stop() == 0, fresh.log()
    said = f"{cluster.topic('names')} is read as a table and has cleanup.policy=delete with reten"
    assert said in fresh.log()
    expected = joined(cluster)
    assert len(expected) == KEYS
    copies = contents(cluster, [fresh])
    assert sorted(copies) == list(cluster.tasks)
    assert rows_of(copies, "found") == expected
    assert len(rows_of(copies, "names-of-events-subscription-store")) == KEYS


def joined(cluster: Cluster) -> dict[bytes, bytes]:
    """What the store of the results must hold: the join of the last records of both topics."""
    partitions = range(cluster.partition_count)
    events, names = (
        last_numbers(read_all(cluster.servers, cluster.topic(topic), partitions))
        for topic in ("in", "names")
    )
    return {
        key.encode(): f"k{number % 10} {number} {names.get(f'k{number % 10}')}".encode()
        for key, number in events.items()
    }


def rows_of(copies: dict[TaskId, Copy], store: str) -> dict[bytes, bytes]:
    """The rows of a store, all its partitions together."""
    return {
        key: value for copy in copies.values() for key, value in copy.entries.get(store, {}).items()
    }
