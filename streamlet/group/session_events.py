"""The events of a session for the worker, and the ports it needs to tasks and network."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Protocol, TypeAlias

import attrs

from streamlet.assignor.values import Copy
from streamlet.errors import StreamletError
from streamlet.group.commands import (
    CommitOutcome,
    Connection,
    FetchOutcome,
    NeedMetadata,
    RunAssignor,
)
from streamlet.group.messages import Answer, Committed, Request
from streamlet.group.values import Assignment
from streamlet.types import TaskId, TopicPartition


@attrs.frozen
class Assigned:
    """Our part of a generation; replaces the one before entirely.

    ``restarted``: we joined by static id as a new process, and this may be what our predecessor
    was given, which knows nothing of what we said.
    """

    generation: int
    member_id: str
    assignment: Assignment
    leader: bool = False
    restarted: bool = False


@attrs.frozen
class Lost:
    """Stop each active and pending task now and write nothing: the group gave them away (M1)."""

    reason: str


@attrs.frozen
class CommitDone:
    """The outcome of a commit; ``code`` is Kafka's where it gave one."""

    token: int
    outcome: CommitOutcome
    code: int = 0


@attrs.frozen
class FetchDone:
    """Committed positions that were asked for; all of them when ``outcome`` is FETCHED."""

    token: int
    outcome: FetchOutcome
    committed: dict[TopicPartition, Committed]
    code: int = 0


@attrs.frozen
class JoinBlocked:
    """The answer whether tasks may be stopped and committed as one unit now."""

    token: int
    granted: bool


@attrs.frozen
class JoinSoon:
    """A join after ``generation`` is due and waits for ``end_hold`` with this token.

    Until then give up what is given up at joins.

    Only where the membership's ``announce_joins`` is set, or for a ``flip``: then all tasks are
    stopped and committed, and what is committed is held open until we are in a group of the other
    type.
    """

    token: int
    generation: int
    flip: bool = False


@attrs.frozen
class Failed:
    """Membership is over for good; nothing follows."""

    error: StreamletError


@attrs.frozen
class Left:
    """Membership ended as wanted; nothing follows."""


SessionEvent: TypeAlias = (
    Assigned | Lost | CommitDone | FetchDone | JoinBlocked | JoinSoon | Failed | Left
)


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

    def send(self, request: Request, connection: Connection, timeout_ms: int) -> Future[Answer]:
        """Send; callbacks of the future may run on a thread that must not be held up."""
        ...

    def hang_up(self, connection: Connection) -> None:
        """Cut a connection and fail what waits on it."""
        ...

    def close(self) -> None:
        """End it; futures that are not done fail."""
        ...
