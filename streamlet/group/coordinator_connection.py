"""The connection to the coordinator: a small machine beside the membership one.

::

    LOST ── due, needed ──▶ FINDING ── CoordinatorFound ──▶ FOUND
      ▲                        │                              │
      └── not found, too slow ─┘◀──── not the coordinator, connection lost, no answer
"""

from __future__ import annotations

import enum

import attrs

from streamlet.group.commands import FindCoordinator
from streamlet.group.in_flight import Backoff


class ConnectionState(enum.StrEnum):
    """The states of the search for the coordinator."""

    LOST = "lost"
    FINDING = "finding"
    FOUND = "found"


@attrs.define
class CoordinatorConnection:
    """The state of the coordinator; waits between look-ups until something is answered again."""

    backoff: Backoff
    timeout_ms: int
    state: ConnectionState = ConnectionState.LOST
    #: Last known coordinator; kept while lost, to notice that it moved.
    address: str | None = None
    #: LOST: not before this; FINDING: no longer than this.
    due_ms: int = 0

    def look_up(self, now_ms: int) -> FindCoordinator | None:
        """Begin a look-up if it is time for one; give up one that takes too long."""
        if self.state is ConnectionState.FINDING and self.due_ms <= now_ms:
            self.lose(now_ms)
        if self.state is not ConnectionState.LOST or self.due_ms > now_ms:
            return None
        self.state = ConnectionState.FINDING
        self.due_ms = now_ms + self.timeout_ms
        return FindCoordinator(self.timeout_ms)

    def find(self, address: str) -> bool:
        """Take the result of a look-up; True if the coordinator is another one than before."""
        moved = self.address is not None and self.address != address
        self.state, self.address = ConnectionState.FOUND, address
        return moved

    def lose(self, now_ms: int) -> None:
        """Forget the coordinator; the first loss after an answer is looked up at once."""
        if self.state is ConnectionState.LOST:
            return
        first = self.backoff.attempts == 0
        wait_ms = self.backoff.next_ms()
        self.state = ConnectionState.LOST
        self.due_ms = now_ms if first else now_ms + wait_ms
