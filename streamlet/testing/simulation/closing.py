"""Closes the stores of a simulated worker, in place of the thread that does (``tasks.opening``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from streamlet.tasks.open_task import OpenTask
from streamlet.types import TaskId

if TYPE_CHECKING:
    from streamlet.testing.simulation.member import SimMember


@attrs.define(eq=False)
class _Closing:
    """Stores to be closed at a time, or earlier when ``hurried``."""

    opened: OpenTask
    hurried: bool = False


class SimCloser:
    """Closes stores after a pause, or after the time that a thread takes to come round.

    Args:
        member: the worker's.
        pause_ms: how long nothing is done about a task, unless in a hurry.
    """

    def __init__(self, member: SimMember, pause_ms: int) -> None:
        self._member, self._pause_ms = member, pause_ms
        self._waiting: dict[TaskId, _Closing] = {}

    @property
    def tasks(self) -> frozenset[TaskId]:
        """Tasks whose folders are locked until their stores are closed."""
        return frozenset(self._waiting)

    @property
    def paused(self) -> frozenset[TaskId]:
        """Tasks whose stores are closed only after the member's pause."""
        return frozenset(task for task, one in self._waiting.items() if not one.hurried)

    def close(self, opened: OpenTask) -> None:
        """Close these stores soon."""
        assert opened.task not in self._waiting, f"{opened.task} is closed twice"
        closing = self._waiting[opened.task] = _Closing(opened)
        self._close_in(closing, self._pause_ms)

    def hurry(self) -> None:
        """Close all that was given so far without a pause."""
        for one in self._waiting.values():
            if not one.hurried:
                one.hurried = True
                self._close_in(one, self._member.world.network.hop())

    def finish(self) -> None:
        """Close all at once: the process ends."""
        for one in list(self._waiting.values()):
            self._close(one)

    def _close_in(self, closing: _Closing, ms: int) -> None:
        close = self._member.when_awake(lambda: self._close(closing))
        self._member.world.later(ms, close)

    def _close(self, closing: _Closing) -> None:
        if self._waiting.get(closing.opened.task) is closing:
            del self._waiting[closing.opened.task]
            closing.opened.close()
