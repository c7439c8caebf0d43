"""The ports of a session: its protocol, its transport, and what becomes of the latter's answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from streamlet.assignor.values import Copy
from streamlet.clock import Clock
from streamlet.coordinator import events as ev
from streamlet.coordinator.codes import Remedy, RequestKind, judge, name_of
from streamlet.coordinator.messages import (
    Answer,
    Committed,
    OffsetFetch,
    OffsetFetchAnswer,
    Request,
)
from streamlet.errors import (
    BrokerError,
    BrokerTooOldError,
    FatalGroupError,
    MissingRightError,
    StreamletError,
    TimedOutError,
)
from streamlet.rebalance.values import Assignment, NeedMetadata, RunAssignor
from streamlet.rights import GROUP_REFUSED, TOPIC_REFUSED, Right, missing, on_topics
from streamlet.types import TaskId, TopicPartition
from streamlet.user_code import listed


class TransportError(BrokerError):
    """A request without an answer; ``sent`` False: it never left, so nothing happened."""

    def __init__(self, kind: ev.FailureKind, text: str, *, sent: bool = True) -> None:
        super().__init__(text)
        self.kind = kind
        if kind is ev.FailureKind.UNSUPPORTED:
            self.exit_code = BrokerTooOldError.exit_code  # no restart mends that
        self.sent = sent
        self.passing = kind in (ev.FailureKind.TIMEOUT, ev.FailureKind.DISCONNECTED)


class CoordinatorRefused(BrokerError):
    """The brokers answered, and will not name a coordinator; ``code`` is Kafka's."""

    def __init__(self, code: int, group: str) -> None:
        text = f"no coordinator for group {group}: {name_of(code)}"
        self.final = code == GROUP_REFUSED
        right = Right("DESCRIBE", "group", group)
        super().__init__(f"{text}; {missing(right)}" if self.final else text)
        self.code = code


class GroupProtocol(Protocol):
    """The content of the group's messages; called on the control thread.

    An error raised by ``subscribe`` or ``decode`` ends the membership. ``assign`` may raise a
    ``StreamletError`` when it has no plan just now (topics unknown, broker away): it is run again.
    """

    protocol_type: str

    def subscribe(
        self, need: NeedMetadata, copies: Mapping[TaskId, Copy]
    ) -> tuple[tuple[str, bytes], ...]:
        """The protocols to join with: (name, metadata), best first; the nonce must be in it."""
        ...

    def assign(self, run: RunAssignor) -> Mapping[str, bytes]:
        """Make all assignments, as the leader; by member id."""
        ...

    def decode(self, assignment: bytes) -> Assignment:
        """Read our own assignment."""
        ...


class GroupTransport(Protocol):
    """The transport of a session's requests; ``transport.Transport``, or a fake."""

    def find_coordinator(self, group: str, timeout_ms: int) -> Future[str]:
        """Look the coordinator up afresh; the result tells it from another one."""
        ...

    def send(self, request: Request, connection: ev.Connection, timeout_ms: int) -> Future[Answer]:
        """Send; callbacks of the future may run on a thread that must not be held up."""
        ...

    def hang_up(self, connection: ev.Connection) -> None:
        """Cut a connection and fail what waits on it."""
        ...

    def close(self) -> None:
        """End it; futures that are not done fail."""
        ...


_ATTEMPT_MS = 5_000
#: An open transaction usually ends within a few ms; a coordinator that moves takes longer.
_UNSTABLE_PAUSE_MS = 10
_RETRY_PAUSE_MS = 100
#: How many partitions a message names.
_NAMED = 5


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
            sent = transport.send(request, ev.Connection.MAIN, min(remaining, _ATTEMPT_MS))
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
                raise _unread(group, verdict.code, {tp.topic for tp in partitions})
            problem = str(verdict)
            if verdict.remedy is Remedy.UNSTABLE:
                wait_ms = _UNSTABLE_PAUSE_MS
                problem = f"{verdict} of {_unstable(answer)}"
        if pause(wait_ms / 1000):
            raise TransportError(ev.FailureKind.CLOSED, "closed while reading committed offsets")
    raise TimedOutError(f"committed offsets of group {group}: {problem} for {timeout_ms} ms")


def _unstable(answer: OffsetFetchAnswer) -> str:
    """The partitions whose positions are in an open transaction, in words."""
    remedies = {
        tp: judge(RequestKind.FETCH, [c.error]).remedy for tp, c in answer.committed.items()
    }
    held = [str(tp) for tp in sorted(remedies) if remedies[tp] is Remedy.UNSTABLE]
    return f"{listed(held, _NAMED)}: a transaction that has their positions is open"


def _unread(group: str, code: int, topics: Iterable[str]) -> BrokerError:
    text = f"reading committed offsets of group {group}: {name_of(code)}"
    if code == TOPIC_REFUSED:
        return MissingRightError(f"{text}; {on_topics('DESCRIBE', topics)}")
    if code == GROUP_REFUSED:
        return MissingRightError(f"{text}; {missing(Right('DESCRIBE', 'group', group))}")
    return BrokerError(text)


def looked_up(found: Future[str]) -> ev.Event | StreamletError:
    """The event that the end of a look-up is, or the error that ends the membership."""
    try:
        return ev.CoordinatorFound(found.result())
    except CoordinatorRefused as error:
        return ev.CoordinatorNotFound(error.code, error)
    except TransportError as error:
        return ev.CoordinatorNotFound(None, error) if error.passing else error
    except Exception as error:
        return _broken(error)


def answered(number: int, done: Future[Answer]) -> ev.Event | StreamletError:
    """The event for the end of request ``number``, or the error that ends the membership."""
    try:
        return ev.Answered(number, done.result())
    except CoordinatorRefused:  # a look-up will tell the code
        return ev.RequestFailed(number, ev.FailureKind.DISCONNECTED)
    except TransportError as error:
        return ev.RequestFailed(number, error.kind) if error.passing else error
    except Exception as error:
        return _broken(error)


def _broken(error: Exception) -> FatalGroupError:
    broken = FatalGroupError(f"the group's transport broke: {error!r}")
    broken.__cause__ = error
    return broken
