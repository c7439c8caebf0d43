"""The pause of a task before it tries a record again."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from streamlet.clock import pause


@attrs.define
class RetryPause:
    """The pause of one task.

    Args:
        in_parts: whether the caller comes back to the task, so that nothing need block.
        block: blocks for some ms, where the pause cannot be left for later.
    """

    in_parts: bool
    block: Callable[[int], None] = pause
    #: The time of the task's present step.
    now_ms: int = 0
    #: The time at which the record is due, by the same clock; None: there is no pause.
    due_ms: int | None = None

    def begin(self, pause_ms: int) -> None:
        """Begin a pause, or lengthen the present one."""
        self.due_ms = max(self.now_ms + pause_ms, self.due_ms or 0)

    def rest_of(self, pause_ms: int) -> int:
        """The part of a pause that is left to a caller that comes back, ms; else it is over."""
        if not self.in_parts:
            self.block(pause_ms)
        return pause_ms if self.in_parts else 0

    @property
    def lasts(self) -> bool:
        """True if the pause is not over and need not be waited for; else it ends."""
        if self.due_ms is None:
            return False
        if self.in_parts and self.now_ms < self.due_ms:
            return True
        self.sit_out()
        return False

    def sit_out(self) -> None:
        """Wait for the end of the pause, if there is one."""
        if self.due_ms is not None:
            self.block(max(0, self.due_ms - self.now_ms))
            self.due_ms = None
