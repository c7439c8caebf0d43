"""What one round of a worker's loop does, with the parts that matter played by hand."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import attrs
import pytest

from streamlet.clock import ManualClock, SystemClock
from streamlet.coordinator.events import BlockJoin
from streamlet.errors import BrokerError, OutOfRangeError, TaskMigratedError, TimedOutError
from streamlet.garbage import YOUNG_MS
from streamlet.runtime.catalog import Catalog
from streamlet.runtime.topic_watch import TopicWatch
from streamlet.runtime.worker import Worker
from streamlet.tasks.commit_loop import HOLD_OFF_MS, PostponedCommit
from streamlet.tasks.open_task import OpenTask
from streamlet.tasks.opening import CLOSE_LATER_MS, Closer
from streamlet.tasks.task_events import GiveUp
from streamlet.tasks.task_record import TaskStage, Unit, UnitStage
from streamlet.tasks.task_registry import Prefetcher
from streamlet.types import TaskId, TopicPartition
from tests.unit.runtime.members import Group, wait_for
from tests.unit.tasks.test_closing import LONG_MS, SOON_S, Stores


@pytest.fixture
def worker(tmp_path: Path) -> Iterable[Worker]:
    """A worker that was not started: the test goes round for it."""
    group = Group(tmp_path)
    with group.cluster:
        made = group.idle_member("a").worker
        yield made
        made.close()


class Commits:
    """A commit port whose commits take as many calls of ``begin`` as it is told."""

    def __init__(self, calls: int) -> None:
        self.left = calls
        self.sent = self.delivering = self.sealed = False
        self.begun = self.finished = 0

    def finish(self) -> None:
        """Count it."""
        self.finished += 1

    @property
    def under_way(self) -> bool:
        """Whether there is something left to do."""
        return self.left > 0

    def begin(self, *_: object, at_once: bool = False) -> None:
        """Go on, or begin a commit that one call finishes."""
        self.begun += self.left == 0
        self.left = max(0, self.left - 1)


def commit_through(worker: Worker, monkeypatch: pytest.MonkeyPatch, **parts: object) -> None:
    """Have the worker's commits be made with these parts in place of its own."""
    for name, part in parts.items():
        monkeypatch.setattr(worker._commits, f"_{name}", part)


class Holds:
    """A group that notes for which tokens it was asked to hold."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def want(self, wish: BlockJoin) -> None:
        """Note it."""
        self.asked.append(wish.token)


@attrs.define
class Gate:
    """A group in which a join is under way, or not."""

    gated: bool = True


def test_a_hold_is_asked_for_after_the_commit_that_empties_the_stores(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else that commit would begin while the hold is granted, and stopped tasks wait for it."""
    commits, holds = Commits(2), Holds()
    orders = worker._actions
    for name, value in (("_commit", commits), ("_group", holds)):
        monkeypatch.setattr(orders, name, value)
    commit_through(worker, monkeypatch, commit=commits, group=Gate(gated=False))
    monkeypatch.setattr(TopicWatch, "look", lambda self, now: None)
    orders._perform([GiveUp(Unit(7, 1, ()))])
    worker._commits.step()
    worker._commits.step()
    assert (commits.under_way, holds.asked) == (False, []), "the commit before is done"
    worker._commits.step()
    assert (commits.begun, holds.asked) == (1, [7])


