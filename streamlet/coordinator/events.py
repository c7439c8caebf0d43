"""The events of a member and its commands: the input and the output of ``Membership.handle``.

The shell (``session``, or a simulation) makes events from the network, the worker and the clock,
and carries commands out; those that are a ``SessionEvent`` go to the worker as they are. Times in
ms of one monotonic clock. A number is that of the ``Send`` command that an event answers; a token
is the caller's own.
"""

from __future__ import annotations

import enum
from typing import Generic, TypeAlias, TypeVar

import attrs

from streamlet.coordinator.messages import Answer, Committed, Request
from streamlet.errors import StreamletError
from streamlet.rebalance.values import Assignment, NeedMetadata, RunAssignor
from streamlet.types import TopicPartition


class FailureKind(enum.StrEnum):
    """The reasons why there is no answer. The last three do not pass by themselves."""

    TIMEOUT = "timeout"
    DISCONNECTED = "disconnected"
    AUTHENTICATION = "authentication"
    UNSUPPORTED = "unsupported"  # the broker is too old
    CLOSED = "closed"  # by ourselves


@attrs.frozen
class StartMembership:
    """Become a member. The first event, once."""


@attrs.frozen
class CoordinatorFound:
    """Answers ``FindCoordinator``; ``address`` is whatever tells two coordinators apart."""

    address: str = ""


@attrs.frozen
class CoordinatorNotFound:
    """Answers ``FindCoordinator``; ``error`` is Kafka's code, None when no broker answered."""

    error: int | None = None
    cause: StreamletError = attrs.field(factory=lambda: StreamletError("no answer"), eq=False)


@attrs.frozen
class Answered:
    """The coordinator answered request ``number``."""

    number: int
    answer: Answer


@attrs.frozen
class RequestFailed:
    """Request ``number`` got no answer; it may have arrived all the same."""

    number: int
    kind: FailureKind


@attrs.frozen
class Tick:
    """Time has passed; due at the latest at the last ``WakeAt``."""


@attrs.frozen
class MetadataReady:
    """Answers ``NeedMetadata`` ``request``: what to join with, (name, metadata) best first."""

    request: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]


@attrs.frozen
class AssignmentsReady:
    """Answers ``RunAssignor``: an assignment for each member of ``generation``."""

    generation: int
    assignments: dict[str, bytes]


@attrs.frozen
class MigrationOrdered:
    """The assignment of ``generation`` sends all members into a group of another type (F2)."""

    protocol_type: str
    generation: int


@attrs.frozen
class AssignorFailed:
    """Answers ``RunAssignor`` when there is no plan (e.g. topics unknown): try again later."""

    generation: int
    reason: str


@attrs.frozen
class Rejoin:
    """Our own description changed and a rebalance is needed; joins with a new nonce.

    ``descriptions``: how often we had been described by then. If we were since, the rebalance that
    comes of that JoinGroup will do: one more would take the assignment back before it was applied.
    """

    reason: str
    descriptions: int | None = attrs.field(default=None, eq=False)


@attrs.frozen
class CommitWanted:
    """Commit ``offsets`` (offset, metadata text); one ``CommitDone`` with the token answers.

    ``hold`` is the token of the granted ``BlockJoin`` this commit belongs to: such a commit
    is begun even though a rebalance is due, because the JoinGroup waits for it. ``losses_seen``:
    how many losses of its tasks the worker knew of, None: of all.
    """

    token: int
    offsets: dict[TopicPartition, tuple[int, str]]
    hold: int | None = None
    losses_seen: int | None = None


@attrs.frozen
class FetchWanted:
    """Read committed positions; one ``FetchDone`` with the token answers."""

    token: int
    partitions: tuple[TopicPartition, ...]


@attrs.frozen
class BlockJoin:
    """The worker is about to stop tasks and commit them as one unit, on an order.

    ``generation`` is that of the order. Answered by ``JoinBlocked``. While granted no JoinGroup is
    sent (bounded by ``hold_timeout_ms``).
    """

    token: int
    generation: int


#: The token by which a commit that is prepared blocks joins; units have others.
COMMIT_TOKEN = 0


@attrs.frozen
class CommitSoon:
    """The worker prepares a commit that no join may come before, as units may not.

    No JoinGroup is sent (bounded by ``hold_timeout_ms``) until ``UnblockJoin`` with
    ``COMMIT_TOKEN``. It is not answered: the commit itself is turned away if a join was due.
    """


@attrs.frozen
class UnblockJoin:
    """The unit of ``BlockJoin`` is over, whatever became of it; JoinGroups may be sent again."""

    token: int


@attrs.frozen
class HeartbeatWanted:
    """Send a heartbeat now rather than when it is due, if one can be sent."""


@attrs.frozen
class ProgressMade:
    """The worker's loop went round; watched against ``max.poll.interval.ms``."""


@attrs.frozen
class LeaveWanted:
    """End the membership; ``quietly``: without a LeaveGroup, so that a static successor goes on."""

    reason: str
    quietly: bool = False


