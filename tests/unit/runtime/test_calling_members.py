"""Workers whose tasks call async functions: hand-overs, commits, slow calls beside other tasks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from streamlet.app import App
from streamlet.runtime import task_calls
from streamlet.topology.graph import Topology
from streamlet.types import TaskId
from tests.unit.runtime.answers import Answers
from tests.unit.runtime.members import Group, Member, wait_for

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
    made = Group(tmp_path)
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
    group.produce(10)
    one = group.member("one")
    wait_for(lambda: len(committed(one)) == 3, "all tasks but one are committed")
    wait_for(lambda: len(counted(group)) == KEYS - 1, "it goes on with other keys, too")
    group.member("two")  # the task may have to move: it stops as of its last commit
    wait_for(lambda: sorted(group.shares()) == [2, 2], "tasks have moved")
    assert "k0" not in counted(group)
    left.set()
    wait_for(lambda: counted(group) == dict.fromkeys(keys(), 10), "all are counted")


def keys() -> list[str]:
    return [f"k{i}" for i in range(KEYS)]


def committed(member: Member) -> list[TaskId]:
    """The tasks with a commit of what they have processed."""
    tasks = list(member.worker.holdings.tasks.items())
    return [task for task, active in tasks if any(active.committed.values())]


def test_a_stopping_worker_waits_for_its_calls(group: Group) -> None:
    answers = Answers()
    group.topology = counting(answers)
    group.produce(1, keys=1)
    one = group.member("one")
    answers.await_calls("x")
    one.told.set()
    answers.give("x")
    one.thread.join()
    assert group.counts() == {"k0": [1]}
