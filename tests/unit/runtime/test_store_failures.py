"""Stores that fail under a worker: only their task is closed, and it comes back exact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import pytest

from streamlet.errors import StateError, TaskCorruptedError
from streamlet.state.backing import Columns
from streamlet.state.directory import DATABASE, StateDirectory
from streamlet.state.rocksdb import RocksEngine
from streamlet.state.task_state import TaskState
from streamlet.tasks import opening
from streamlet.tasks.open_task import OpenTask
from streamlet.types import TaskId
from tests.unit.runtime.members import Group, Member, wait_for

T0 = TaskId(0, 0)
KEYS = 40


@attrs.define
class Disk:
    """The disk of one task: while it has an error, it takes no entries."""

    error: StateError | None = None
    refused: int = 0


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """The disk of task 0_0; others are as ever."""
    made, write = Disk(), RocksEngine.write

    def refusing(self: RocksEngine, columns: Sequence[Columns], meta: bytes) -> None:
        if made.error is not None and self._folder.parent.name == str(T0):
            made.refused += 1
            raise made.error
        write(self, columns, meta)

    monkeypatch.setattr(RocksEngine, "write", refusing)
    monkeypatch.setattr(opening, "REOPEN_MS", 10)
    return made


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    made = Group(tmp_path)
    with made.cluster:
        yield made
        made.end()


def running(group: Group) -> Member:
    """A member that has counted each key twice."""
    member = group.member("a")
    group.produce(2)
    wait_for(lambda: group.put_out == 2 * KEYS, "the first counts")
    wait_for(lambda: len(member.running) == 4, "all run")
    return member


def last_counts(group: Group) -> dict[str, int]:
    return {key: numbers[-1] for key, numbers in group.counts().items()}


def test_a_disk_that_takes_nothing_has_the_task_stand_still_until_it_does(
    group: Group, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    member = running(group)
    others = {task: state for task, state in member.open_tasks().items() if task != T0}
    disk.error = StateError("no space left")
    group.produce(1)
    wait_for(lambda: member.running == {"0_1", "0_2", "0_3"}, "the others go on")
    wait_for(lambda: disk.refused > 3, "it is tried again")
    assert member.worker._activation.troubles.problems == {T0: "no space left"}
    assert caplog.text.count("task 0_0 stands still") == 1, "once for each reason"
    disk.error = None
    wait_for(lambda: len(member.running) == 4, "it is back")
    assert member.worker._activation.troubles.problems == {}
    group.produce(1)
    wait_for(lambda: set(last_counts(group).values()) == {4}, "all is counted once")
    assert {task: member.open_tasks()[task] for task in others} == others, "nobody else was closed"
    assert member.failed is None


def test_a_damaged_store_is_deleted_and_restored(group: Group, disk: Disk) -> None:
    member = running(group)
    before = member.open_tasks()[T0]
    disk.error = TaskCorruptedError("a damaged block")
    group.produce(1)
    wait_for(lambda: disk.refused > 0, "it meets the damage")
    disk.error = None
    wait_for(lambda: member.open_tasks().get(T0, before) is not before, "it is back")
    group.produce(1)
    wait_for(lambda: set(last_counts(group).values()) == {4}, "all is counted once")
    assert member.meters.store_failures > 0
    assert member.failed is None


def test_a_store_that_fails_at_the_last_commit_does_not_keep_the_others(
    group: Group, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    member = running(group)
    wait_for(lambda: not any(s.has_dirty() for s in member.open_tasks().values()), "committed")
    disk.error = StateError("no space left")
    group.produce(1)
    member.told.set()
    member.thread.join()
    assert member.failed is None
    disk.error = None
    other = group.member("b")
    group.produce(1)
    wait_for(lambda: set(last_counts(group).values()) == {4}, "all is counted once")
    assert other.failed is None


def test_damaged_files_are_deleted_when_their_task_is_closed(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    lock = directory.lock_task(T0)
    opened = OpenTask(T0, TaskState(None, [], 0), lock)
    (lock.folder / DATABASE).mkdir()
    opened.damaged = True
    opened.close()
    assert not (tmp_path / "app" / "0_0" / DATABASE).exists()
    directory.lock_task(T0).release()
