"""Under exactly_once each record counts once, in stores and for readers of what was committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.types import TopicPartition
from tests.integration.chaos.checks import (
    assert_complete_and_in_order,
    assert_counts_exact,
    await_share,
    contents,
    counts_of,
    go_on,
)
from tests.integration.chaos.crash_points import CRASHES, PLACES
from tests.integration.chaos.support import PARTITIONS, Cluster, wait_for
from tests.integration.chaos.topics import Load, read_all
from tests.integration.chaos.waiting import KEYS
from tests.integration.chaos.waiting_checks import fill_tables, wrong_stores

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

EXACTLY_ONCE = {"processing_guarantee": "exactly_once"}


def assert_exact(cluster: Cluster, true: Counter[str]) -> None:
    """Stores, and each output of both topics, are those of the input, each once and in order."""
    copies = contents(cluster, cluster.instances)
    assert_counts_exact(cluster, copies, true)
    groups: Counter[str] = Counter()
    for key, count in true.items():
        groups[key[-1]] += count
    assert counts_of(copies, "groups") == groups
    for topic, meant in (("counts", true), ("groups", groups)):
        records = read_all(cluster.servers, cluster.topic(topic), range(PARTITIONS))
        assert_complete_and_in_order(records, meant)


def test_a_worker_that_dies_between_two_steps_of_a_commit_loses_and_doubles_nothing(
    make_cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(CRASHES, str(tmp_path))
    cluster = make_cluster("counting", **EXACTLY_ONCE)
    a, b = cluster.instance("a", 2).start(), cluster.instance("b").start()
    with Load(cluster.servers, cluster.topic("in"), keys=50, rate=500) as load:
        cluster.await_running()
        wait_for(lambda: all((tmp_path / one).exists() for one in PLACES), cluster.logs)
        true = load.finish()
    cluster.await_settled()
    assert [a.stop(), b.stop()] == [0, 0], cluster.logs()
    assert_exact(cluster, true)


def test_tasks_that_move_by_hand_overs_and_after_kills_lose_and_double_nothing(
    make_cluster: Callable[..., Cluster],
) -> None:
    """What a lost host has left open is aborted long before its time-out."""
    cluster = make_cluster("counting", transaction_timeout_ms="600000", **EXACTLY_ONCE)
    a, b = cluster.instance("a", 2).start(), cluster.instance("b")
    with Load(cluster.servers, cluster.topic("in"), keys=50, rate=500) as load:
        cluster.await_running()
        b.start()
        await_share(cluster, b)  # by hand-overs
        a.kill_worker(a.workers()[0])
        go_on(load)
        await_share(cluster, a, 2)
        assert b.stop() == 0
        go_on(load)
        b.start()
        await_share(cluster, b)
        b.kill()
        true = load.finish()
        cluster.await_settled()
    assert a.stop() == 0, cluster.logs()
    assert_exact(cluster, true)


def test_the_guarantee_changes_by_one_instance_after_the_other_and_counts_stay_exact(
    make_cluster: Callable[..., Cluster],
) -> None:
    """By hand-overs, and where the other was killed amid its commits, both ways.

    A stream that met its table is regrouped, so records in between wait for commits, or do not.
    """
    cluster = make_cluster("shop", consumer_isolation_level="read_committed")
    changelog = cluster.partitions(cluster.topic("shop-changelog"))
    fill_tables(cluster)
    a = cluster.instance("a").start()
    b = cluster.instance("b", more=("--set", "processing.guarantee=exactly_once"))
    with Load(cluster.servers, cluster.topic("in"), keys=KEYS, rate=500) as load:
        cluster.await_running()
        b.start()
        await_share(cluster, b)
        a.kill()
        wait_for(lambda: all(one.transaction for one in commits(cluster)), cluster.logs)
        go_on(load)
        a.start()
        await_share(cluster, a)
        b.kill()
        wait_for(lambda: not any(one.transaction for one in commits(cluster)), cluster.logs)
        load.finish()
        cluster.await_settled()
        wait_for(lambda: all_stable(cluster, changelog), cluster.logs)
    assert a.stop() == 0, cluster.logs()
    assert wrong_stores(cluster, cluster.instances) == {}


def all_stable(cluster: Cluster, partitions: list[TopicPartition]) -> bool:
    """Whether no transaction is open on any of these partitions."""
    stable = cluster.admin.readable_ends(partitions, read_committed=True)
    return stable == cluster.admin.end_offsets(partitions)


def commits(cluster: Cluster) -> list[CommitMetadata]:
    """The texts of all commits."""
    return [one.metadata for one in cluster.committed().values() if one.metadata is not None]
