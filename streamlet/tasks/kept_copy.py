"""A copy as the state updater keeps it, or a task that it restores, and the orders that it gets."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from streamlet.state.task_state import TaskState
from streamlet.tasks.opening import OpenTask
from streamlet.tasks.task_record import CopyStage, moved
from streamlet.types import TaskId


@attrs.define(eq=False)
class KeptCopy:
    """One copy, or a task that is restored. ``lag``: the one reported last."""

    task: TaskId
    stage: CopyStage = CopyStage.WANTED
    opened: OpenTask | None = None
    lag: int | None = None

    def move_to(self, stage: CopyStage) -> None:
        """Enter another stage."""
        self.stage = moved(self.task, self.stage, stage)

    @property
    def state(self) -> TaskState:
        """The stores of an open copy."""
        assert self.opened is not None, self.task
        return self.opened.state


@attrs.frozen(eq=False)
class CopyOrder:
    """Something for the state updater's thread to do.

    ``task`` is the one whose stores are waited for, ``opened`` are stores that it is given.
    """

    carry_out: Callable[[], None]
    task: TaskId | None = None
    opened: OpenTask | None = None
