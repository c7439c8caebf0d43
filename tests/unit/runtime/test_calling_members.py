"""Workers whose tasks call async functions: hand-overs, commits, slow calls beside other tasks."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from streamlet.app import App
from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.coordinator.events import CommitOutcome
from streamlet.processing import task_calls
from streamlet.processing.task import Task
from streamlet.tasks.task_record import TaskStage, Unit, UnitStage
from streamlet.topology.graph import Topology
from streamlet.types import TaskId
from tests.unit.processing.answers import Answers
from tests.unit.runtime.members import Group, Member, wait_for
from tests.unit.tasks.owners import CHANGELOG, INPUT, TASK, Owner, World

KEYS = 40


def counting(function: Any) -> Topology:
    """Counts per key, behind calls, every count written to ``counts``."""
    app = App("app")
    called = app.stream("words", key=str, value=str).map_values_async(
        function,
        concurrency=5,
    )
    counts = called.group_by_key(value=str).count(store="counts")
    counts.to_stream().to("counts")
    return app.topology()


async def passing(value: str) -> str:
    """A call that lets others pass."""
    for _ in range(Random(value).randrange(4)):
        await asyncio.sleep(0)
    return value


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    made = Group(tmp_path, buffered_records_per_partition="20")
    with made.cluster:
        yield made
        made.end()
    assert [member.failed for member in made.members] == [None] * len(made.members)


def counted(group: Group) -> dict[str, int]:
    """The highest count of each key."""
    return {key: max(counts) for key, counts in group.counts().items()}


def test_state_behind_calls_is_exact_while_members_come_and_go(group: Group) -> None:
    group.topology = counting(passing)
    group.produce(50)
    one = group.member("one")
    wait_for(lambda: group.put_out > 300, "some are counted")
    group.member("two")
    group.produce(50)
    wait_for(lambda: sorted(group.shares()) == [2, 2], "tasks have moved")
    group.produce(50)
    one.told.set()
    one.thread.join()
    group.produce(50)
    done = dict.fromkeys(keys(), 200)
    wait_for(lambda: group.put_out >= 200 * KEYS and counted(group) == done, "all are counted")


def test_a_call_that_does_not_end_holds_up_its_task_and_no_other(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_calls, "SETTLE_MS", 50)
    left = threading.Event()

    async def stuck(key: str, value: str) -> str:
        if key == "k0":
            await asyncio.to_thread(left.wait)
        return value

    group.topology = counting(stuck)
    group.produce(30)
    one = group.member("one")
    wait_for(lambda: len(committed(one)) == 3, "all tasks but one are committed")
    wait_for(lambda: len(one.worker.registry._paused) == 1, "its partition is paused")
    wait_for(lambda: len(counted(group)) == KEYS - 1, "it goes on with other keys, too")
    group.member("two")  # the task may have to move: it stops as of its last commit
    wait_for(lambda: sorted(group.shares()) == [2, 2], "tasks have moved")
    assert "k0" not in counted(group)
    wait_for(lambda: oldest_keys(group) == ["k0"], "its owner now has called, too")
    left.set()
    wait_for(lambda: counted(group) == dict.fromkeys(keys(), 30), "all are counted")


def keys() -> list[str]:
    return [f"k{i}" for i in range(KEYS)]


def oldest_keys(group: Group) -> list[object]:
    """The key of the oldest call of each task that waits for any."""
    calls = [
        active.processor.calls
        for member in group.members
        for active in list(member.worker.registry.tasks.values())
    ]
    oldest = [one.oldest for one in calls if one is not None]
    return [call.key for _, call in filter(None, oldest)]


def committed(member: Member) -> list[TaskId]:
    """The tasks with a commit of what they have processed."""
    tasks = list(member.worker.registry.tasks.items())
    return [task for task, active in tasks if any(active.committed.values())]


def in_flight(member: Member) -> dict[str, float | list[float]]:
    """The records that wait for calls by task, as the member last measured."""
    samples = member.snapshots[-1].samples if member.snapshots else ()
    name = "streamlet_stream_task_calls_in_flight"
    return {one.labels[0]: one.value for one in samples if one.metric == name}


def test_a_stopping_worker_waits_for_its_calls(group: Group) -> None:
    answers = Answers()
    group.topology = counting(answers)
    group.produce(1, keys=1)
    one = group.member("one")
    answers.await_calls("x")
    wait_for(lambda: sorted(in_flight(one).values()) == [0, 0, 0, 1], "the call is measured")
    one.told.set()
    answers.give("x")
    one.thread.join()
    assert group.counts() == {"k0": [1]}


def test_a_halted_task_sends_and_commits_the_results_of_its_calls(group: Group) -> None:
    answers = Answers()
    group.topology = counting(answers)
    group.produce(1, keys=1)
    one = group.member("one")
    answers.await_calls("x")
    (active,) = (a for a in one.worker.registry.tasks.values() if a.processor and a.under_way)
    active.halted = "its log lost records"
    answers.give("x")
    wait_for(lambda: group.counts() == {"k0": [1]}, "it is counted")
    wait_for(lambda: sum(active.committed.values()) == 1, "it is committed")


def world_of(root: Path, function: Any, seed: int) -> World:
    """A log and a disk for a task that counts behind calls."""
    world = World(root, Random(seed), topology=counting(function))
    for topic in ("words", CHANGELOG.topic):
        world.log.create(topic)
    return world


@pytest.mark.parametrize("seed", range(8))
def test_state_is_as_of_the_position_wherever_an_owner_dies(tmp_path: Path, seed: int) -> None:
    world = world_of(tmp_path, passing, seed)
    dice = world.rnd
    for life in range(4):
        owner = Owner(world)
        true = Counter(key for key, _ in world.inputs[: max(0, world.committed.offset)])
        assert (owner.state(), bool(true)) == (true, life > 0)
        task = owner.active.processor
        assert task is not None
        owner.commit_port.settle = lambda active: settled(active.processor)
        list(owner.steps())  # the claim
        for turn in range(dice.randrange(1, 5)):
            world.produce(dice.randrange(1, 30))
            owner.work(dice.randrange(1, 30))
            for _ in range(dice.randrange(30)):
                task.resume(0)
            if turn == 0:
                owner.active.can_commit()
                wait_for(lambda task=task: task.resume(0) == [] and not task.calling, "the calls")  # type: ignore[misc]
                list(owner.steps())
            for _ in zip(range(dice.randrange(1, 6)), owner.steps(), strict=False):
                task.resume(0)
        task.close()
        owner.die()


def settled(task: Task | None) -> None:
    assert task is not None
    task.settle()


def test_a_task_that_stops_amid_a_call_commits_its_last_commit_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_calls, "SETTLE_MS", 0)
    answers = Answers()
    world = world_of(tmp_path, answers, 1)
    owner = Owner(world)
    list(owner.steps())  # the claim
    owner.commit_port.settle = lambda active: settled(active.processor)
    world.produce(3)
    owner.work(3)
    active = owner.active
    before, number = active.contained, active.number
    active.move_to(TaskStage.STOPPED)
    owner.commit_port.begin_last(
        Unit(7, 1, (TASK,), {TASK: "two"}, stage=UnitStage.STOPPED), [active]
    )
    token, offsets = owner.sent.pop()
    position, text = offsets[INPUT]
    found = CommitMetadata.from_text(text)
    assert found is not None
    assert (position, found.release_to, found.state) == (0, "two", before)
    owner.commit_port.done(token, CommitOutcome.ACCEPTED, 0)
    owner.commit_port.finish()
    assert (active.number, active.committed, active.contained) == (number, {INPUT: 0}, before)
    active.processor.close()


def test_a_commit_that_is_due_has_the_task_begin_no_calls_until_it_is_made(tmp_path: Path) -> None:
    answers = Answers()
    owner = Owner(world_of(tmp_path, answers, 1))
    list(owner.steps())  # the claim
    owner.world.produce(3)
    owner.work(3)
    active, calls = owner.active, owner.active.processor.calls
    assert calls is not None
    assert (active.can_commit(), calls.shut, calls.in_flight > 0) == (False, True, True)
    active.processor.close()
