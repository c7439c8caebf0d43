"""The events of a member; the only input of ``Membership.handle``.

The shell (``session``, or a simulation) makes these from the network, the worker and the clock.
Times in ms of one monotonic clock. A number is that of the ``Send`` command it answers; a token is
the caller's own.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

import attrs

from streamlet.group.messages import Answer
from streamlet.types import TopicPartition


class FailureKind(enum.StrEnum):
    """The reasons why there is no answer. The last four do not pass by themselves."""

    TIMEOUT = "timeout"
    DISCONNECTED = "disconnected"
    AUTHENTICATION = "authentication"
    UNSUPPORTED = "unsupported"  # the broker is too old
    CLOSED = "closed"  # by ourselves
    INTERNAL = "internal"  # neither network nor broker: a fault of ours


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
class RejoinWanted:
    """Our own description changed and a rebalance is needed; joins with a new nonce.

    ``descriptions``: how often we had been described when this was wanted. If we were since, the
    rebalance that comes of that JoinGroup will do. One more would take back the assignment before
    any member applied it, and a member that stopped a task for us would wait for two more rounds.
    """

    reason: str
    descriptions: int | None = None


@attrs.frozen
class CommitWanted:
    """Commit ``offsets`` (offset, metadata text); one ``CommitDone`` with the token answers.

    ``hold`` is the token of the granted ``BlockJoinWanted`` this commit belongs to: such a commit
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
class BlockJoinWanted:
    """The worker is about to stop tasks and commit them as one unit, on an order of ``generation``.

    Answered by ``HoldResult``. While granted no JoinGroup is sent (bounded by ``hold_timeout_ms``).
    """

    token: int
    generation: int


@attrs.frozen
class UnblockJoinWanted:
    """The unit of ``BlockJoinWanted`` is over, whatever became of it."""

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
Wish: TypeAlias = (
    RejoinWanted
    | CommitWanted
    | FetchWanted
    | BlockJoinWanted
    | UnblockJoinWanted
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
    | Wish
)
