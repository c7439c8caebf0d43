"""Tasks on their way up while brokers are away: the loop goes round, and they come up later."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import attrs
import pytest

from streamlet.app import App
from streamlet.clock import ManualClock
from streamlet.config import Settings
from streamlet.coordinator.commit_metadata import CommitMetadata, InputNote, Positions
from streamlet.coordinator.messages import Committed
from streamlet.errors import BrokerError, UnreachableError
from streamlet.processing.edges.plan import EdgePlan
from streamlet.processing.policy import ErrorPolicy
from streamlet.processing.task import Task
from streamlet.state.directory import StateDirectory
from streamlet.tasks.activation import ASK_AGAIN_MS, LOCKED_RETRY_MS, Activation
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.lock_waits import LOOK_MS, QUIET_MS
from streamlet.tasks.open_task import OpenTask
from streamlet.tasks.opening import REOPEN_MS, TaskOpener
from streamlet.tasks.state_updater import StateUpdater
from streamlet.tasks.target import Target
from streamlet.tasks.task_events import CopyFailed, Restored, RestoreFailed
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog
from streamlet.types import StateNumber, TaskId, TopicPartition
from tests.unit.tasks.inline import inline_updater, step_all
from tests.unit.tasks.logs import targets_over

TASK = TaskId(0, 0)
INPUT, CHANGELOG = TopicPartition("words", 0), TopicPartition("app-counts-changelog", 0)


class Away(MemoryAdmin):
    """A cluster that does not answer, then says that it is not there, then is."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(log)
        self.asked, self.answers = threading.Event(), threading.Event()
        self.error: BrokerError | None = None
        self.starts_error: BrokerError | None = None

    def start_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        if self.starts_error is not None and CHANGELOG in partitions:
            self.asked.set()
            raise self.starts_error
        return super().start_offsets(partitions)

    def topic_ids(self, names: Sequence[str]) -> dict[str, str]:
        self.asked.set()
        assert self.answers.wait(300)
        if self.error is not None:
            raise self.error
        return super().topic_ids(names)


class Warm:
    """Has a copy of every task; what is ordered is noted, and nothing done about it."""

    def __init__(self) -> None:
        self.wanted = frozenset({TASK})
        self.has_actives = False
        self.ordered: list[StateNumber | None] = []
        self.restoring: list[OpenTask] = []

    def promote(
        self,
        task: TaskId,
        target: Target,
    ) -> None:
        self.ordered.append(target.limit)

    def restore(self, opened: OpenTask, target: Target) -> None:
        self.restoring.append(opened.restore(target))

    def cancel(self, task: TaskId) -> None:
        """It is noted nowhere: what is on its way comes all the same."""


