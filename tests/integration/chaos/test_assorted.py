"""Joins of streams and by foreign keys, timers, deduplication, expiry: exact whatever fails."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from streamlet.dsl.graph.row_expiry import timers_of
from streamlet.state.store import CachedStore
from streamlet.state.task_state import TaskState
from streamlet.state.timer_store import TimerStore
from streamlet.testing import TopologyTestDriver
from streamlet.types import TaskId
from tests.integration.chaos.states import copied
from tests.integration.chaos.support import Cluster, Instance, wait_for
from tests.integration.chaos.topics import Load, Record, read_all
from tests.integration.chaos.topologies import BEAT_S, SHAPES
from tests.integration.learners.scenes import await_owners
from tests.integration.scaling.test_leaving import assert_drained
from tests.unit.inside import inside

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

#: How far behind the others some records are: their windows are over, and what they would join is
#: gone from the stores.
OLD_MS = 10_000
KEYS, PARTITIONS = 40, 2
#: Rows that are referred to; fewer than digits, so that some numbers name none.
NAMES = 8

#: Topics whose results do not depend on when the records of two inputs met.
TOPICS = ("pairs", "either", "counts", "met", "once", "recent", "silent")
#: The rows of each store of a task.
Rows = dict[str, list[tuple[Any, Any]]]
Results = list[tuple[str, str]]


def test_all_operators_are_exact_whatever_fails(
    make_cluster: Callable[..., Cluster], seed: int, rounds: int, guarantee: str
) -> None:
    """Hand-overs to an instance and back, kill -9, and a host that has none of the state."""
    once = guarantee == "exactly_once"
    cluster = make_cluster("assorted", partitions=PARTITIONS, processing_guarantee=guarantee)
    servers, dice = cluster.servers, random.Random(seed)
    cluster.admin.alter_topics({cluster.topic("names"): {"retention.ms": "604800000"}})
    one = cluster.instance("one").start()
    with (
        Load(
            servers, cluster.topic("in"), keys=KEYS, rate=120, old_ms=OLD_MS, beat_s=BEAT_S
        ) as events,
        Load(servers, cluster.topic("names"), keys=NAMES, rate=20, seed=1, beat_s=BEAT_S) as names,
    ):
        cluster.await_running()
        for number in range(max(1, rounds // 6)):
            one = _faults(cluster, one, number, dice)
        events.finish()
        names.send(2 * NAMES)  # each change meets what was asked for before the restore, too
        names.finish()
    cluster.await_settled()
    assert one.stop() == 0, one.log()
    said = f"{cluster.topic('names')} is read as a table and has cleanup.policy=delete with reten"
    assert said in one.log()

    rows, results = undisturbed(cluster)
    for store in ("out-outer-shared-join-store", "remember-timers", "seen", "found", "recent"):
        assert any(of_task.get(store) for of_task in rows.values()), store
    assert rows_on_disk(cluster, one) == rows
    assert all(results.values())
    written = {topic: Counter(told(cluster, topic)) for topic in TOPICS}
    for topic, found in written.items():
        assert found.keys() == results[topic].keys(), topic
        assert not once or found == results[topic], topic
    rows_found = dict(row for of_task in rows.values() for row in of_task.get("found", ()))
    assert dict(told(cluster, "found")) == rows_found
    print(f"{events.total} records, {sum(map(len, results.values()))} results")


def _faults(cluster: Cluster, one: Instance, number: int, dice: random.Random) -> Instance:
    """One of each, at random moments; the instance that runs everything then."""
    one.kill_worker(dice.choice(one.await_workers()))
    other = cluster.instance(f"other{number}").start()
    await_owners(cluster, one, other)
    _pause(dice)
    assert other.process is not None
    other.process.send_signal(signal.SIGUSR1)
    assert_drained(other)
    await_owners(cluster, one)
    _pause(dice)
    one.kill()
    fresh = cluster.instance(f"fresh{number}").start()
    await_owners(cluster, fresh)
    return fresh


def _pause(dice: random.Random) -> None:
    moment = time.monotonic() + dice.uniform(0.2, 1.0)
    wait_for(lambda: time.monotonic() >= moment, "the moment")


def undisturbed(
    cluster: Cluster, shape: str = "assorted", topics: Sequence[str] = TOPICS
) -> tuple[dict[TaskId, Rows], dict[str, Counter[tuple[str, str]]]]:
    """The stores of all tasks, and how often there is each result, where nothing fails."""
    app = SHAPES[shape](cluster.name)
    counts = dict.fromkeys(cluster.topology.source_topics, cluster.partition_count)
    with TopologyTestDriver(app, partitions=counts) as driver:
        for topic in cluster.topology.source_topics:
            for record in _read(cluster, topic):
                given = record.key.decode(), record.number, record.at_ms
                driver.pipe_input(topic, *given, partition=record.partition)
        rows = {
            task: {
                name: list(inside(driver, name, task.partition).range())
                for name in compared_stores(cluster, task)
            }
            for task in cluster.tasks
        }
        results = {
            name: Counter((r.key, r.value) for r in driver.read_output(cluster.topic(name)))
            for name in topics
        }
    return rows, results


def compared_stores(cluster: Cluster, task: TaskId) -> list[str]:
    """The stores of a task but for the timers of expiry, which hang on the batches."""
    stores = cluster.topology.subtopology(task.subtopology).stores
    beside = {timers_of(spec.name) for spec in stores if spec.ttl_ms is not None}
    return [spec.name for spec in stores if spec.name not in beside]


def _read(cluster: Cluster, topic: str) -> list[Record]:
    return read_all(cluster.servers, topic, range(cluster.partition_count))


def rows_on_disk(cluster: Cluster, instance: Instance) -> dict[TaskId, Rows]:
    """The stores of all tasks of a stopped instance."""
    found: dict[TaskId, Rows] = {}
    for folder in copied(cluster, instance.state, instance.folder / "copy"):
        stores = cluster.topology.subtopology(folder.task.subtopology).stores
        state = TaskState(folder.path, stores, 1 << 20)
        try:
            for store in state.stores.values():
                if (
                    isinstance(store, CachedStore) and store.ttl
                ):  # tasks know stream time, by which rows expire
                    store.ttl.timers = cast(TimerStore, state.stores[timers_of(store.name)])
            names = compared_stores(cluster, folder.task)
            found[folder.task] = {name: list(state.stores[name].range()) for name in names}
        finally:
            state.close()
    return found


def told(cluster: Cluster, topic: str) -> Results:
    """The results in an output topic; some may be there again after a crash."""
    found = _read(cluster, cluster.topic(topic))
    return [(record.key.decode(), (record.value or b"").decode()) for record in found]
