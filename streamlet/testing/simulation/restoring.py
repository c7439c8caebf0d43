"""Changelogs and folders under a simulated worker's activation and copies.

Reading takes time: a restore as long as scenarios say that a copy is behind. What is read is read
by the real readers (``tasks.open_task``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from streamlet.errors import StateError, StateLockedError
from streamlet.kafka.ports import PartitionBatch
from streamlet.tasks.local_state import mistrust, reader_of
from streamlet.tasks.open_task import OPEN_END, ChangelogPart, OpenTask, RestoreProgress
from streamlet.tasks.opening import blamed
from streamlet.tasks.state_updater import LAG_MS, StateUpdater
from streamlet.tasks.target import Target
from streamlet.tasks.task_restorer import RETRY_MS
from streamlet.testing.simulation import stores
from streamlet.types import TaskId, TopicPartition

if TYPE_CHECKING:
    from streamlet.testing.simulation.member import SimMember

#: Records restored per ms, and the longest a restore takes: scenarios say when copies are ready.
RESTORE_RATE, RESTORE_MAX_MS = 1_000, 100


class SimReader:
    """The reader of changelogs, in place of ``tasks.changelog_reader``."""

    def __init__(self, member: SimMember) -> None:
        self._member = member
        self._added: list[OpenTask] = []
        self._runs: dict[TaskId, OpenTask] = {}
        self._due_ms: dict[TaskId, int] = {}
        self._preferred: frozenset[TaskId] = frozenset()
        #: Where progress would be told: there is none.
        self.progress: Callable[[RestoreProgress], None] | None = None
        #: Lags may have changed since they were told.
        self.news = False
        self.quiet = True

    @property
    def due_ms(self) -> int | None:
        """The time at which the next task is done."""
        return min(self._due_ms.values(), default=None)

    @property
    def urgent(self) -> bool:
        """True if a preferred task is among those that are read."""
        return not self._preferred.isdisjoint(self._runs)

    def prefer(self, tasks: frozenset[TaskId]) -> None:
        """Do nothing: the simulator reads all changelogs at once."""
        self._preferred = tasks

    def add(self, opened: OpenTask) -> None:
        """Restore this task, from the next step on."""
        self._added.append(opened)

    def remove(self, task: TaskId) -> None:
        """Give a task up; its stores are as far as they were read."""
        self._added = [opened for opened in self._added if opened.task != task]
        self._runs.pop(task, None)
        self._due_ms.pop(task, None)

    def promote(self, task: TaskId, target: Target) -> bool:
        """Read a followed task up to its target's ends; False: it is not here, or not that far."""
        opened = self._runs.get(task)
        if opened is None or not opened.promote(target):
            return False
        self._take_time(opened)
        return True

    def extend(self, task: TaskId, ends: Mapping[TopicPartition, int]) -> None:
        """Read tables on: there are none."""

    def held(self) -> dict[TaskId, str]:
        """No task: no transaction is open here."""
        return {}

    def lags(self) -> dict[TaskId, int]:
        """The lag of each copy, as scenarios count it."""
        self.news = False
        disk, logs = self._member.instance.disk, self._member.world.cluster.logs
        return {task: logs[task].lag(disk.get(task, 0)) for task in self._runs}

    def reads(self) -> dict[TaskId, tuple[int, int]]:
        """Progress for people: none."""
        return {}

    def step(self, max_ms: int, *, gentle: bool = False) -> list[OpenTask]:
        """Read on; the tasks that are done."""
        for opened in self._added:
            self._begin(opened)
        self._added = []
        now = self._member.world.now_ms
        due = [task for task, due_ms in sorted(self._due_ms.items()) if due_ms <= now]
        for task in due:
            self._member.world.network.check_disk(task)
            self._read(self._runs[task])
        done = [self._runs.pop(task) for task in due if self._at_its_ends(task)]
        for opened in done:
            del self._due_ms[opened.task]
            with blamed(opened.task):
                opened.finish()
        for opened in self._runs.values():
            if opened.followed:
                self._read(opened)
        return done

    def _at_its_ends(self, task: TaskId) -> bool:
        """True if a task was read as far as it is to be; else it is tried again soon."""
        missing = any(part.position < part.end for part in self._runs[task].parts)
        if missing:
            self._due_ms[task] = self._member.world.now_ms + RETRY_MS
        return not missing

    def close(self) -> None:
        """Give up everything."""

    def _begin(self, opened: OpenTask) -> None:
        state = opened.state
        if mistrust(opened, dict.fromkeys(state.changelogs.values(), 0)) is not None:
            state.wipe()
        now = self._member.world.now_ms
        opened.parts = [
            ChangelogPart(
                opened.task,
                tp,
                store,
                reader_of(opened, store, tp),
                state.loader(store),
                state.positions.get(tp, 0),
                OPEN_END if opened.followed else opened.ends[tp],
                started_ms=now,
                reported_ms=now,
            )
            for store, tp in state.changelogs.items()
        ]
        opened.begun = True
        self._runs[opened.task] = opened
        if opened.followed:
            self.news = True
        else:
            self._take_time(opened)

    def _take_time(self, opened: OpenTask) -> None:
        """Read for as long as the records take that the disk lacks."""
        world, task = self._member.world, opened.task
        lag = world.cluster.logs[task].lag(self._member.instance.disk.get(task, 0))
        stateful = world.cluster.is_stateful(task)
        ms = 1 + (min(lag // RESTORE_RATE, RESTORE_MAX_MS) if stateful else 0)
        self._due_ms[task] = world.now_ms + ms

    def _read(self, opened: OpenTask) -> None:
        """Read to the end there is, and write all of it."""
        log = self._member.world.cluster.logs[opened.task]
        end = log.end_at(self._member.world.now_ms)
        for part in opened.parts:
            if part.position < min(part.end, end):
                keys, values = log.columns(part.position, end)
                at = range(part.position, part.position + len(keys))
                times = [0] * len(keys)
                part.take(PartitionBatch(part.tp.topic, part.tp.partition, at, keys, values, times))
                part.flush()


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