def test_a_commit_that_is_due_while_a_join_is_under_way_begins_right_behind_it(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a claim would wait for the next commit, and whoever takes the task over with it."""
    commits, gate, looked = Commits(0), Gate(), list[int]()
    clock = ManualClock(10_000)
    commit_through(worker, monkeypatch, commit=commits, group=gate, clock=clock)
    monkeypatch.setattr(TopicWatch, "look", lambda self, now: looked.append(now))
    worker._commits.next_ms = clock.now_ms()
    for _ in range(3):
        worker._commits.step()
    assert (commits.begun, len(looked)) == (0, 1), "what else is due once a second is done"
    clock.advance(YOUNG_MS)
    worker._commits.step()
    assert (commits.begun, len(looked)) == (0, 2)
    gate.gated = False
    worker._commits.step()
    assert commits.begun == 1
    worker._commits.step()
    assert commits.begun == 1, "the next is due an interval later"


@attrs.define
class Unclaimed:
    """A running task that was not claimed yet."""

    stage: TaskStage = TaskStage.RUNNING
    claimed: bool = False
    held: None = None


@pytest.mark.parametrize("gated", [True, False])
def test_a_task_is_claimed_at_once_though_no_commit_is_due(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, gated: bool
) -> None:
    """A promoted copy: whoever is to have the task next waits for its claim."""
    commits, clock = Commits(0), ManualClock(10_000)
    commit_through(worker, monkeypatch, commit=commits, group=Gate(gated), clock=clock)
    one: Any = Unclaimed()
    monkeypatch.setattr(worker.registry, "of_stage", lambda stage: [one])
    worker._commits.next_ms = clock.now_ms() + 60_000
    worker._commits.step()
    assert commits.begun == (0 if gated else 1)
    one.claimed = True
    worker._commits.step()
    assert commits.begun == (0 if gated else 1)


def test_a_last_commit_waits_for_no_other(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """An order that was replaced may have left the wish for a commit before its hold."""
    went_on: list[bool] = []
    worker._actions.precopy.begin(0)
    worker._actions.unit.one = Unit(3, 1, (), stage=UnitStage.STOPPED)
    monkeypatch.setattr(worker._commits, "_commit", Commits(0))
    monkeypatch.setattr(worker._actions, "go_on", lambda: went_on.append(True))
    worker._commits.step()
    assert went_on == [True]


def test_input_that_is_gone_is_not_read_ahead_and_harms_nobody(worker: Worker) -> None:
    """A purge may take what a task began to read; the mark is behind it."""
    log, words = worker._source._log, [TopicPartition("words", n) for n in range(2)]  # type: ignore[attr-defined]
    for partition in words:
        log.append(partition, [b"k"] * 4, [b"v"] * 4)
    log.raise_start(words[1], 3)
    worker.registry.ahead.read(TaskId(0, 0), {words[0]: 0})
    worker.registry.ahead.read(TaskId(0, 1), {words[1]: 1})
    read = [batch for _ in range(3) for batch in worker._records._poll()]
    assert [(batch.partition, list(batch.offsets)) for batch in read] == [(0, [0, 1, 2, 3])]
    assert worker.registry.ahead.give(TaskId(0, 1), {words[1]: 3}) is None


def test_input_that_is_gone_under_a_running_task_is_an_error(worker: Worker) -> None:
    log, partition = worker._source._log, TopicPartition("words", 1)  # type: ignore[attr-defined]
    log.append(partition, [b"k"] * 4, [b"v"] * 4)
    log.raise_start(partition, 3)
    worker._source.assign({partition: 1})
    with pytest.raises(OutOfRangeError, match="words-1"):
        worker._records._poll()


def test_topics_that_are_not_ready_in_time_are_looked_at_again(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def look(self: Catalog, now: int, *, at_once: bool) -> bool:
        raise TimedOutError("topics without a leader after creation: ['app-counts-changelog']")

    monkeypatch.setattr(Catalog, "look", look)
    worker._topics.look(0)
    assert "looking at topics: topics without a leader" in caplog.text


def test_what_was_read_ahead_is_let_go_with_a_round_that_failed(worker: Worker) -> None:
    """The rest of that round's batches were not taken: there would be a hole."""
    log, words = worker._source._log, TopicPartition("words", 0)  # type: ignore[attr-defined]
    log.append(words, [b"k"] * 4, [b"v"] * 4)
    worker.registry.ahead.read(TaskId(0, 0), {words: 0})
    worker._actions.lose_all()
    assert worker._records._poll() == []
    assert worker.registry.ahead.give(TaskId(0, 0), {words: 0}) is None


def test_the_input_of_a_task_that_moves_is_read_before_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[TaskId, bool] = {}
    give = Prefetcher.give

    def noting(self: Prefetcher, task: TaskId, positions: dict[TopicPartition, int]) -> object:
        batches = give(self, task, positions)
        given[task] = batches is not None
        return batches

    group = Group(tmp_path)
    with group.cluster:
        try:
            group.produce(3)
            group.member("a")
            wait_for(lambda: group.put_out == 120, "the first counts")
            assert not any(given.values()), "nobody had them before"
            given.clear()
            monkeypatch.setattr(Prefetcher, "give", noting)
            group.member("b")
            wait_for(lambda: group.shares() == [2, 2], "b has its share")
            group.produce(3)
            wait_for(lambda: group.put_out == 240, "all counts")
        finally:
            group.end()
    assert list(given.values()) == [True, True]
    assert group.counts() == {f"k{i}": [1, 2, 3, 4, 5, 6] for i in range(40)}


def due_while_awaited(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> tuple[Commits, ManualClock]:
    """A commit is due, and a task is handed over to the worker."""
    commits, clock = Commits(0), ManualClock()
    commit_through(worker, monkeypatch, commit=commits, group=Gate(gated=False), clock=clock)
    monkeypatch.setattr(TopicWatch, "look", lambda self, now: None)
    worker._commits.next_ms = clock.now_ms()
    worker._actions.awaited = True
    return commits, clock


def test_a_commit_that_is_due_waits_a_little_for_a_task_that_is_handed_over(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits, clock = due_while_awaited(worker, monkeypatch)
    clock.advance(HOLD_OFF_MS - 1)
    worker._commits.step()
    assert commits.begun == 0
    clock.advance(1)
    worker._commits.step()
    assert commits.begun == 1, "nothing came of it"
    clock.advance(worker._settings.commit_interval_ms)
    worker._actions.awaited = False
    worker._commits.step()
    assert commits.begun == 2


@pytest.mark.parametrize(
    ("mark_ms", "waits_ms"), [(-1, 0), (20, 20), (HOLD_OFF_MS + 1, HOLD_OFF_MS)]
)
def test_a_commit_waits_for_a_mark_that_is_about_to_come(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, mark_ms: int, waits_ms: int
) -> None:
    commits, clock = due_while_awaited(worker, monkeypatch)
    clock.advance(HOLD_OFF_MS)
    worker._actions.mark_until_ms = clock.now_ms() + mark_ms
    if waits_ms:
        worker._commits.step()
        clock.advance(waits_ms - 1)
        worker._commits.step()
        assert commits.begun == 0
        clock.advance(1)
    worker._commits.step()
    assert commits.begun == 1


def test_a_stop_waits_for_the_answer_to_a_mark(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nothing left to say it would end with its stores one commit behind."""
    commits, clock = Commits(0), ManualClock()
    commit_through(worker, monkeypatch, commit=commits, clock=clock)
    commits.sent = True
    assert not worker._commits.last_step(clock.now_ms() + 1)
    assert (commits.begun, commits.finished) == (0, 0)
    clock.advance(2)
    with pytest.raises(TimedOutError, match="no answer to the last commit"):
        worker._commits.last_step(clock.now_ms() - 1)
    commits.sent = False
    assert worker._commits.last_step(clock.now_ms() + 1)
    assert commits.finished == 1


def test_stores_that_were_lost_are_closed_at_once(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group may give us the tasks back as soon as we have joined anew."""
    closer, stores = Closer(SystemClock(), LONG_MS), Stores()
    monkeypatch.setattr(worker, "_closer", closer)
    closer.close(cast(OpenTask, stores))
    worker._lose(TaskMigratedError("expired"))
    assert stores.closed.wait(SOON_S)
    closer.finish()


@pytest.mark.parametrize(("mode", "pause_ms"), [("incremental", CLOSE_LATER_MS), ("eager", 0)])
def test_what_is_opened_again_after_each_join_is_closed_before_it(
    tmp_path: Path, mode: str, pause_ms: int
) -> None:
    group = Group(tmp_path, stream_rebalancing_mode=mode)
    with group.cluster:
        made = group.idle_member("a").worker
        made.close()
    assert made._closer._pause_ms == pause_ms


class Refusing(Commits):
    """A commit port that the broker refuses, after all was delivered, which takes some steps."""

    def __init__(self, steps: int) -> None:
        super().__init__(1)
        self._steps = steps

    def begin(self, *_: object, at_once: bool = False) -> None:
        """As when a changelog was deleted in that moment."""
        self.begun += 1
        if self.begun % self._steps == 0:
            raise BrokerError("offsets of a changelog: no such topic")


@pytest.mark.parametrize("steps", [1, 2])
def test_a_commit_that_is_refused_for_good_ends_the_worker(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """A worker that starts anew makes the changelog again; one that tries on never would."""
    commits, clock = Refusing(steps), ManualClock()
    monkeypatch.setattr(worker._commits, "_commit", commits)
    monkeypatch.setattr(worker._commits, "_postponed", PostponedCommit(clock, 1_000))
    for _ in range(steps + 1):
        worker._commits.step()
    assert commits.begun == steps, "it is not tried again at once"
    clock.advance(1_000)
    for _ in range(steps - 1):
        worker._commits.step()
    with pytest.raises(BrokerError, match="no such topic"):
        worker._commits.step()


@pytest.mark.parametrize(("leaving", "told"), [(None, 0), ("leaving", 1)])
def test_nobody_is_told_of_a_drain_but_of_one_that_is_over(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, leaving: str | None, told: int
) -> None:
    """What it still does then comes behind everything else: it must have left before."""
    order: list[str] = []
    monkeypatch.setattr(worker._actions, "leaving", leaving)
    monkeypatch.setattr(worker._group, "leave", lambda *_, **__: order.append("left"))
    monkeypatch.setattr(worker, "_on_drained", lambda: order.append("drained"))
    worker.stop()
    assert order == ["left", *["drained"] * told]


def test_a_stop_is_taken_a_step_at_a_time(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The member leaves behind the answer to the last commit, not before."""
    commits, left = Commits(0), list[str]()
    commit_through(worker, monkeypatch, commit=commits)
    monkeypatch.setattr(worker._group, "leave", lambda reason, *_, **__: left.append(reason))
    commits.sent = True
    assert [worker.stop_step() for _ in range(2)] == [False, False]
    assert left == []
    commits.sent = False
    assert worker.stop_step()
    assert left == ["stopped"]
