"""A member's task manager, shared by the worker and the control thread under one lock.

The group moves on while a user function runs. So an assignment that the worker has not applied when
the next join is described is void: the worker then never runs what the group no longer counts on it
to run. Describing, and applying an assignment, are each one step under the lock.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from streamlet.assignor.values import Copy, Leaving
from streamlet.clock import Clock
from streamlet.coordinator import events as ev
from streamlet.rebalance.values import Assignment
from streamlet.tasks.manager import TaskManager
from streamlet.tasks.task_events import Action, JoinDescribed, LeavingSet, TaskEvent
from streamlet.types import TaskId

#: What concerns a worker that has stopped.
_ANSWERS = (ev.CommitDone, ev.JoinBlocked, ev.JoinSoon, ev.Lost, ev.Failed)


class RebalanceEvents:
    """One slot for the newest assignment, queues for other events and for actions, and the manager.

    Args:
        manager: the member's; only this object may touch it.
        clock: the time.
    """

    def __init__(self, manager: TaskManager, clock: Clock) -> None:
        self._manager = manager
        self._clock = clock
        self._lock = threading.RLock()  # who has the news hands them on
        self._arrived = threading.Event()
        self._events: list[ev.SessionEvent] = []
        self._assigned: ev.Assigned[Assignment] | None = None
        #: What the manager wants of the worker, whatever thread the events came from.
        self._actions: list[Action] = []
        #: Tasks whose state lies on this instance's disk, with records missing (None: unknown).
        self._dormant: dict[TaskId, int | None] = {}
        #: Until when there is nothing for the worker to ask the manager, unless news comes.
        self._rests_until_ms: float = 0
        #: What the last description said of our leaving.
        self.described_leaving: Leaving | None = None
        #: True while our stores cannot be used, for the next description.
        self.disk_fails = False

    # Called by the control thread.

    def offer(self, event: ev.SessionEvent) -> None:
        """Leave an event; an assignment replaces the one before, and a loss voids it.

        The manager is told of a loss at once: claims go with the member id (M1), and the next
        description may come before the worker.
        """
        with self._lock:
            if isinstance(event, ev.Assigned):
                self._assigned = event
            else:
                self._events.append(event)
            if isinstance(event, ev.Lost):
                self._assigned = None
                self.handle(event)
            self._arrived.set()

    def describe(self) -> Mapping[TaskId, Copy]:
        """Describe our tasks for a JoinGroup; voids an assignment that was not applied."""
        with self._lock:
            self._assigned = None
            self.described_leaving = self._manager.leaving
            self.handle(JoinDescribed())
            return self._manager.view(self._dormant)

    # Called by the thread that follows the control topic.

    def set_leaving(self, leaving: Leaving | None) -> None:
        """Our instance was marked to leave, or its mark was removed."""
        with self._lock:
            self.handle(LeavingSet(leaving))
            self._arrived.set()

    # Called by any thread.

    def handle(self, *events: TaskEvent) -> None:
        """Have the manager take events; what follows from them waits for the worker."""
        with self._lock:
            self._rests_until_ms = 0
            for event in events:
                self._actions += self._manager.handle(event, self._clock.now_ms())

    # Called by the worker.

    def actions(self) -> list[Action]:
        """Take the actions there are, in order."""
        with self._lock:
            actions, self._actions = self._actions, []
            return actions

    def rests(self, now_ms: int) -> bool:
        """True if there is no news, and the manager stands as it did at the last ``may_rest``."""
        return now_ms < self._rests_until_ms and not self._arrived.is_set()

    def may_rest(self, manager: TaskManager) -> None:
        """Note that the worker knows what the manager wants; from inside a ``manager`` block."""
        due_ms = manager.due_ms()
        if not (manager.busy or self._actions):
            self._rests_until_ms = math.inf if due_ms is None else due_ms

    @property
    def generation(self) -> int:
        """Generation of the assignment that was applied; -1: there is none."""
        return self._manager.generation

    @contextmanager
    def manager(self) -> Iterator[TaskManager]:
        """The manager, to be asked for as long as the block lasts; do nothing slow in it."""
        with self._lock:
            yield self._manager

    @contextmanager
    def news(self) -> Iterator[tuple[list[ev.SessionEvent], ev.Assigned[Assignment] | None]]:
        """Everything that has come; what is not handed on in the block is lost."""
        with self._lock:
            self._arrived.clear()
            events, self._events = self._events, []
            assigned, self._assigned = self._assigned, None
            yield events, assigned

    def answers(self) -> list[ev.SessionEvent]:
        """Take what concerns a worker that has stopped; the rest is lost."""
        with self.news() as (events, _):
            return [one for one in events if isinstance(one, _ANSWERS)]

    def wake(self) -> None:
        """Wake the worker, because there is news elsewhere; from any thread."""
        self._arrived.set()

    def wait(self, timeout_ms: int) -> None:
        """Wait until there is news."""
        self._arrived.wait(timeout_ms / 1000)

    def add_dormant(self, copies: Mapping[TaskId, int | None]) -> None:
        """Note tasks whose state is on disk; claims and open copies count instead of it."""
        with self._lock:
            self._dormant.update(copies)

    def forget_dormant(self, task: TaskId) -> None:
        """Say no more that state of this task lies on disk: it was deleted."""
        with self._lock:
            self._dormant.pop(task, None)
