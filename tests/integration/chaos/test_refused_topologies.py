"""A topology that does not fit its state or its topics is refused, and harms neither."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rocksdict import Options, Rdict

from tests.integration.chaos.checks import assert_counts_exact, contents
from tests.integration.chaos.support import PARTITIONS, Cluster
from tests.integration.chaos.test_failures import database, settled_once

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def test_a_refused_topology_leaves_the_store_as_it_was(
    make_cluster: Callable[..., Cluster],
) -> None:
    """The topology of before goes on counting, here and on a host that has the changelog only."""
    cluster = make_cluster()
    instance, load = settled_once(cluster)
    changed = cluster.instance("changed", state_of=instance, shape="renamed").start()
    assert changed.wait() == 2, changed.log()
    assert "store counts is not in the topology any more" in changed.log()
    load.send(1_000)
    load.flush()
    instance.start()
    cluster.await_settled()
    assert instance.stop() == 0, instance.log()
    assert "is restored" not in instance.log()
    assert_counts_exact(cluster, contents(cluster, [instance]), load.produced)
    load.send(1_000)
    true = load.finish()
    other = cluster.instance("other").start()
    cluster.await_settled()
    assert other.stop() == 0, other.log()
    assert_counts_exact(cluster, contents(cluster, [other]), true)


def test_a_store_that_is_not_in_its_database_any_more_is_restored(
    make_cluster: Callable[..., Cluster],
) -> None:
    """As versions before left it when they refused a topology: the position stands, alone."""
    cluster = make_cluster()
    instance, load = settled_once(cluster)
    for partition in range(PARTITIONS):
        drop_store(str(database(cluster, instance, f"0_{partition}")), "counts")
    load.send(1_000)
    true = load.finish()
    instance.start()
    cluster.await_settled()
    assert instance.stop() == 0, instance.log()
    assert instance.log().count("the entries of store counts are missing") == PARTITIONS
    assert_counts_exact(cluster, contents(cluster, [instance]), true)


def drop_store(folder: str, store: str) -> None:
    """Drop a store's column family and leave everything else."""
    options = Options(raw_mode=True)
    families = {name: options for name in Rdict.list_cf(folder, options)}
    raw = Rdict(folder, options, families)
    raw.drop_column_family(f"store.{store}")
    raw.close()
