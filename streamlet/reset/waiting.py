"""Waits for the brokers in a reset, and reports how far they are."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

import attrs

from streamlet.clock import Clock
from streamlet.errors import TimedOutError

#: How long brokers may take to forget a topic, to know a new one, and to take positions.
_PATIENCE_MS = 60_000
_POLL_S = 0.1
#: What follows from a reset that was broken off, and what to do.
UNFINISHED = (
    "The reset is unfinished, and no instance starts before it is finished: give the same command "
    "again"
)

#: Takes the progress of a step: the step as text, how much of it is done, and of how much.
Progress: TypeAlias = Callable[[str, int, int], object]


def silent(step: str, done: int, total: int) -> None:
    """Report no progress."""


@attrs.frozen
class ResetStep:
    """One step of a reset, which brokers take their time for.

    Args:
        text: the step, as progress shows it.
        count: how much of it is done by now.
        total: how much there is to do.
        what: the event that is waited for, for the error message.
        unfinished: the consequence of being broken off, likewise.
    """

    text: str
    count: Callable[[], int]
    total: int
    what: str
    unfinished: str = UNFINISHED

    def finish(self, clock: Clock, stopped: threading.Event, progress: Progress) -> None:
        """Wait until all requests are done.

        Raises:
            TimedOutError: it takes too long, or was stopped.
        """
        deadline = clock.now_ms() + _PATIENCE_MS
        progress(self.text, 0, self.total)
        while (done := self.count()) < self.total:
            progress(self.text, done, self.total)
            by_user = stopped.wait(_POLL_S)
            if by_user or clock.now_ms() >= deadline:
                how = "stopped while it waited" if by_user else "waited"
                raise TimedOutError(f"{how} for {self.what}. {self.unfinished}")
        progress(self.text, self.total, self.total)
