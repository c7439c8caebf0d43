"""What a restarted instance offers of its disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from streamlet.errors import UnreachableError
from streamlet.state.directory import StateDirectory
from streamlet.state.task_state import TaskState
from streamlet.tasks.dormant import dormant_copies
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog
from streamlet.types import StateNumber, TaskId, TopicPartition
from tests.unit.state.support import Spec, changelog


def written(directory: StateDirectory, task: TaskId, position: int) -> None:
    """A folder whose store has read its changelog up to a position."""
    lock = directory.lock_task(task)
    tp = changelog("s", task.partition)
    state = TaskState(lock.folder, [Spec("s")], 1 << 20, {"s": tp})
    state.stores["s"].put("a", 1)
    state.write(state.drain(), StateNumber(1, 1), {tp: position})
    state.close()
    lock.release()


def test_state_on_disk_is_offered_with_what_its_changelog_has_behind_it(tmp_path: Path) -> None:
    log = MemoryLog()
    log.create(changelog("s", 0).topic, 3)
    for partition in range(3):
        log.append(changelog("s", partition), [b"a"] * 10, [b"x"] * 10)
    directory = StateDirectory(tmp_path, "app")
    for partition, position in enumerate((10, 4, 0)):
        written(directory, TaskId(0, partition), position)
    held = directory.lock_task(TaskId(0, 2))
    assert dormant_copies(directory, MemoryAdmin(log)) == {TaskId(0, 0): 0, TaskId(0, 1): 6}
    held.release()


def test_state_without_its_changelog_and_damaged_state_are_worth_nothing(tmp_path: Path) -> None:
    log = MemoryLog()
    log.create(changelog("s", 0).topic, 1)
    directory = StateDirectory(tmp_path, "app")
    written(directory, TaskId(0, 0), 0)
    written(directory, TaskId(0, 1), 0)
    (tmp_path / "app" / "0_0" / "db" / "CURRENT").write_text("nonsense")
    assert dormant_copies(directory, MemoryAdmin(log)) == {}
    assert dormant_copies(StateDirectory(tmp_path, "new"), MemoryAdmin(log)) == {}


class Restarting(MemoryAdmin):
    """Lists topics, and is away when it is asked where they end."""

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        raise UnreachableError("away")


def test_state_is_offered_also_when_nobody_says_what_it_lacks(tmp_path: Path) -> None:
    """It is told of once, when a worker starts: left out, it would be of no use for good."""
    log = MemoryLog()
    log.create(changelog("s", 0).topic, 1)
    directory = StateDirectory(tmp_path, "app")
    written(directory, TaskId(0, 0), 0)
    written(directory, TaskId(0, 1), 0)
    assert dormant_copies(directory, Restarting(log)) == {TaskId(0, 0): None}
