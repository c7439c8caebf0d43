"""Divides a time limit among several clients that are asked the same, one after the other."""

from __future__ import annotations

from streamlet.clock import Clock

#: How long the first one is waited for; each later one twice as long as the one before it.
FIRST_MS = 1_000


class RetryBudget:
    """The time that one request has, and how it is shared out.

    A client that lost its brokers may find none for minutes, and says nothing of it when it is
    asked: whether it does not answer or only takes its time shows in what another one does.

    Topics are not deleted so: a request that was overtaken would delete what was created again.
    """

    def __init__(self, clock: Clock, timeout_ms: int) -> None:
        self._clock = clock
        self._until_ms = clock.now_ms() + timeout_ms
        self._next_ms = FIRST_MS

    def next_s(self) -> float:
        """The time to wait for the next one, s."""
        wait_ms = min(self._next_ms, self._until_ms - self._clock.now_ms())
        self._next_ms *= 2
        return max(0, wait_ms) / 1000

    @property
    def over(self) -> bool:
        """True if there is no time for another."""
        return self._clock.now_ms() >= self._until_ms
