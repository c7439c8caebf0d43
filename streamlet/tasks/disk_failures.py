"""A state folder that cannot be used for long: others run the tasks, until it can be used again.

A task whose stores fail stands still, and is opened again every few seconds (``tasks.activation``):
a full disk may be emptied, and the state that it has is worth waiting for. After
``task.timeout.ms`` the member gives up what stands still, and says in its subscription that its
disk fails. Leaders then place tasks with state elsewhere, as far as any other instance can run
them. Meanwhile the folder is tried, beside the loop, by writing a file; once that works the member
takes part again. If its stores fail again soon, it waits twice as long before the next time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile

import attrs

from streamlet.config import Settings
from streamlet.coordinator.session import GroupSession
from streamlet.logs import get_logger
from streamlet.retries import Retries
from streamlet.tasks.activation import Activation
from streamlet.tasks.rebalance_events import RebalanceEvents
from streamlet.tasks.task_actions import TaskActions
from streamlet.types import TaskId

log = get_logger(__name__)

#: How often the folder is tried, and how long the member stays without tasks at least.
TRY_MS = 30_000
#: The longest that it stays without them, if its stores fail each time it takes part again.
LONGEST_MS = 3_600_000
#: Bytes that a store wants to write before the folder counts as good.
TRIED_BYTES = 4 * 1024 * 1024


def try_folder(folder: Path) -> None:
    """Write a file, have the disk take it, and delete it.

    Raises:
        OSError: it cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=folder, prefix=".try-") as file:
        file.write(bytes(TRIED_BYTES))
        file.flush()
        os.fsync(file.fileno())


class _Try(threading.Thread):
    """A thread that tries a folder; it does not keep the process from ending."""

    def __init__(self, call: Callable[[], None]) -> None:
        super().__init__(name="streamlet-disk", daemon=True)
        self._call = call
        self.good = False

    def run(self) -> None:
        try:
            self._call()
        except OSError as error:
            log.info("stores cannot be used yet: %s", error)
        else:
            self.good = True


@attrs.define(eq=False, slots=False)
class DiskFailures:
    """Gives tasks away whose stores cannot be used, and takes part again when they can.

    Args:
        settings: the application's.
        rebalance_events: has what the member says of itself.
        group: our membership.
        activation: knows the tasks that stand still.
        actions: gives them back.
        try_folder: raises OSError as long as the state folder cannot be written; on a thread of
            its own, since a dead disk may not answer at all.
    """

    _settings: Settings
    _rebalance_events: RebalanceEvents
    _group: GroupSession
    _activation: Activation
    _actions: TaskActions
    _try_folder: Callable[[Path], None] = try_folder
    #: How long the member stays without tasks, and until when it does.
    _tries: Retries = attrs.field(factory=lambda: Retries(TRY_MS, LONGEST_MS), init=False)
    _try_at_ms: int = attrs.field(default=0, init=False)
    _trying: _Try | None = attrs.field(default=None, init=False)
    #: When it took part again.
    _good_since_ms: int | None = attrs.field(default=None, init=False)

    def step(self, now_ms: int) -> None:
        """Do what is due; called on the worker's thread."""
        timeout_ms = self._settings.task_timeout_ms
        stands_still = self._activation.stand_still(now_ms - timeout_ms)
        if stands_still:
            self._give_away(stands_still, now_ms)
        if self._rebalance_events.disk_fails:
            self._try(now_ms)

    def _give_away(self, tasks: dict[TaskId, str], now_ms: int) -> None:
        if not self._rebalance_events.disk_fails:
            good_since = self._good_since_ms
            again = good_since is not None and now_ms - good_since < LONGEST_MS
            if not again:
                self._tries.reset()
            self._try_at_ms = now_ms + self._tries.next_ms()
            log.error(
                "stores in %s cannot be used for %d s: other instances are to run the tasks with "
                "state until they can: %s",
                self._settings.state_dir,
                self._settings.task_timeout_ms // 1000,
                next(iter(tasks.values())),
            )
        self._rebalance_events.disk_fails = True
        for task in tasks:
            self._activation.cancel(task)
        self._actions.give_back(tasks)

    def _try(self, now_ms: int) -> None:
        if self._trying is None:
            if now_ms >= self._try_at_ms:
                self._trying = _Try(partial(self._try_folder, self._settings.state_dir))
                self._trying.start()
            return
        if self._trying.is_alive():
            return
        good, self._trying = self._trying.good, None
        if not good:
            self._try_at_ms = now_ms + TRY_MS
            return
        log.warning("stores in %s can be used again", self._settings.state_dir)
        self._rebalance_events.disk_fails, self._good_since_ms = False, now_ms
        self._group.rejoin("its disk can be used again")
