"""The only place that reads the time of day or waits.

Everything below the worker and the session is given the time; those two hold a ``Clock``.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Milliseconds, of the wall and of a clock that never goes back."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, for timestamps of records."""
        ...

    def now_ms(self) -> int:
        """Milliseconds on a monotonic clock, for timers."""
        ...

    def now_ns(self) -> int:
        """Nanoseconds on the same monotonic clock, for measuring."""
        ...

    def thread_ns(self) -> int:
        """Nanoseconds of CPU time that the calling thread has used."""
        ...


class SystemClock:
    """The machine's clocks."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def now_ms(self) -> int:
        """Monotonic milliseconds."""
        return time.monotonic_ns() // 1_000_000

    def now_ns(self) -> int:
        """Monotonic nanoseconds."""
        return time.monotonic_ns()

    def thread_ns(self) -> int:
        """CPU time of the calling thread, nanoseconds."""
        return time.thread_time_ns()


def pause(ms: int) -> None:
    """Block the calling thread for so long."""
    time.sleep(ms / 1000)


def no_pause(ms: int) -> None:
    """Wait for nothing; in the place of ``pause`` where time is that of a ``ManualClock``."""


def moment(text: str) -> datetime:
    """The time that a text names, in UTC; one without an offset from UTC is in UTC.

    Raises:
        ValueError: it names none.
    """
    try:
        at = datetime.fromisoformat(text.strip())
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(str(error)) from error


class ManualClock:
    """A clock that moves only by its methods; for tests and simulations."""

    def __init__(self, start_ms: int = 0) -> None:
        self._ms = start_ms

    def advance(self, ms: int) -> None:
        """Move both clocks on by ``ms`` (never back)."""
        assert ms >= 0, ms
        self._ms += ms

    def wall_ms(self) -> int:
        """The set time."""
        return self._ms

    def now_ms(self) -> int:
        """The set time."""
        return self._ms

    def now_ns(self) -> int:
        """The set time in nanoseconds."""
        return self._ms * 1_000_000

    def thread_ns(self) -> int:
        """Zero: nothing costs time here."""
        return 0
