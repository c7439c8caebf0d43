"""When tasks commit by themselves whose records in repartition topics wait for that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamlet.clock import ManualClock
from streamlet.config import Settings
from streamlet.tasks.commit_loop import HELD_OFF_MS, CommitLoop
from streamlet.tasks.task_record import UnitUnderWay

INTERVAL_MS = 100


class Worker:
    """The parts of a worker that its commits ask; no commit of all tasks is due."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.begun: list[list[Any]] = []
        self.held = SimpleNamespace(hurries=False)
        #: A task whose records wait, and those not claimed yet.
        self.waiting, self.unclaimed = SimpleNamespace(held=self.held), list[Any]()
        precopy = SimpleNamespace(due=lambda now: False, over=True)
        self.actions = SimpleNamespace(
            awaited=False, mark_until_ms=0, unit=UnitUnderWay(), precopy=precopy
        )
        self.group = SimpleNamespace(gated=False)
        self.loop = self._loop()

    def _loop(self) -> CommitLoop:
        given = {"repartition.commit.interval.ms": str(INTERVAL_MS)}
        registry: Any = SimpleNamespace(
            asks_commit=lambda: False,
            dirty_bytes=lambda: 0,
            with_held=lambda: [self.waiting],
            unclaimed=lambda: self.unclaimed,
        )
        commit: Any = SimpleNamespace(under_way=False, sent=False, begin=self.begun.append)
        actions: Any = self.actions
        group: Any = self.group
        nothing: Any = None
        loop = CommitLoop(
            Settings.load(given),
            commit,
            self.clock,
            group=group,
            registry=registry,
            actions=actions,
            meters=nothing,
            failures=nothing,
            refused_entry=nothing,
            lose=nothing,
            tidy=nothing,
        )
        loop.next_ms = self.clock.now_ms() + 3_600_000
        return loop

    def step(self, ms: int = 0) -> int:
        """Step so much later; the commits begun."""
        self.clock.advance(ms)
        before = len(self.begun)
        self.loop.step()
        return len(self.begun) - before


@pytest.fixture
def worker() -> Worker:
    """One whose first commit was begun."""
    made = Worker()
    assert made.step() == 1
    assert made.begun == [[made.waiting]]
    return made


def test_they_commit_after_each_interval(worker: Worker) -> None:
    assert [worker.step(INTERVAL_MS - 1), worker.step(1), worker.step()] == [0, 1, 0]


def test_they_commit_at_once_when_much_waits(worker: Worker) -> None:
    worker.held.hurries = True
    assert worker.step(1) == 1


def test_claims_go_first(worker: Worker) -> None:
    worker.unclaimed = [claim := SimpleNamespace()]
    assert worker.step(INTERVAL_MS) == 1
    assert worker.begun[-1] == [claim]


def test_a_task_that_is_awaited_goes_before(worker: Worker) -> None:
    worker.actions.awaited = True
    assert [worker.step(INTERVAL_MS), worker.step(HELD_OFF_MS)] == [0, 1]


def test_none_begins_while_a_join_is_due(worker: Worker) -> None:
    worker.group.gated = True
    assert worker.step(INTERVAL_MS) == 0
