"""Decides when what failed is tried again: after which pause, and for how long.

Of look-ups, requests, records, workers, queries, disks and commands.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TypeVar

import attrs

from streamlet.clock import Clock
from streamlet.errors import StreamletError

T = TypeVar("T")

#: Doublings that are counted; behind them any pause has long reached its bound.
_MOST_DOUBLINGS = 40


def _may_pass(error: StreamletError) -> bool:
    return error.passing


@attrs.define
class Retries:
    """The tries of one thing: pauses that double from the first to the longest, within a limit.

    Args:
        first_ms: the first pause.
        longest_ms: the longest pause; as long as the first, all are alike.
        spread: spreads the pauses by ±20 %, so that members do not move in step: by a checksum of
            it and of the failure, not by chance, so that a run can be repeated. None: exact pauses.
        clock: the time, for ``limit_ms``.
        limit_ms: how long to try, from now on; None for no limit.
    """

    first_ms: int
    longest_ms: int
    spread: int | None = None
    clock: Clock | None = attrs.field(default=None, kw_only=True)
    limit_ms: float | None = attrs.field(default=None, kw_only=True)
    #: Failures since the last success.
    failures: int = attrs.field(default=0, init=False)
    _until_ms: float | None = attrs.field(init=False)

    @_until_ms.default
    def _end_ms(self) -> float | None:
        if self.limit_ms is None:
            return None
        assert self.clock is not None
        return self.clock.now_ms() + self.limit_ms

    def pause_ms(self, failures: int) -> int:
        """The pause behind so many failures, from 1 on, whatever the limit."""
        doublings = max(0, min(failures - 1, _MOST_DOUBLINGS))
        pause_ms = min(self.first_ms << doublings, self.longest_ms)
        if self.spread is None:
            return pause_ms
        by = zlib.crc32(f"{self.spread}:{failures}".encode()) % 401 - 200
        return max(1, pause_ms + pause_ms * by // 1000)

    def next_ms(self) -> int:
        """Count a failure; the pause behind it, which the limit cuts short."""
        self.failures += 1
        pause_ms = self.pause_ms(self.failures)
        return pause_ms if self._until_ms is None else max(0, min(pause_ms, self._left_ms()))

    def reset(self) -> None:
        """Begin again with the first pause, after a success."""
        self.failures = 0

    @property
    def over(self) -> bool:
        """True if there is no time for another try."""
        return self._until_ms is not None and self._left_ms() <= 0

    def until_done(
        self,
        step: Callable[[], T],
        *,
        wait: Callable[[float], object],
        failed: Callable[[StreamletError], None],
        passes: Callable[[StreamletError], bool] = _may_pass,
    ) -> T:
        """The result of a step that is carried out until it succeeds.

        Args:
            step: may be carried out several times.
            wait: waits so many seconds; True ends the tries, as of a ``threading.Event``.
            failed: takes each failure behind which the step is tried again.
            passes: whether another try may mend a failure.

        Raises:
            StreamletError: the error of the step, if it does not pass, is not over in time, or
                the tries were ended.
        """
        while True:
            try:
                return step()
            except StreamletError as error:
                if not passes(error) or self.over:
                    raise
                failed(error)
                if wait(self.next_ms() / 1000) is True:
                    raise

    def _left_ms(self) -> int:
        assert self.clock is not None
        assert self._until_ms is not None
        return int(self._until_ms - self.clock.now_ms())
