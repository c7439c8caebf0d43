"""Commits that a broker had no good answer for: tried again, not too often, not for ever."""

from __future__ import annotations

import logging

from streamlet.clock import Clock
from streamlet.errors import BrokerError

log = logging.getLogger(__name__)

#: Pause before such a commit is tried again, ms.
AGAIN_MS = 100

_TEXT = "commit postponed: %s"


class PostponedCommit:
    """Decides when a postponed commit is tried again, and for how long it may be refused.

    A broker that is away may come back at any time. What is refused, as a changelog that was
    deleted is, may be what a broker says that does not know everything yet; but not for long. Then
    the worker ends, and makes a topic that is missing when it starts again.

    Args:
        clock: the time.
        refusal_ms: how long a refusal may last.
    """

    def __init__(self, clock: Clock, refusal_ms: int) -> None:
        self._clock = clock
        self._refusal_ms = refusal_ms
        self._refused_ms: int | None = None
        self._again_ms = 0
        self._said = ""

    @property
    def waits(self) -> bool:
        """True if it is too early to try again."""
        return self._clock.now_ms() < self._again_ms

    def take(self, error: BrokerError) -> None:
        """Postpone the commit for this reason.

        Raises:
            BrokerError: this one, if commits have been refused for too long.
        """
        now = self._clock.now_ms()
        if error.passing:
            self._refused_ms = None
        elif self._refused_ms is None:
            self._refused_ms = now
        elif now - self._refused_ms >= self._refusal_ms:
            raise error
        self._again_ms = now + AGAIN_MS
        log.log(logging.DEBUG if str(error) == self._said else logging.WARNING, _TEXT, error)
        self._said = str(error)

    def over(self) -> None:
        """The broker took it."""
        self._refused_ms, self._said = None, ""
