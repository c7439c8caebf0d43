"""Keeps a command that watches alive while a broker is away."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import TypeVar

import attrs

from streamlet.clock import Clock
from streamlet.errors import StreamletError

T = TypeVar("T")

#: How often an outage is reported, ms.
REPORT_EVERY_MS = 10_000
#: How long an outage may last where the command has no limit of its own and nothing is marked, ms.
UNMARKED_LIMIT_MS = 60_000
_PAUSE_S = 0.5


@attrs.define
class OutageReport:
    """Reports an outage when it begins, and every ten seconds while it lasts.

    Args:
        note: called with each line.
        clock: the time.
    """

    note: Callable[[str], None]
    clock: Clock
    _noted_ms: int | None = None

    def failed(self, error: StreamletError, consequence: str) -> None:
        """Take one more failure."""
        now_ms = self.clock.now_ms()
        if self._noted_ms is None or now_ms - self._noted_ms >= REPORT_EVERY_MS:
            self._noted_ms = now_ms
            self.note(f"{error}; {consequence}")

    @property
    def lasts(self) -> bool:
        """True if the last try failed."""
        return self._noted_ms is not None

    def over(self) -> None:
        """Take a success."""
        self._noted_ms = None


@attrs.frozen
class OutagePatience:
    """Repeats the steps of a command that fail for a reason that may pass.

    Args:
        note: called with a line for each outage.
        clock: the time.
        stopped: ends the waiting.
    """

    note: Callable[[str], None]
    clock: Clock
    stopped: threading.Event

    def until_done(self, step: Callable[[], T], limit_ms: float | None) -> T:
        """The result of a step that may be carried out several times.

        Args:
            step: the step.
            limit_ms: how long to try, from now on; None for no limit.

        Raises:
            StreamletError: the error of the step, if it does not pass, is not over in time, or the
                command is stopped.
        """
        report = OutageReport(self.note, self.clock)
        until_ms = self.clock.now_ms() + (math.inf if limit_ms is None else limit_ms)
        while True:
            try:
                return step()
            except StreamletError as error:
                if not error.passing or self.clock.now_ms() >= until_ms:
                    raise
                report.failed(error, "trying again")
                if self.stopped.wait(_PAUSE_S):
                    raise
