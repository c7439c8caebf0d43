"""The connection to the coordinator: a small machine beside the membership one. No I/O, no clock.

::

    LOST ── due, needed ──▶ FINDING ── CoordinatorFound ──▶ FOUND
      ▲                        │                              │
      └── not found, too slow ─┘◀──── not the coordinator, connection lost, no answer

Beside it: the requests in flight on it, how long to wait before the next try, the port through
which a session sends, with its errors, and reading committed positions through it.
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

import attrs

from streamlet.clock import Clock
from streamlet.errors import BrokerError, BrokerTooOldError, TimedOutError
from streamlet.group.codes import Remedy, RequestKind, judge, name_of
from streamlet.group.events import Connection, FailureKind, FindCoordinator, Send
from streamlet.group.messages import Answer, Committed, OffsetFetch, OffsetFetchAnswer, Request
from streamlet.types import TopicPartition


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
        """Take a request out; None if it was given up meanwhile."""
        return self._open.pop(number, None)

    def of(self, *kinds: type[Request]) -> list[Send]:
        """Those of some kinds of request, oldest first."""
        return [flight for flight in self._open.values() if isinstance(flight.request, kinds)]

    def overdue(self, now_ms: int) -> list[Send]:
        """Those whose time is up, oldest first."""
        late = zip(self._open.values(), self.deadlines(), strict=True)
        return [flight for flight, deadline_ms in late if deadline_ms <= now_ms]

    def deadlines(self) -> list[int]:
        """The deadlines of those in flight, in ms."""
        return [flight.sent_ms + flight.timeout_ms for flight in self._open.values()]

    def __len__(self) -> int:
        return len(self._open)


@attrs.define
class Backoff:
    """Doubling waits up to a bound, spread by ±20 % so that members do not move in step.

    The spread is a checksum of member and attempt, not chance: a run can be repeated.
    """

    first_ms: int
    max_ms: int
    jitter: int = 0
    attempts: int = 0

    def next_ms(self) -> int:
        """The wait before the next attempt, in ms."""
        self.attempts += 1
        plain = min(self.first_ms << min(self.attempts - 1, 20), self.max_ms)
        spread = zlib.crc32(f"{self.jitter}:{self.attempts}".encode()) % 401 - 200
        return max(1, plain + plain * spread // 1000)

    def reset(self) -> None:
        """Start again with the first wait, after a success."""
        self.attempts = 0


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


class TransportError(BrokerError):
    """A request without an answer; ``sent`` False: it never left, so nothing happened."""

    def __init__(self, kind: FailureKind, text: str, *, sent: bool = True) -> None:
        super().__init__(text)
        self.kind = kind
        if kind is FailureKind.UNSUPPORTED:
            self.exit_code = BrokerTooOldError.exit_code  # no restart mends that
        self.sent = sent

    @property
    def passing(self) -> bool:
        """Trying again may help."""
        return self.kind in (FailureKind.TIMEOUT, FailureKind.DISCONNECTED)


class CoordinatorRefused(BrokerError):
    """The brokers answered, and will not name a coordinator; ``code`` is Kafka's."""

    def __init__(self, code: int, group: str) -> None:
        super().__init__(f"no coordinator for group {group}: {name_of(code)}")
        self.code = code


class GroupTransport(Protocol):
    """The transport of a session's requests; ``transport.Transport``, or a fake."""

    def find_coordinator(self, group: str, timeout_ms: int) -> Future[str]:
        """Look the coordinator up afresh; the result tells it from another one."""
        ...

    def send(self, request: Request, connection: Connection, timeout_ms: int) -> Future[Answer]:
        """Send; callbacks of the future may run on a thread that must not be held up."""
        ...

    def hang_up(self, connection: Connection) -> None:
        """Cut a connection and fail what waits on it."""
        ...

    def close(self) -> None:
        """End it; futures that are not done fail."""
        ...


_ATTEMPT_MS = 5_000
#: An open transaction usually ends within a few ms; a coordinator that moves takes longer.
_UNSTABLE_PAUSE_MS = 10
_RETRY_PAUSE_MS = 100


def fetch_committed(
    transport: GroupTransport,
    group: str,
    partitions: Sequence[TopicPartition],
    *,
    timeout_ms: int,
    clock: Clock,
    pause: Callable[[float], bool],
) -> dict[TopicPartition, Committed]:
    """Ask until every partition has an answer that is stable. Blocks.

    Args:
        transport: the way to the coordinator.
        group: whose positions.
        partitions: which.
        timeout_ms: how long to try.
        clock: the time.
        pause: waits for some seconds; True means to give up.

    Raises:
        TimedOutError: no answer, or an unstable one, for ``timeout_ms``.
        BrokerError: the coordinator refuses, or trying again cannot help.
    """
    if not partitions:
        return {}
    deadline = clock.now_ms() + timeout_ms
    request = OffsetFetch(group, tuple(partitions))
    problem = "no answer"
    while (remaining := deadline - clock.now_ms()) > 0:
        wait_ms = _RETRY_PAUSE_MS
        try:
            sent = transport.send(request, Connection.MAIN, min(remaining, _ATTEMPT_MS))
            answer = sent.result()
        except TransportError as error:
            if not error.passing:
                raise
            problem = str(error)
        else:
            assert isinstance(answer, OffsetFetchAnswer), answer
            found = [answer.committed[p].error for p in partitions if p in answer.committed]
            missing = [] if answer.error or len(found) == len(partitions) else [-1]
            verdict = judge(RequestKind.FETCH, [answer.error, *found, *missing])
            if verdict.remedy is Remedy.PROCEED:
                return {p: answer.committed[p] for p in partitions}
            if verdict.remedy in (Remedy.REFUSED, Remedy.FATAL):
                raise BrokerError(f"reading committed offsets of group {group}: {verdict}")
            problem = str(verdict)
            if verdict.remedy is Remedy.UNSTABLE:
                wait_ms = _UNSTABLE_PAUSE_MS
        if pause(wait_ms / 1000):
            raise TransportError(FailureKind.CLOSED, "closed while reading committed offsets")
    raise TimedOutError(f"committed offsets of group {group}: {problem} for {timeout_ms} ms")
