"""The way up of a simulated worker's tasks, and its copies; both take time where state is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from streamlet.group.commands import FetchDone, FetchOutcome
from streamlet.group.events import FetchWanted
from streamlet.group.handover_values import Positions
from streamlet.runtime.active import ActiveTask
from streamlet.runtime.edges.writer import Agreement
from streamlet.runtime.kept_copies import CopyEvent, CopyFailed, CopyLag, Promoted
from streamlet.runtime.opening import OpenTask
from streamlet.testing.simulation.cluster import input_of
from streamlet.testing.simulation.ports import active_task, locked, opened
from streamlet.types import NO_STATE, StateNumber, TaskId, TopicPartition

if TYPE_CHECKING:
    from streamlet.testing.simulation.member import SimMember

#: Records restored per ms, and the longest a restore takes: scenarios say when copies are ready.
RESTORE_RATE, RESTORE_MAX_MS = 1_000, 100
LOCK_RETRY_MS = 5
RETRY_MS = 20


class SimCopies:
    """Copies of others' tasks, in place of ``runtime.state_updater``."""

    def __init__(self, member: SimMember) -> None:
        self._member = member
        self.wanted: frozenset[TaskId] = frozenset()
        #: Those whose folders could be locked.
        self.following: set[TaskId] = set()
        self.news: list[CopyEvent] = []

    def set(self, tasks: frozenset[TaskId]) -> None:
        """Read exactly these, as soon as no other member of the instance has their folders."""
        self.wanted = tasks
        for task in sorted(self.following - tasks):
            self.following.discard(task)
            self._member.instance.locks.pop(task, None)
        for task in sorted(tasks - self.following):
            if locked(self._member, task):
                self.following.add(task)
                self._member.instance.disk.setdefault(task, 0)
                self.report(task)
        if tasks - self.following:
            self._member.later(LOCK_RETRY_MS, lambda: self._again(tasks))

    def _again(self, tasks: frozenset[TaskId]) -> None:
        if tasks is self.wanted:
            self.set(tasks)

    def report(self, task: TaskId) -> None:
        """Tell how far the copy is."""
        instance, log = self._member.instance, self._member.world.cluster.logs[task]
        if task in self.following:
            if instance.disk.get(task, 0) > log.end:
                instance.disk[task] = 0
            self._tell(CopyLag(task, log.lag(instance.disk.get(task, 0))))

    def promote(self, task: TaskId, limit: StateNumber, took_ms: int) -> None:
        """Bring a copy to a commit and hand it over."""
        self.wanted -= {task}
        if task not in self.following:
            self._tell(CopyFailed(task, "it is not open"))
            return
        self.following.discard(task)
        news = Promoted(opened(self._member, task, limit), limit)
        self._member.later(took_ms, lambda: self._tell(news))

    def prefer(self, tasks: frozenset[TaskId]) -> None:
        """Ignore the preference: all are read at once."""

    def take(self) -> list[CopyEvent]:
        """The news since the last call."""
        news, self.news = self.news, []
        return news

    def _tell(self, event: CopyEvent) -> None:
        self.news.append(event)
        self._member.wake_worker()


@attrs.define(eq=False)
class _Coming:
    """A task on its way up; ``promoting`` while the copies have it."""

    task: TaskId
    positions: Positions | None
    promoting: bool = False
    opened: OpenTask | None = None

    @property
    def contained(self) -> StateNumber:
        """The state that its commit contains."""
        newest = None if self.positions is None else self.positions.newest
        return NO_STATE if newest is None else newest.state


@attrs.frozen
class SimEdges:
    """Agreement of the members on prefixes."""

    agreement: Agreement = attrs.field(factory=Agreement)


