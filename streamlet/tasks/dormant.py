"""Dormant state: tasks on this instance's disk that no worker here has open.

It is offered to the group, and deleted once it has lain there for long and is not needed. That is
done on a thread of its own: to delete a large database takes time, and no task waits for that. A
folder goes when it was dormant for all of ``state.cleanup.delay.ms``, and only while other
instances have as many copies of the task as there should be, as they say themselves in the control
topic. So the last copies of a task never go, whichever instances are down.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import attrs

from streamlet.clock import Clock
from streamlet.control.view import ControlView
from streamlet.errors import BrokerError, StateError
from streamlet.kafka.ports import Admin
from streamlet.logs import get_logger
from streamlet.state.directory import StateDirectory, TaskFolder
from streamlet.types import TaskId

log = get_logger(__name__)


def dormant_copies(directory: StateDirectory, admin: Admin) -> dict[TaskId, int | None]:
    """Dormant tasks, with the records that their changelogs have behind the local positions.

    None where no broker says how many. Damaged folders, and those whose changelogs are gone, are
    left out: they are worth nothing.

    Raises:
        BrokerError: no broker answers which topics there are.
    """
    positions = {}
    for folder in directory.tasks():
        try:
            contents = folder.contents() if folder.holder is None else None
        except StateError as error:
            log.warning("state of task %s is not offered: %s", folder.task, error)
            continue
        if contents is not None and contents.positions:
            positions[folder.task] = contents.positions
    known = admin.topics()
    positions = {
        task: where
        for task, where in positions.items()
        if all(tp.topic in known and tp.partition < known[tp.topic].partitions for tp in where)
    }
    try:
        ends = admin.end_offsets(sorted({tp for where in positions.values() for tp in where}))
    except BrokerError as error:
        log.warning("state on disk is offered without knowing what it lacks: %s", error)
        return dict.fromkeys(positions)
    return {
        task: sum(max(0, ends[tp] - position) for tp, position in where.items())
        for task, where in positions.items()
    }


#: How often it looks at most, and at least.
SHORTEST_LOOK_MS, LOOK_MS = 100, 60_000

#: Role and stage of what is a whole copy.
_WHOLE = frozenset(
    {("active", "running"), ("active", "stopped"), ("standby", "ready"), ("learner", "ready")}
)


def copies_elsewhere(view: ControlView, task: TaskId, instance: str) -> int:
    """The number of other instances that report all of a task's state."""
    name = str(task)
    return len(
        {
            member.instance
            for member in view.progress.values()
            if member.instance != instance
            and any(one.task == name and (one.role, one.stage) in _WHOLE for one in member.tasks)
        }
    )


@attrs.define(eq=False)
class Cleanup:
    """Looks after the dormant folders of one instance; several workers of it may do so at once.

    Args:
        directory: where they lie.
        instance: the instance's process id.
        delay_ms: how long a folder stays.
        needed: how many copies others must have: 1 and the standbys.
        view: what the control topic says.
        forget: called with each task whose state is gone.
        clock: the time.
    """

    _directory: StateDirectory
    _instance: str
    _delay_ms: int
    _needed: int
    _view: Callable[[], ControlView]
    _forget: Callable[[TaskId], None]
    _clock: Clock
    #: Since when, on our clock, a folder has been seen as it is; its files may be older than
    #: that, where a machine was down.
    _seen: dict[TaskId, tuple[TaskFolder, int]] = attrs.field(factory=dict, init=False)
    _closing: threading.Event = attrs.field(factory=threading.Event, init=False)
    _thread: threading.Thread = attrs.field(init=False)

    @_thread.default
    def _not_started(self) -> threading.Thread:
        return threading.Thread(target=self._run, name="streamlet-cleanup", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """Look no more; a folder that is being deleted is gone when this returns."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        pause_ms = min(max(self._delay_ms, SHORTEST_LOOK_MS), LOOK_MS)
        while not self._closing.wait(pause_ms / 1000):
            try:
                self.look()
            except StateError as error:
                log.warning("dormant state is not cleaned up: %s", error)

    def look(self) -> list[TaskId]:
        """Delete what may go; the tasks it belonged to. What cannot be deleted is left out.

        Raises:
            StateError: the folder cannot be read.
        """
        now_ms, wall_ms = self._clock.now_ms(), self._clock.wall_ms()
        dormant = {one.task: one for one in self._directory.tasks() if one.holder is None}
        known, self._seen = self._seen, {}
        gone = []
        for task, folder in dormant.items():
            before, since_ms = known.get(task, (folder, now_ms))
            if before.used_ms != folder.used_ms:
                since_ms = now_ms
            self._seen[task] = folder, since_ms
            long = now_ms - since_ms >= self._delay_ms
            if long and self._is_spare(task) and self._clean(folder):
                del self._seen[task]
                self._forget(task)
                log.info(
                    "the state of task %s was dormant for %d s and is deleted; others have it",
                    task,
                    (wall_ms - folder.used_ms) // 1000,
                )
                gone.append(task)
        return gone

    def _clean(self, folder: TaskFolder) -> bool:
        """Delete a folder; False if it was used since it was found, or cannot be deleted."""
        try:
            return self._directory.clean(folder)
        except StateError as error:  # the others are not to wait for this one
            log.warning("dormant state is not cleaned up: %s", error)
            return False

    def _is_spare(self, task: TaskId) -> bool:
        return copies_elsewhere(self._view(), task, self._instance) >= self._needed
