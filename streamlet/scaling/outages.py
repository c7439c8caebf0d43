"""Keeps a command that watches alive while a broker is away."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import attrs

from streamlet.clock import Clock
from streamlet.errors import StreamletError
from streamlet.retries import Retries

T = TypeVar("T")

#: How often an outage is reported, ms.
REPORT_EVERY_MS = 10_000
#: How long an outage may last where the command has no limit of its own and nothing is marked, ms.
UNMARKED_LIMIT_MS = 60_000
_PAUSE_MS = 500


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
        """Note that a try has succeeded."""
        self._noted_ms = None


def outlast(
    step: Callable[[], T],
    limit_ms: float | None,
    *,
    note: Callable[[str], None],
    clock: Clock,
    stopped: threading.Event,
) -> T:
    """The result of a command's step, which is tried again while brokers are away.

    Args:
        step: the step, which may be carried out several times.
        limit_ms: how long to try, from now on; None for no limit.
        note: called with a line for each outage.
        clock: the time.
        stopped: ends the tries.

    Raises:
        StreamletError: the error of the step, if it does not pass, is not over in time, or the
            command is stopped.
    """
    report = OutageReport(note, clock)
    tries = Retries(_PAUSE_MS, _PAUSE_MS, clock=clock, limit_ms=limit_ms)
    return tries.until_done(
        step, wait=stopped.wait, failed=lambda error: report.failed(error, "trying again")
    )
