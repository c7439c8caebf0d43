"""Changelogs and folders under a simulated worker's activation and copies.

Reading takes time: a restore as long as scenarios say that a copy is behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from streamlet.errors import StateError, StateLockedError
from streamlet.tasks.changelog_reader import StoreChangelogReader
from streamlet.tasks.open_task import OpenTask
from streamlet.tasks.state_updater import LAG_MS, StateUpdater
from streamlet.tasks.target import Target
from streamlet.tasks.task_restorer import RETRY_MS
from streamlet.testing.memory_ports import MemoryAdmin, MemorySource
from streamlet.testing.simulation import stores
from streamlet.types import TaskId, TopicPartition

if TYPE_CHECKING:
    from streamlet.testing.simulation.member import SimMember

#: Records restored per ms, and the longest a restore takes: scenarios say when copies are ready.
RESTORE_RATE, RESTORE_MAX_MS = 1_000, 100


class SimReader(StoreChangelogReader):
    """The reader of changelogs; it is done with a task no sooner than scenarios say."""

    def __init__(self, member: SimMember, broker: MemoryAdmin) -> None:
        source = MemorySource(member.world.cluster.heard, headers=True)
        super().__init__(source, broker, member.world.clock)
        self._member = member
        self._due_ms: dict[TaskId, int] = {}
        #: Lags may have changed since they were told.
        self.news = False

    @property
    def due_ms(self) -> int | None:
        """The time at which the next task is done."""
        return min(self._due_ms.values(), default=None)

    def remove(self, task: TaskId) -> None:
        """Give a task up; its stores are as far as they were read."""
        self._due_ms.pop(task, None)
        super().remove(task)

    def promote(self, task: TaskId, target: Target) -> bool:
        """Read a followed task up to its target's ends; False: it is not here, or not that far."""
        promoted = super().promote(task, target)
        if promoted:
            self._take_time(task)
        return promoted

    def lags(self) -> dict[TaskId, int]:
        """The lag of each copy, as scenarios count it."""
        self.news = False
        disk, logs = self._member.instance.disk, self._member.world.cluster.logs
        return {task: logs[task].lag(disk.get(task, 0)) for task in self._runs}

    def _begin(
        self,
        opened: OpenTask,
        starts: Mapping[TopicPartition, int],
        old: Mapping[TopicPartition, str] | None = None,
    ) -> None:
        super()._begin(opened, starts, old)
        if opened.followed:
            self.news = True
        else:
            self._take_time(opened.task)

    def _take_time(self, task: TaskId) -> None:
        """Read for as long as the records take that the disk lacks."""
        lag = self._member.world.cluster.logs[task].lag(self._member.instance.disk.get(task, 0))
        self._due_ms[task] = self._clock.now_ms() + 1 + min(lag // RESTORE_RATE, RESTORE_MAX_MS)

    def _finish(self) -> list[OpenTask]:
        """The tasks that are done; those that lack records are looked at again in a while."""
        now = self._clock.now_ms()
        early = [task for task, due_ms in self._due_ms.items() if due_ms > now]
        waiting = {task: self._runs.pop(task) for task in early if task in self._runs}
        try:
            done = super()._finish()
        finally:
            self._runs |= waiting
        for opened in done:
            self._due_ms.pop(opened.task, None)
        late = [task for task, due_ms in self._due_ms.items() if due_ms <= now]
        self._due_ms |= dict.fromkeys(late, now + RETRY_MS)
        return done


class SimRunner:
    """Goes round for the copies, in place of ``tasks.copy_threads``: when there is reason to."""

    def __init__(
        self, member: SimMember, reader: SimReader, restores: SimReader, updater: StateUpdater
    ) -> None:
        self._member, self._reader, self._updater = member, reader, updater
        self._restores = restores
        self._at_ms: int | None = None
        #: An order is not taken yet, or a change of a lag not told, or a step under way.
        self.busy = False
        #: How long the next step takes, if so long is not what the network says.
        self.next_step_ms: int | None = None
        self._stepping = False

    def ordered(self, *, begin: bool) -> None:
        """Take an order soon."""
        self.busy = True
        self.wake(self._member.world.now_ms + 1)

    def join(self) -> None:
        """Wait for nothing: the process ends."""

    def wake(self, at_ms: int) -> None:
        """Go round then, if not before."""
        if self._at_ms is None or at_ms < self._at_ms:
            self._at_ms = at_ms
            self._member.world.at(at_ms, self._member.when_awake(lambda: self._woken(at_ms)))

    def report(self, task: TaskId) -> None:
        """Note that the lag of a copy has changed."""
        instance, log = self._member.instance, self._member.world.cluster.logs[task]
        if task in self._updater.kept:
            if instance.disk.get(task, 0) > log.end:
                instance.disk[task] = 0
            self._reader.news = self.busy = True
            self.wake(self._member.world.now_ms)

    def _woken(self, at_ms: int) -> None:
        if at_ms == self._at_ms:  # else an earlier one took its place
            self.round()

    def round(self) -> None:
        """Go round now, and again when there is something to do."""
        self._at_ms = None
        if self._stepping:
            return  # what is ordered meanwhile is taken behind the step
        world = self._member.world
        self.busy = False
        self._updater.take_orders()
        due_ms, step_ms = self._due_ms, 0
        if due_ms is not None and due_ms <= world.now_ms:
            step_ms = self.next_step_ms or world.network.step_ms()
            self.next_step_ms = None
        if step_ms:
            self._stepping = self.busy = True
            world.later(step_ms, self._member.when_awake(self._step))
        else:
            self._step()

    def _step(self) -> None:
        stepped, self._stepping, self.busy = self._stepping, False, False
        now = self._member.world.now_ms
        pause_ms = self._updater.step()
        if stepped:
            self.busy = True
            self.wake(now + 1)
        if self._reader.news:
            self.busy = True
            self.wake(now + LAG_MS)
        if pause_ms or any(copy is None for copy in self._updater.kept.values()):
            self.wake(now + RETRY_MS)
        if self._due_ms is not None:
            self.wake(self._due_ms)

    @property
    def _due_ms(self) -> int | None:
        """The time at which the next task is done."""
        due = [reader.due_ms for reader in (self._reader, self._restores)]
        return min((ms for ms in due if ms is not None), default=None)


def opener(member: SimMember) -> Callable[[TaskId], OpenTask]:
    """Opens the stores of tasks in the folder of a member's instance."""

    def open_stores(task: TaskId) -> OpenTask:
        if not stores.locked(member, task):
            raise StateLockedError(f"another member has {task}")
        task_stores = stores.opened(member, task)
        try:
            member.world.network.check_disk(task)
        except StateError:
            task_stores.close()
            raise
        return task_stores

    return open_stores
