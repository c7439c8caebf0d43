"""Restores a task alone whose stores fail: damaged files, or a disk that is full.

A store is never more than a copy of what the changelog and the commits say. So the task is closed
as of its last commit, what is damaged is deleted, and the task comes up again like any other. The
worker's other tasks do not notice.
"""

from __future__ import annotations

import logging

from streamlet.errors import StateError, TaskCorruptedError
from streamlet.runtime.activation import Activation
from streamlet.runtime.active import ActiveTask
from streamlet.runtime.metrics.meters import Meters
from streamlet.runtime.task_manager import TaskManager
from streamlet.runtime.task_registry import TaskRegistry
from streamlet.runtime.task_stage import TaskStage

log = logging.getLogger(__name__)


class StoreFailures:
    """Handles errors of the stores of active tasks.

    Args:
        holdings: the active tasks.
        activation: opens them again.
        orders: closes them.
        meters: counts.
    """

    def __init__(
        self, holdings: TaskRegistry, activation: Activation, orders: TaskManager, meters: Meters
    ) -> None:
        self._holdings = holdings
        self._activation = activation
        self._orders = orders
        self._meters = meters

    def restart(self, error: StateError) -> bool:
        """Close the task that the error names, and bring it up again from its last commit.

        False if that is not enough, because its last commit is on its way to another member: then
        all tasks are to be brought up again.

        Raises:
            StateError: this one, if it names no active task.
        """
        active = self._blame(error)
        self._meters.store_failures += 1
        if active.stage is not TaskStage.RUNNING:
            return False
        if active.opened.damaged:
            log.warning("task %s is restored, and the others go on: %s", active.task, error)
        else:
            self._activation.put_off(active.task, error)
        self._orders.restart(active)
        return True

    def give_up(self, error: StateError) -> None:
        """Close the task that the error names, for good; raises as ``restart``."""
        active = self._blame(error)
        log.warning("%s; the next owner of task %s repeats its last commit", error, active.task)
        self._holdings.drop(active)

    def _blame(self, error: StateError) -> ActiveTask:
        active = None if error.task is None else self._holdings.tasks.get(error.task)
        if active is None:
            raise error
        active.opened.damaged = isinstance(error, TaskCorruptedError)
        return active