class Bench:
    def __init__(
        self, folder: Path, copies: Warm | None = None, *, partitions: int = 1, opening_ms: int = 0
    ) -> None:
        app = App("app")
        stream = app.stream("words", key=str, value=str)
        stream.group_by_key().count(store="counts")
        log = MemoryLog()
        log.create("words", partitions)
        log.create("app-counts-changelog", partitions)
        self._opening_ms = opening_ms
        self.committed = Committed(0, "")
        self.clock, self.admin = ManualClock(1_000), Away(log)
        self.topology, self.directory = app.topology(), StateDirectory(folder, "app")
        settings = Settings.load()
        targets = targets_over(log, self.topology, self, self.clock, admin=self.admin)
        opener = TaskOpener(self.topology, self.directory, settings.cache_max_bytes)
        self.updater = inline_updater(log, self.admin, opener, targets, self.clock)
        self.activation = Activation(
            self.topology,
            targets=targets,
            open_stores=partial(self._open, opener),
            updater=self.updater if copies is None else cast("StateUpdater", copies),
            settings=settings,
            edges=EdgePlan(self.topology, {}, {}, exact=False),
            new_task=partial(
                Task,
                policy=ErrorPolicy(),
                partition_counts={},
                wall_ms=self.clock.wall_ms,
                idle_ms=0,
            ),
            clock=self.clock,
        )

    def _open(self, opener: TaskOpener, task: TaskId) -> OpenTask:
        self.clock.advance(self._opening_ms)
        return opener(task)

    def fetch_committed(
        self, partitions: Sequence[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, Committed]:
        return dict.fromkeys(partitions, self.committed)

    def opened(self) -> OpenTask:
        """The task's stores, as a copy has them."""
        return TaskOpener(self.topology, self.directory, 1_000)(TASK)

    def step(self) -> list[ActiveTask]:
        """Go on for a while; each task's stage is in agreement with what is known of it."""
        return step_all(self.activation, self.updater)

    def step_until_asked_again(self) -> None:
        """The answer that was given is taken, and another is asked for after a pause."""
        self.admin.asked.clear()
        deadline = time.monotonic() + 300
        while not self.admin.asked.is_set():
            assert self.step() == []
            assert time.monotonic() < deadline
            self.clock.advance(ASK_AGAIN_MS)

    def ready(self) -> ActiveTask:
        deadline = time.monotonic() + 300
        while not (found := self.step()):
            assert time.monotonic() < deadline
            self.clock.advance(ASK_AGAIN_MS)
        return found[0]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.admin.answers.set()
    made.activation.close()


#: A mark tells positions and ends, so nobody is asked for them; topics' ids it does not tell.
MARK = Positions({INPUT: 0}, (CommitMetadata(1, "a", 2, {CHANGELOG: 0}, release_to="b"),))


@pytest.mark.parametrize("mark", [None, MARK])
def test_the_loop_goes_round_while_nobody_answers(bench: Bench, mark: Positions | None) -> None:
    bench.activation.want(TASK, mark)
    while not bench.admin.asked.is_set():
        assert bench.step() == []
    assert [bench.step() for _ in range(100)] == [[]] * 100
    assert bench.activation.tasks == {TASK}

    bench.admin.error = UnreachableError("nobody is there")
    bench.admin.answers.set()
    bench.step_until_asked_again()
    bench.admin.error = None
    active = bench.ready()
    assert (active.task, bench.activation.idle) == (TASK, True)
    active.opened.close()


def test_a_task_whose_changelog_cannot_be_read_just_now_waits(bench: Bench) -> None:
    """The worker's other tasks are not to be lost with it."""
    bench.admin.answers.set()
    bench.admin.starts_error = UnreachableError("nobody is there")
    bench.activation.want(TASK)
    bench.step_until_asked_again()
    assert bench.activation.tasks == {TASK}
    bench.step_until_asked_again()
    said = {TASK: "waits for its positions or logs: nobody is there"}
    assert bench.activation.troubles.problems == said
    bench.admin.starts_error = None
    active = bench.ready()
    assert (active.task, bench.activation.idle) == (TASK, True)
    assert bench.activation.troubles.problems == {}
    active.opened.close()


def test_a_task_begins_with_the_note_of_its_commit(bench: Bench) -> None:
    """Retention overtook the commit: what follows on the records that are gone must pass."""
    bench.admin._log.append(INPUT, [b"k"] * 10, [b"v"] * 10)
    bench.admin.delete_records({INPUT: 8})
    note = InputNote(3, {1 << 32: 9})
    metadata = CommitMetadata(1, "a", 2, {CHANGELOG: 0}, note=note)
    bench.committed = Committed(5, metadata.to_text())
    bench.admin.answers.set()
    bench.activation.want(TASK)
    active = bench.ready()
    assert (active.committed, active.notes) == ({INPUT: 8}, {INPUT: of_topic(note.skipped())})
    active.opened.close()


def of_topic(note: InputNote) -> InputNote:
    """A note of a position in the topic that is there."""
    return attrs.evolve(note, topic_id="id-1")


def test_a_task_without_a_commit_begins_with_nothing_noted_but_the_topic(bench: Bench) -> None:
    bench.committed = Committed(-1, "")
    bench.admin.answers.set()
    bench.activation.want(TASK)
    active = bench.ready()
    assert active.notes == {INPUT: of_topic(InputNote())}
    active.opened.close()


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_task_that_ran_here_asks_for_nothing_before_its_commits_are_settled(
    bench: Bench, cancelled: bool
) -> None:
    bench.admin.answers.set()
    bench.activation.want_again(TASK)
    assert [bench.step() for _ in range(100)] == [[]] * 100
    assert (bench.activation.tasks, bench.admin.asked.is_set()) == ({TASK}, False)
    if cancelled:
        bench.activation.cancel(TASK)
        assert bench.activation.idle
        bench.activation.want(TASK)
    bench.activation.settled()
    active = bench.ready()
    assert (active.task, bench.activation.idle) == (TASK, True)
    active.opened.close()


def test_a_task_whose_folder_is_held_for_long_says_by_whom(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.admin.answers.set()
    held = bench.directory.lock_task(TASK)
    bench.activation.want(TASK)
    for _ in range(QUIET_MS // LOCKED_RETRY_MS - 1):
        assert bench.step() == []
        bench.clock.advance(LOCKED_RETRY_MS)
    assert bench.activation.troubles.problems == {}, "within an instance that may take a moment"
    for _ in range(LOOK_MS // LOCKED_RETRY_MS):
        bench.clock.advance(LOCKED_RETRY_MS)
        assert bench.step() == []
    said = f"waits for a lock: state of task 0_0 in .* is held by process {os.getpid()} \\(.*python"
    assert re.match(said, bench.activation.troubles.problems[TASK])
    warnings = [r for r in caplog.records if r.levelname == "WARNING"]
    assert [r.name for r in warnings] == ["streamlet.tasks.lock_waits"], "it is said once"
    held.release()
    bench.clock.advance(LOCKED_RETRY_MS)
    active = bench.ready()
    assert bench.activation.troubles.problems == {}
    active.opened.close()


def test_a_task_that_is_not_wanted_any_more_waits_for_no_lock(bench: Bench) -> None:
    bench.admin.answers.set()
    held = bench.directory.lock_task(TASK)
    bench.activation.want(TASK)
    for _ in range(2):
        bench.step()
        bench.clock.advance(QUIET_MS)
    assert bench.step() == []
    assert bench.activation.troubles.problems.keys() == {TASK}
    bench.activation.cancel(TASK)
    assert bench.activation.troubles.problems == {}
    held.release()


def test_what_will_not_pass_ends_the_worker(bench: Bench) -> None:
    bench.admin.error = BrokerError("TOPIC_AUTHORIZATION_FAILED")
    bench.admin.answers.set()
    bench.activation.want(TASK)
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        bench.ready()


def test_an_answer_for_a_task_that_was_taken_away_is_dropped(bench: Bench) -> None:
    bench.activation.want(TASK)
    while not bench.admin.asked.is_set():
        bench.step()
    bench.activation.cancel(TASK)
    bench.activation.want(TASK, MARK)  # it comes back while the old question is still open
    bench.admin.answers.set()
    active = bench.ready()
    assert bench.activation.idle
    assert bench.step() == []
    active.opened.close()


def mark(position: int, flush: int) -> Positions:
    """What an owner left behind with its last commit."""
    state = StateNumber(1, flush)
    metadata = CommitMetadata(1, "a", 2, {CHANGELOG: flush}, state=state, release_to="b")
    return Positions({INPUT: position}, (metadata,))


def test_a_copy_as_of_another_commit_than_is_wanted_by_now_is_not_taken(tmp_path: Path) -> None:
    """The task was wanted, taken away and wanted again while its copy was being promoted."""
    copies = Warm()
    bench = Bench(tmp_path, copies)
    for number in (1, 2):
        bench.activation.want(TASK, mark(10 * number, number))
        bench.step()
        if number == 1:
            bench.activation.cancel(TASK)
    first, second = copies.ordered
    assert (first, second) == (StateNumber(1, 1), StateNumber(1, 2))
    stale = bench.opened().restore(Target(limit=first, ends={CHANGELOG: 1}))
    assert bench.activation.restored(Restored(stale)) is None
    assert bench.activation.tasks == {TASK}
    fresh = bench.opened().restore(
        Target(limit=second, ends={CHANGELOG: 2})
    )  # the other was closed
    active = bench.activation.restored(Restored(fresh))
    assert active is not None
    assert (active.committed, bench.activation.idle) == ({INPUT: 20}, True)
    active.opened.close()
    bench.activation.close()


def test_a_disagreement_found_before_a_task_was_taken_away_confirms_no_later_one(
    tmp_path: Path,
) -> None:
    """What was found once is read again before it counts; a commit meanwhile may explain it."""
    copies = Warm()
    copies.wanted = frozenset()
    bench = Bench(tmp_path, copies)
    bench.admin._log.append(INPUT, [b"k"] * 10, [b"v"] * 10)
    metadata = CommitMetadata(1, "a", 2, {CHANGELOG: 0}, state=StateNumber(1, 1))
    bench.committed = Committed(10, metadata.to_text())
    bench.admin.answers.set()
    deadline = time.monotonic() + 300
    for attempt in (1, 2):
        bench.activation.want(TASK)
        while len(copies.restoring) < attempt:
            bench.activation.step()
            assert time.monotonic() < deadline
        opened = copies.restoring[-1]
        opened.beyond = StateNumber(1, 2)
        assert bench.activation.restored(Restored(opened)) is None
        assert bench.activation.tasks == {TASK}
        bench.activation.cancel(TASK)
    bench.activation.close()


def test_only_its_own_failure_ends_a_restore(tmp_path: Path) -> None:
    """That of the copy it was to be promoted from may be told twice, and come late."""
    copies = Warm()
    copies.wanted = frozenset()
    bench = Bench(tmp_path, copies)
    bench.admin.answers.set()
    bench.activation.want(TASK)
    deadline = time.monotonic() + 300
    while not copies.restoring:
        bench.activation.step()
        assert time.monotonic() < deadline
    (opened,) = copies.restoring
    bench.activation.copy_failed(CopyFailed(TASK, "the copy is gone"))
    other = OpenTask(TASK, opened.state, opened.lock)
    bench.activation.restore_failed(RestoreFailed(other, "of an attempt before"))
    assert bench.activation.troubles.problems == {}
    bench.activation.restore_failed(RestoreFailed(opened, "no space left"))
    assert bench.activation.troubles.problems == {TASK: "no space left"}
    opened.close()
    bench.clock.advance(REOPEN_MS)
    bench.activation.step()
    (_, again) = copies.restoring
    active = bench.activation.restored(Restored(again))
    assert active is not None
    assert bench.activation.troubles.problems == {}
    active.opened.close()
    bench.activation.close()
