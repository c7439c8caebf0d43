"""What the control thread leaves for the worker, and what it may say in the worker's name.

The group moves on while a user function runs. So an assignment that the worker has not taken up
when the next join is described is void: the worker then never runs what the group no longer counts
on it to run. Taking an assignment and claiming its tasks is one step under the lock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

from streamlet.assignor.values import Copy, Role
from streamlet.group.session import Assigned, Lost, SessionEvent
from streamlet.types import TaskId


class Inbox:
    """One slot for the newest assignment, a queue for everything else."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arrived = threading.Event()
        self._events: deque[SessionEvent] = deque()
        self._assigned: Assigned | None = None
        #: Tasks claimed as active, with the generation the claim comes from.
        self._claims: dict[TaskId, int] = {}
        #: Tasks whose state lies on this instance's disk, with records missing (None: unknown).
        self._dormant: dict[TaskId, int | None] = {}

    # Called by the control thread.

    def offer(self, event: SessionEvent) -> None:
        """Leave an event; an assignment replaces the one before."""
        with self._lock:
            self._arrived.set()
            if isinstance(event, Assigned):
                self._assigned = event
                return
            if isinstance(event, Lost):
                self._assigned = None
                self._claims = {}
            self._events.append(event)

    def describe(self) -> dict[TaskId, Copy]:
        """What a JoinGroup says of our tasks; voids an assignment that was not taken up."""
        with self._lock:
            self._assigned = None
            copies = {
                task: Copy(Role.DORMANT, lag=lag) for task, lag in sorted(self._dormant.items())
            }
            for task, generation in sorted(self._claims.items()):
                copies[task] = Copy(Role.ACTIVE, generation=generation)
            return copies

    # Called by the worker.

    def take(self) -> tuple[list[SessionEvent], Assigned | None]:
        """Everything that is there; from now on the tasks of the assignment are claimed."""
        with self._lock:
            self._arrived.clear()
            events = list(self._events)
            self._events.clear()
            assigned, self._assigned = self._assigned, None
            if assigned is not None:
                held = set(self._claims) & set(assigned.assignment.revoke)
                mine = set(assigned.assignment.active) | held
                self._claims = dict.fromkeys(sorted(mine), assigned.generation)
            return events, assigned

    def wait(self, timeout_ms: int) -> None:
        """Wait until there is something to take."""
        self._arrived.wait(timeout_ms / 1000)

    def give_up(self, tasks: Iterable[TaskId]) -> None:
        """Claim these no longer."""
        with self._lock:
            for task in tasks:
                self._claims.pop(task, None)

    def offer_dormant(self, copies: dict[TaskId, int | None]) -> None:
        """Say which tasks' state lies on disk."""
        with self._lock:
            self._dormant = dict(copies)