class SimActivation:
    """The way up of tasks, in place of ``runtime.activation``, in the same order.

    Positions, then the copy or the folder, then the changelog to its end as it is then.
    """

    def __init__(self, member: SimMember, copies: SimCopies) -> None:
        self._member = member
        self._copies = copies
        self._coming: dict[TaskId, _Coming] = {}
        self._token = 0  # the task manager's are above
        self._asked: dict[int, _Coming] = {}
        self._ready: list[_Coming] = []
        self.answers: list[FetchDone] = []
        self.edges = SimEdges()

    @property
    def tasks(self) -> frozenset[TaskId]:
        """The tasks on their way."""
        return frozenset(self._coming)

    @property
    def unread(self) -> bool:
        """True if ``step`` has something to do."""
        return bool(self.answers or self._ready)

    def inputs(self, task: TaskId) -> tuple[TopicPartition, ...]:
        """The input partitions of a task."""
        return (input_of(task),)

    def want(self, task: TaskId, positions: Positions | None = None) -> None:
        """Bring this task up; ``positions`` are those of a mark, None: read them."""
        assert task not in self._coming, f"{self._member.name} opens {task} twice"
        coming = self._coming[task] = _Coming(task, positions)
        if positions is None:
            self._ask(coming)
        else:
            self._begin(coming)

    def cancel(self, task: TaskId) -> None:
        """Bring it up no more; a copy that is promoted is closed when it comes."""
        coming = self._coming.pop(task, None)
        if coming is not None and coming.opened is not None:
            coming.opened.close()

    def step(self) -> list[ActiveTask]:
        """Take the answers; tasks that may process from now on."""
        answers, self.answers = self.answers, []
        for event in answers:
            coming = self._asked.pop(event.token)
            if self._coming.get(coming.task) is not coming:
                continue
            if event.outcome is FetchOutcome.FETCHED:
                coming.positions = Positions.of(self.inputs(coming.task), event.committed)
                self._begin(coming)
            else:
                self._later(RETRY_MS, coming, self._ask)
        ready, self._ready = self._ready, []
        return [self._done(one) for one in ready if self._coming.get(one.task) is one]

    def promoted(self, event: Promoted | CopyFailed) -> ActiveTask | None:
        """Take what became of a promotion; the task, if it may process from now on."""
        task = event.opened.task if isinstance(event, Promoted) else event.task
        coming = self._coming.get(task)
        waits = coming is not None and coming.promoting
        if isinstance(event, Promoted):
            if coming is None or not waits or coming.contained != event.limit:
                event.opened.close()
                return None
            coming.opened = event.opened
            return self._done(coming)
        if coming is not None and waits:
            coming.promoting = False
            self._open(coming)
        return None

    def _ask(self, coming: _Coming) -> None:
        self._token -= 1
        self._asked[self._token] = coming
        self._member.feed(FetchWanted(self._token, self.inputs(coming.task)))

    def _begin(self, coming: _Coming) -> None:
        if coming.task in self._copies.wanted:
            coming.promoting = True
            took_ms = self._restore(coming)
            self._copies.promote(coming.task, coming.contained, took_ms)
        else:
            self._open(coming)

    def _open(self, coming: _Coming) -> None:
        if not locked(self._member, coming.task):
            self._later(LOCK_RETRY_MS, coming, self._open)
            return
        coming.opened = opened(self._member, coming.task, coming.contained)
        self._later(self._restore(coming), coming, self._restored)

    def _restored(self, coming: _Coming) -> None:
        self._ready.append(coming)

    def _restore(self, coming: _Coming) -> int:
        """Compare what the changelog says with the commit; the time it takes to read, ms."""
        assert coming.positions is not None
        world, task = self._member.world, coming.task
        if not world.cluster.is_stateful(task):
            return 1
        log = world.cluster.logs[task]
        offset = max(coming.positions.offsets[input_of(task)], 0)
        world.checks.restored(self._member.name, task, log.restore(coming.contained), offset)
        missing = log.lag(self._member.instance.disk.get(task, 0))
        return 1 + min(missing // RESTORE_RATE, RESTORE_MAX_MS)

    def _done(self, coming: _Coming) -> ActiveTask:
        """A new active period: an epoch above every one that was met."""
        assert coming.opened is not None
        assert coming.positions is not None
        del self._coming[coming.task]
        newest = coming.positions.newest
        log = self._member.world.cluster.logs[coming.task]
        offset = max(coming.positions.offsets[input_of(coming.task)], 0)
        active = active_task(coming.opened, offset, coming.contained)
        active.epoch = 1 + max(0 if newest is None else newest.epoch, log.highest_epoch)
        stores = coming.opened.state
        stores.read_to_end()  # type: ignore[attr-defined]
        return active

    def _later(self, ms: int, coming: _Coming, action: Callable[[_Coming], None]) -> None:
        """Do something with a task later, if it is still on its way then."""

        def run() -> None:
            if self._coming.get(coming.task) is coming:
                action(coming)

        self._member.later(ms, run)
