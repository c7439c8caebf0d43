"""Tasks whose stores cannot be used for long are given away until the folder can be written."""

from __future__ import annotations

import threading
from pathlib import Path

import attrs
import pytest

from streamlet.config import Settings
from streamlet.tasks.disk_failures import LONGEST_MS, TRY_MS, DiskFailures, try_folder
from streamlet.types import TaskId

TASK = TaskId(0, 1)
TIMEOUT_MS = 60_000


@attrs.define
class Worker:
    """What the failures see of a worker: the news, the group, its tasks on their way up."""

    settings: Settings
    #: Since when the task stands still; None: it does not.
    since_ms: int | None = None
    disk_fails: bool = False
    reasons: list[str] = attrs.field(factory=list)
    given_back: list[TaskId] = attrs.field(factory=list)
    cancelled: list[TaskId] = attrs.field(factory=list)
    #: Errors of the next tries of the folder; none left: it can be written.
    errors: list[OSError] = attrs.field(factory=list)
    tried: threading.Event = attrs.field(factory=threading.Event)

    def stand_still(self, since_ms: int) -> dict[TaskId, str]:
        stands = self.since_ms is not None and self.since_ms <= since_ms
        return {TASK: "Input/output error"} if stands else {}

    def cancel(self, task: TaskId) -> None:
        self.since_ms = None
        self.cancelled.append(task)

    def give_back(self, tasks: dict[TaskId, str]) -> None:
        assert self.disk_fails, "the next description has to say it"
        self.given_back += tasks

    def rejoin(self, reason: str) -> None:
        assert not self.disk_fails
        self.reasons.append(reason)

    def try_folder(self, folder: Path) -> None:
        assert folder == self.settings.state_dir
        try:
            if self.errors:
                raise self.errors.pop(0)
        finally:
            self.tried.set()


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    return Worker(
        Settings.load(overrides=[f"state.dir={tmp_path}", f"task.timeout.ms={TIMEOUT_MS}"])
    )


def failures(worker: Worker) -> DiskFailures:
    parts = (worker.settings, worker, worker, worker, worker)
    return DiskFailures(*parts, try_folder=worker.try_folder)  # type: ignore[arg-type]


def tried(disk: DiskFailures, worker: Worker, now_ms: int) -> None:
    """A look that tries the folder, and one that takes the answer."""
    worker.tried.clear()
    disk.step(now_ms)
    assert worker.tried.wait(60)
    assert disk._trying is not None
    disk._trying.join()
    disk.step(now_ms)


def test_a_task_that_stands_still_for_long_is_given_back_and_the_member_says_why(
    worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    disk = failures(worker)
    worker.since_ms = 1_000
    disk.step(1_000 + TIMEOUT_MS - 1)
    assert (worker.given_back, worker.disk_fails) == ([], False)
    disk.step(1_000 + TIMEOUT_MS)
    assert (worker.given_back, worker.cancelled, worker.disk_fails) == ([TASK], [TASK], True)
    assert f"stores in {worker.settings.state_dir} cannot be used for 60 s" in caplog.text
    assert "Input/output error" in caplog.text


def test_it_takes_part_again_once_the_folder_can_be_written(worker: Worker) -> None:
    disk = failures(worker)
    worker.since_ms, worker.errors = 0, [OSError(28, "No space left on device")]
    disk.step(TIMEOUT_MS)
    disk.step(TIMEOUT_MS + TRY_MS - 1)
    assert worker.errors, "not tried before"
    tried(disk, worker, TIMEOUT_MS + TRY_MS)
    assert worker.disk_fails
    tried(disk, worker, TIMEOUT_MS + 2 * TRY_MS)
    assert not worker.disk_fails
    assert worker.reasons == ["its disk can be used again"]


def test_each_time_its_stores_fail_again_it_stays_away_for_twice_as_long(worker: Worker) -> None:
    """A file can be written, and stores cannot: tasks must not go back and forth."""
    disk, now_ms, pauses = failures(worker), 0, []
    for _ in range(9):
        worker.since_ms, now_ms = now_ms, now_ms + TIMEOUT_MS
        disk.step(now_ms)
        pauses.append(disk._try_at_ms - now_ms)
        now_ms = disk._try_at_ms
        tried(disk, worker, now_ms)
    assert pauses == [min(TRY_MS << n, LONGEST_MS) for n in range(9)]
    worker.since_ms, now_ms = now_ms + LONGEST_MS, now_ms + LONGEST_MS + TIMEOUT_MS
    disk.step(now_ms)
    assert disk._try_at_ms - now_ms == TRY_MS, "that was long ago"


def test_trying_a_folder_writes_to_it_and_leaves_nothing(tmp_path: Path) -> None:
    try_folder(tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        try_folder(tmp_path / "file")
