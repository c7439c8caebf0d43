"""The stores of simulated tasks: those that ship, in folders in memory that outlive processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from streamlet.state.backing import StorageEngine
from streamlet.state.drained import Drained
from streamlet.state.store_specs import StoreSpec
from streamlet.state.task_state import TaskState
from streamlet.tasks.open_task import OpenTask
from streamlet.tasks.opening import changelogs_of
from streamlet.testing.simulation.cluster import SimFolder, SimulatedInstance
from streamlet.testing.simulation.counting import COUNTED
from streamlet.types import StateNumber, TaskId, TopicPartition

if TYPE_CHECKING:
    from streamlet.testing.simulation.member import SimMember
    from streamlet.testing.simulation.world import World

#: Bytes of rows that a task may keep in memory: more than it has.
CACHE_BYTES = 1 << 20


class SimState(TaskState):
    """The stores of a task in an instance's folder; a stateless task has none.

    Args:
        world: whose disks may refuse.
        instance: that has the folder.
        task: which.
    """

    def __init__(self, world: World, instance: SimulatedInstance, task: TaskId) -> None:
        self._world, self._instance, self._task = world, instance, task
        part = world.cluster.topology.subtopology(task.subtopology)
        folder = Path(str(task)) if part.stores else None
        super().__init__(folder, part.stores, CACHE_BYTES, changelogs_of(part, task))

    def _opened(self, folder: Path, specs: Sequence[StoreSpec]) -> StorageEngine:
        names = [one.name for one in specs]
        medium: Any = self._instance.folders.setdefault(self._task, SimFolder(names))
        self._take_meta(medium, folder)
        return medium  # type: ignore[no-any-return]

    @property
    def count(self) -> int:
        """The count that they hold."""
        (store,) = self.stores.values()
        counts: Any = store
        return counts.get(COUNTED) or 0

    @property
    def drained(self) -> bool:
        """True if a commit is under way that is not written."""
        return self._outstanding is not None

    def write(
        self,
        drained: Drained,
        state: StateNumber,
        positions: Mapping[TopicPartition, int],
        times: Mapping[TopicPartition, int] | None = None,
        inputs: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Take over what was accepted.

        Raises:
            StateError: the disk refuses.
        """
        self._world.network.check_disk(self._task)
        super().write(drained, state, positions, times, inputs)
        self._has_all()

    def restored(
        self,
        state: StateNumber,
        skipped: Mapping[str, Mapping[bytes, int]] | None = None,
        inputs: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Note that the changelog was read to a commit.

        Raises:
            StateError: the disk refuses.
        """
        if self.stores:
            self._world.network.check_disk(self._task)
        super().restored(state, skipped, inputs)
        self._has_all()

    def _has_all(self) -> None:
        """The disk has all of the changelog, as scenarios count it."""
        if self.stores:
            self._instance.disk[self._task] = self._world.cluster.logs[self._task].end

    def wipe(self) -> None:
        """Delete what is on disk."""
        super().wipe()
        self._instance.disk[self._task] = 0


@attrs.frozen(eq=False)
class SimLock:
    """The lock of one member on the folder of a task."""

    member: SimMember
    task: TaskId

    def wipe(self) -> None:
        """Delete what is in the folder."""
        self.member.instance.folders.pop(self.task, None)
        self.member.instance.disk[self.task] = 0

    def release(self) -> None:
        """Let other members of the instance have the folder."""
        locks = self.member.instance.locks
        if locks.get(self.task) == self.member.name:
            del locks[self.task]


def locked(member: SimMember, task: TaskId) -> bool:
    """Lock the folder of a task; False if it is locked already."""
    if member.world.cluster.is_stateful(task):
        if task in member.instance.locks:
            return False
        member.instance.locks[task] = member.name
    return True


def opened(member: SimMember, task: TaskId) -> OpenTask:
    """The stores of a task whose folder is locked."""
    lock: Any = SimLock(member, task)
    return OpenTask(task, SimState(member.world, member.instance, task), lock)
