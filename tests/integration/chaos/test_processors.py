"""Timers, the dicts of keys and deduplication: kill -9, then a host without any state."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamlet.testing import TopologyTestDriver
from streamlet.types import TaskId
from tests.integration.chaos.support import Cluster, wait_for
from tests.integration.chaos.test_stream_joins import Rows, rows_on_disk
from tests.integration.chaos.topics import Load, read_all
from tests.integration.chaos.topologies import SHAPES

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

#: Key and number of a result; the topics note the time at which they were written.
Result = tuple[str, int]
TOPICS = ("once", "silent")


def test_timers_and_times_survive_kill_9_and_go_on_on_a_host_without_state(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster("remembering", partitions=2)
    one = cluster.instance("one").start()
    with Load(cluster.servers, cluster.topic("in"), keys=300, rate=500, old_ms=5_000) as load:
        cluster.await_running()
        one.kill()
        fresh = cluster.instance("fresh").start()
        wait_for(
            lambda: all(owner.startswith("fresh-") for owner in cluster.owners().values()),
            lambda: f"it has all tasks\n{fresh.log()}",
        )
        load.send(500)
        load.finish()
    cluster.await_settled()
    assert fresh.stop() == 0, fresh.log()
    rows, results = undisturbed(cluster)
    assert all(results.values())
    assert any(task_rows["remember-timers"] for task_rows in rows.values())
    assert rows_on_disk(cluster, [fresh]) == rows
    assert {topic: told(cluster, topic) for topic in TOPICS} == results


def undisturbed(cluster: Cluster) -> tuple[dict[TaskId, Rows], dict[str, set[Result]]]:
    """The stores and the results where nothing fails."""
    app, topic = SHAPES["remembering"](cluster.name), cluster.topic("in")
    stores = app.topology().subtopology(0).stores
    partitions = range(cluster.partition_count)
    with TopologyTestDriver(app, partitions={topic: cluster.partition_count}) as driver:
        for record in read_all(cluster.servers, topic, partitions):
            given = record.key.decode(), record.number, record.at_ms
            driver.pipe_input(topic, *given, partition=record.partition)
        rows = {
            TaskId(0, number): {
                spec.name: list(driver.store(spec.name, partition=number).range())
                for spec in stores
            }
            for number in partitions
        }
        results = {
            name: {(r.key, r.value) for r in driver.read_output(cluster.topic(name))}
            for name in TOPICS
        }
    return rows, results


def told(cluster: Cluster, topic: str) -> set[Result]:
    """The different results in an output topic."""
    found = read_all(cluster.servers, cluster.topic(topic), range(cluster.partition_count))
    return {(record.key.decode(), record.number) for record in found}