#: What the worker wants or tells.
WorkerRequest: TypeAlias = (
    Rejoin
    | CommitWanted
    | FetchWanted
    | BlockJoin
    | CommitSoon
    | UnblockJoin
    | HeartbeatWanted
    | ProgressMade
    | LeaveWanted
)

Event: TypeAlias = (
    StartMembership
    | CoordinatorFound
    | CoordinatorNotFound
    | Answered
    | RequestFailed
    | Tick
    | MetadataReady
    | AssignmentsReady
    | AssignorFailed
    | MigrationOrdered
    | WorkerRequest
)


# -- commands -------------------------------------------------------------------------------------

Content = TypeVar("Content", bytes, Assignment)


class Connection(enum.StrEnum):
    """The two connections to the coordinator: a parked JoinGroup blocks all that follows it."""

    JOIN = "join"  # JoinGroup and SyncGroup
    MAIN = "main"  # everything else


@attrs.frozen
class FindCoordinator:
    """Look the coordinator up and connect; answer by CoordinatorFound or CoordinatorNotFound."""

    timeout_ms: int


@attrs.frozen
class Send:
    """Send ``request``; answer by Answered or RequestFailed with the number.

    A shell needs no timer, the machine has one. ``token`` is that of the commit or fetch it is for.
    """

    number: int
    request: Request
    connection: Connection
    timeout_ms: int
    sent_ms: int = 0
    token: int = -1


@attrs.frozen
class Abandon:
    """Give up request ``number``; close its connection if the request is parked there."""

    number: int
    connection: Connection


@attrs.frozen
class WakeAt:
    """Send a Tick at ``at_ms`` unless something else happens before; replaces the one before."""

    at_ms: int


# -- for the worker --------------------------------------------------------------------------------


class CommitOutcome(enum.StrEnum):
    """The outcomes of a commit.

    The local store is written only after ``ACCEPTED``. ``UNKNOWN`` may have happened, or may yet.
    """

    ACCEPTED = "accepted"
    GATED = "gated"  # nothing happened; ask again later
    SWITCHED = "switched"  # nothing happened, the generation moved on; keep the tasks
    UNKNOWN = "unknown"  # rejoining; ask for the same commit in the new generation
    LOST = "lost"  # the tasks are lost, a ``Lost`` says so too; write nothing
    REFUSED = "refused"  # the broker will not have it, see the code; repeating cannot help


class FetchOutcome(enum.StrEnum):
    """The outcomes of a read of committed positions."""

    FETCHED = "fetched"
    UNSTABLE = "unstable"  # an open transaction has positions of these partitions; ask again
    RETRY = "retry"  # no coordinator just now; ask again
    REFUSED = "refused"


@attrs.frozen
class Assigned(Generic[Content]):
    """Our part of a generation; replaces the one before entirely.

    The machine has bytes, which the control thread reads for the worker. ``restarted``: we joined
    by static id as a new process, and this may be what our predecessor was given, which knows
    nothing of what we said.
    """

    generation: int
    member_id: str
    assignment: Content
    leader: bool = False
    restarted: bool = False


@attrs.frozen
class Lost:
    """Stop each active and pending task now and write nothing: the group gave them away (M1)."""

    reason: str


@attrs.frozen
class CommitDone:
    """The outcome of a commit; ``code`` is Kafka's where it gave one.

    ``gone`` are the partitions that no position is kept of any more, since their topics were
    deleted: what was committed beside them is accepted.
    """

    token: int
    outcome: CommitOutcome
    code: int = 0
    gone: frozenset[TopicPartition] = frozenset()

    @property
    def whole(self) -> bool:
        """True if all of it was accepted."""
        return self.outcome is CommitOutcome.ACCEPTED and not self.gone


@attrs.frozen
class FetchDone:
    """Committed positions that were asked for; all of them when ``outcome`` is FETCHED."""

    token: int
    outcome: FetchOutcome
    committed: dict[TopicPartition, Committed] = attrs.field(factory=dict)
    code: int = 0


@attrs.frozen
class JoinBlocked:
    """The answer whether tasks may be stopped and committed as one unit now."""

    token: int
    granted: bool


@attrs.frozen
class JoinSoon:
    """A join after ``generation`` is due and waits, not for ever, for this token's ``UnblockJoin``.

    Until then give up what is given up at joins, and commit it as a unit of this token. Only where
    the membership's ``announce_joins`` is set, or for a ``migration``: then all tasks are stopped
    and committed, and what is committed is held open until we are in a group of the other type.
    """

    token: int
    generation: int
    migration: bool = False


@attrs.frozen
class Failed:
    """Membership is over for good; nothing follows."""

    error: StreamletError


@attrs.frozen
class Left:
    """Membership ended as wanted; nothing follows."""


_ForWorker: TypeAlias = Lost | CommitDone | FetchDone | JoinBlocked | JoinSoon | Failed | Left

SessionEvent: TypeAlias = Assigned[Assignment] | _ForWorker

Command: TypeAlias = (
    FindCoordinator
    | Send
    | Abandon
    | NeedMetadata
    | RunAssignor
    | WakeAt
    | Assigned[bytes]
    | _ForWorker
)
