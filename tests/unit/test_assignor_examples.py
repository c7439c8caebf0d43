"""The assignors for tasks among the examples, over whole lives of a cluster."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from examples.assignors import canary as canary_example
from examples.assignors import lag_based as lag_example
from examples.assignors.canary import canary
from examples.assignors.lag_based import RECORDS, lag_based
from streamlet.assignor.assign import assign
from streamlet.assignor.values import GroupState, Plan, Rules, TaskInfo
from streamlet.rebalance.custom_assignor import CustomAssignor
from streamlet.rebalance.leader import Assignor
from streamlet.types import TaskId, TopicPartition
from tests.unit.assignor.cluster import Cluster, stateful, stateless


def cluster(tasks: dict[TaskId, TaskInfo], own: Assignor, **rules: object) -> Cluster:
    """A cluster whose leaders have this assignor, each of its plans held to the rules."""
    guarded = CustomAssignor(own)

    def used(state: GroupState) -> Plan:
        plan = guarded(state)
        assert guarded.refused is None
        return plan

    return Cluster(tasks, Rules(**rules), assign=used)  # type: ignore[arg-type]


def load(there: Cluster, instance: str) -> int:
    return list(there.owners().values()).count(instance)


@pytest.mark.parametrize(("count", "tried"), [(10, 1), (20, 2), (40, 4)])
@pytest.mark.parametrize("tasks", [stateful, stateless])
@pytest.mark.parametrize("handover", ["release", "surrender"])
def test_a_canary_gets_a_tenth_warm_and_gives_it_back(
    tasks: Callable[[int], dict[TaskId, TaskInfo]], count: int, tried: int, handover: str
) -> None:
    there = cluster(tasks(count), canary(), handover=handover)
    there.join("one", 2)
    there.join("two")
    there.settle()
    before = there.owners()
    there.join("new", tags={"release": "canary"})
    there.settle()
    assert load(there, "new") == tried
    moved = [task for task, owner in there.owners().items() if owner != before[task]]
    assert len(moved) == load(there, "new")  # the others keep what they have
    there.drain("new")
    there.settle()
    assert there.exited == ["new"]
    assert sum(there.loads()) == count


def test_several_canaries_share_the_tenth() -> None:
    there = cluster(stateful(40), canary())
    for name in ("one", "two", "three"):
        there.join(name)
    for name in ("new-1", "new-2"):
        there.join(name, tags={"release": "canary"})
    there.settle()
    assert [load(there, name) for name in ("new-1", "new-2")] == [2, 2]


@pytest.mark.parametrize("release", ["canary", "stable"])
def test_without_a_canary_or_without_others_all_are_alike(release: str) -> None:
    there = cluster(stateful(8), canary())
    there.join("one", tags={"release": release})
    there.join("two", tags={"release": release})
    there.settle()
    assert there.loads() == [4, 4]


def test_the_busiest_task_has_an_instance_to_itself() -> None:
    behind = {TaskId(0, n): 60 * RECORDS if n == 0 else 20 * RECORDS for n in range(4)}
    there = cluster(stateful(4), lag_based(lambda tasks: behind))
    there.join("one")
    there.settle()
    there.join("two")
    there.settle()
    alone = there.owners()[TaskId(0, 0)]
    assert load(there, alone) == 1
    assert load(there, "two" if alone == "one" else "one") == 3


def test_small_lags_move_nothing() -> None:
    behind: dict[TaskId, int] = {}
    there = cluster(stateful(8), lag_based(lambda tasks: behind))
    there.join("one")
    there.join("two")
    there.settle()
    owners = there.owners()
    behind.update({task: 50 + task.partition for task in there.tasks})
    there.settle()
    assert there.owners() == owners
    assert not there.moved


def test_where_there_are_no_lags_streamlet_plans_by_numbers() -> None:
    def away(tasks: object) -> dict[TaskId, int]:
        raise TimeoutError("no broker")

    there = Cluster(stateful(6), assign=CustomAssignor(lag_based(away)))
    there.join("one")
    there.join("two")
    there.settle()
    plain = Cluster(stateful(6), assign=assign)
    plain.join("one")
    plain.join("two")
    plain.settle()
    assert there.owners() == plain.owners()


def test_the_assignor_of_the_manual_does_what_it_says() -> None:
    page = (Path(__file__).parents[2] / "docs" / "assignors.md").read_text("utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    names: dict[str, Any] = {}
    exec(code, names)
    there = cluster(stateful(9), names["assignor"])
    there.join("large")
    there.join("small", tags={"size": "small"})
    there.settle()
    assert (load(there, "large"), load(there, "small")) == (6, 3)


@pytest.mark.parametrize("example", [canary_example, lag_example])
def test_the_examples_are_applications_with_their_assignor(example: Any) -> None:
    assert callable(example.app.assignor)
    assert len(example.app.topology().subtopologies) == 1


def test_lags_are_those_of_a_tasks_input_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def broker_lags(servers: str, group: str) -> Callable[..., dict[TopicPartition, int]]:
        asked.append((servers, group))
        return lambda partitions: {p: 10 * p.partition for p in partitions if p.topic == "clicks"}

    monkeypatch.setattr(lag_example, "broker_lags", broker_lags)
    monkeypatch.setenv("STREAMLET_BOOTSTRAP_SERVERS", "there:9")
    lags = lag_example.task_lags(lag_example.app)
    assert lags([TaskId(0, 0), TaskId(0, 3)]) == {TaskId(0, 0): 0, TaskId(0, 3): 30}
    assert lags([TaskId(0, 1)]) == {TaskId(0, 1): 10}
    assert asked == [("there:9", "clicks-by-page")]
