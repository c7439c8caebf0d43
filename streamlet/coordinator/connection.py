"""The connection to the coordinator: a small machine beside the membership one. No I/O, no clock.

::

    LOST ── due, needed ──▶ FINDING ── CoordinatorFound ──▶ FOUND
      ▲                        │                              │
      └── not found, too slow ─┘◀──── not the coordinator, connection lost, no answer

Beside it: the requests in flight on it, and how long to wait before the next try.
"""

from __future__ import annotations

import enum

import attrs

from streamlet.coordinator.events import Connection, FindCoordinator, Send
from streamlet.coordinator.messages import Request
from streamlet.retries import Retries


@attrs.define
class InFlightRequests:
    """All requests in flight by number; numbers are never used twice."""

    #: Keys grow with time, so iteration is in the order of sending.
    _open: dict[int, Send] = attrs.field(factory=dict)
    _last: int = 0

    def add(
        self, request: Request, connection: Connection, timeout_ms: int, now_ms: int, token: int
    ) -> Send:
        """Number a request and give the command that sends it."""
        self._last += 1
        send = Send(self._last, request, connection, timeout_ms, now_ms, token)
        self._open[send.number] = send
        return send

    def complete(self, number: int) -> Send | None:
        """Remove an answered request; None if it was given up meanwhile."""
        return self._open.pop(number, None)

    def of(self, *kinds: type[Request]) -> list[Send]:
        """The requests in flight of some kinds, oldest first."""
        return [flight for flight in self._open.values() if isinstance(flight.request, kinds)]

    def overdue(self, now_ms: int) -> list[Send]:
        """The requests in flight whose time is up, oldest first."""
        late = zip(self._open.values(), self.deadlines(), strict=True)
        return [flight for flight, deadline_ms in late if deadline_ms <= now_ms]

    def deadlines(self) -> list[int]:
        """The deadlines of the requests in flight, in ms."""
        return [flight.sent_ms + flight.timeout_ms for flight in self._open.values()]

    def __len__(self) -> int:
        return len(self._open)


class ConnectionState(enum.StrEnum):
    """The states of the search for the coordinator."""

    LOST = "lost"
    FINDING = "finding"
    FOUND = "found"


@attrs.define
class CoordinatorConnection:
    """The state of the coordinator; waits between look-ups until something is answered again."""

    retries: Retries
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
        first = self.retries.failures == 0
        wait_ms = self.retries.next_ms()
        self.state = ConnectionState.LOST
        self.due_ms = now_ms if first else now_ms + wait_ms
