"""A copy as the state updater keeps it, the orders that it gets, and how stores are let go."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from streamlet.errors import StreamletError
from streamlet.logs import get_logger
from streamlet.state.task_state import TaskState
from streamlet.tasks.changelog_reader import StoreChangelogReader
from streamlet.tasks.opening import OpenTask
from streamlet.tasks.task_record import CopyStage, moved
from streamlet.types import TaskId

log = get_logger(__name__)


@attrs.define(eq=False)
class KeptCopy:
    """One copy. ``lag``: the one reported last."""

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

    ``promotes`` is the copy whose stores are waited for, ``restores`` are stores to be restored.
    """

    carry_out: Callable[[], None]
    promotes: TaskId | None = None
    restores: OpenTask | None = None


def let_go(reader: StoreChangelogReader, opened: OpenTask) -> None:
    """Read a task no more and close its stores, which are as far as they were written."""
    try:
        try:
            reader.remove(opened.task)
        finally:
            opened.close()
    except StreamletError as error:
        log.warning("closing the stores of %s: %s", opened.task, error)
