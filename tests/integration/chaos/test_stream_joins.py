"""Joins of streams under load and faults: stores and results are those of a run without any."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from streamlet.state.task_state import TaskState
from streamlet.testing import KafkaBroker, TopologyTestDriver
from streamlet.types import StateNumber, TaskId
from tests.integration.chaos.states import copied
from tests.integration.chaos.support import Cluster, Instance, wait_for
from tests.integration.chaos.test_edges import Faults
from tests.integration.chaos.topics import Load, Record, read_all
from tests.integration.chaos.topologies import MET_MS, SHAPES

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

#: How far behind the others some records are: their windows are over, and what they would join is
#: gone from the stores.
OLD_MS = 10_000

FAULTS = (
    Faults.kill_worker,
    Faults.add_host,
    Faults.lose_host,
    Faults.kill_host,
    Faults.freeze,
    Faults.stop_host,
)
#: The rows of each store of a task.
Rows = dict[str, list[tuple[Any, Any]]]


def test_joins_are_exact_whatever_fails(
    make_cluster: Callable[..., Cluster], kafka_broker: KafkaBroker, seed: int, rounds: int
) -> None:
    """Also on a fresh host that restores all of it. Six rounds make each fault once."""
    cluster = make_cluster("matched")
    dice = random.Random(seed)
    faults = Faults(cluster, kafka_broker, dice)
    cluster.await_settled()
    with Load(cluster.servers, cluster.topic("in"), rate=600, seed=seed, old_ms=OLD_MS) as load:
        for _ in range(max(1, rounds // 6)):
            for fault in dice.sample(FAULTS, len(FAULTS)):
                faults.make(fault)
        load.finish()
    cluster.await_settled()
    assert [one.stop() for one in faults.instances] == [0] * len(faults.instances), cluster.logs()
    records = read_all(cluster.servers, cluster.topic("in"), range(cluster.partition_count))
    rows, either = undisturbed(cluster, records)
    waiting = sum(len(found["out-outer-shared-join-store"]) for found in rows.values())
    assert waiting > 0
    assert rows_on_disk(cluster, faults.instances) == rows

    fresh = cluster.instance("fresh").start()
    wait_for(
        lambda: all(owner.startswith("fresh-") for owner in cluster.owners().values()),
        lambda: f"it has all tasks\n{fresh.log()}",
    )
    assert fresh.stop() == 0, fresh.log()
    assert rows_on_disk(cluster, [fresh]) == rows
    assert told(cluster, "either") == either
    assert told(cluster, "met") == near_pairs(records)
    print(f"{load.total} records, {len(either)} results, {waiting} wait, {dict(faults.made)}")


def undisturbed(
    cluster: Cluster, records: list[Record]
) -> tuple[dict[TaskId, Rows], set[tuple[str, str]]]:
    """The stores of the tasks that read the input, and the results, where nothing fails."""
    app, topic = SHAPES["matched"](cluster.name), cluster.topic("in")
    stores = app.topology().subtopology(0).stores
    with TopologyTestDriver(app, partitions={topic: cluster.partition_count}) as driver:
        for record in sorted(records, key=lambda one: (one.partition, one.offset)):
            given = record.key.decode(), record.number, record.at_ms
            driver.pipe_input(topic, *given, partition=record.partition)
        rows = {
            TaskId(0, partition): {
                spec.name: list(driver.store(spec.name, partition=partition).range())
                for spec in stores
            }
            for partition in range(cluster.partition_count)
        }
        results = driver.read_output(cluster.topic("either"))
    return rows, {(result.key, result.value) for result in results}


def rows_on_disk(cluster: Cluster, instances: list[Instance]) -> dict[TaskId, Rows]:
    """The stores of the newest copy of each task that reads the input."""
    newest: dict[TaskId, tuple[StateNumber, Rows]] = {}
    part = cluster.topology.subtopology(0)
    for instance in instances:
        for folder in copied(cluster, instance.state, instance.folder / "copy"):
            if folder.task.subtopology:
                continue
            state = TaskState.open(folder.path, part.stores, 1 << 20)
            try:
                rows = {name: list(store.range()) for name, store in state.stores.items()}
            finally:
                state.close()
            if folder.task not in newest or state.state > newest[folder.task][0]:
                newest[folder.task] = state.state, rows
    return {task: rows for task, (_, rows) in newest.items()}


def told(cluster: Cluster, topic: str) -> set[tuple[str, str]]:
    """The different results in an output topic."""
    found = read_all(cluster.servers, cluster.topic(topic), range(cluster.partition_count))
    return {(record.key.decode(), (record.value or b"").decode()) for record in found}


def near_pairs(records: list[Record]) -> set[tuple[str, str]]:
    """Each two records of a key that are near each other, in both orders."""
    of_key: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda one: one.at_ms):
        of_key.setdefault(record.key.decode(), []).append(record)
    pairs: set[tuple[str, str]] = set()
    for key, ordered in of_key.items():
        first = 0
        for at, record in enumerate(ordered):
            while ordered[first].at_ms < record.at_ms - MET_MS:
                first += 1
            for other in ordered[first : at + 1]:
                pairs |= {
                    (key, f"{record.number} {other.number}"),
                    (key, f"{other.number} {record.number}"),
                }
    return pairs
