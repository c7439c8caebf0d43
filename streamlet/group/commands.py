"""The commands of a member, in order; the only output of ``Membership.handle``."""

from __future__ import annotations

import enum
from typing import TypeAlias

import attrs

from streamlet.errors import GroupError
from streamlet.group.messages import Committed, JoinedMember, Request
from streamlet.types import TopicPartition


class Connection(enum.StrEnum):
    """The two connections to the coordinator: a parked JoinGroup blocks all that follows it."""

    JOIN = "join"  # JoinGroup and SyncGroup
    MAIN = "main"  # everything else


class CommitOutcome(enum.StrEnum):
    """The outcomes of a commit.

    Only after ``ACCEPTED`` may the local store be written. ``UNKNOWN`` may have happened or may
    yet happen.
    """

    ACCEPTED = "accepted"
    GATED = "gated"  # nothing happened; ask again later
    SWITCHED = "switched"  # nothing happened, the generation moved on; keep the tasks
    UNKNOWN = "unknown"  # rejoining; ask for the same commit in the new generation
    LOST = "lost"  # the tasks are lost, a LoseTasks says so too; write nothing
    REFUSED = "refused"  # the broker will not have it, see the code; repeating cannot help


class FetchOutcome(enum.StrEnum):
    """The outcomes of a read of committed positions."""

    FETCHED = "fetched"
    UNSTABLE = "unstable"  # an open transaction has positions of these partitions; ask again
    RETRY = "retry"  # no coordinator just now; ask again
    REFUSED = "refused"


@attrs.frozen
class FindCoordinator:
    """Look the coordinator up and connect; answer by CoordinatorFound or CoordinatorNotFound."""

    timeout_ms: int


@attrs.frozen
class Send:
    """Send ``request``; answer by Answered or RequestFailed with the number.

    The machine keeps its own timer: a shell without timeouts works too, later answers are ignored.
    """

    number: int
    request: Request
    connection: Connection
    timeout_ms: int


@attrs.frozen
class Abandon:
    """Give up request ``number``; close its connection if the request is parked there."""

    number: int
    connection: Connection


@attrs.frozen
class NeedMetadata:
    """Describe yourself now, as of all commands before this one; answer by MetadataReady.

    ``nonce`` must be in the bytes: it makes them differ when a rebalance is to be forced.
    ``reduced`` > 0: the broker could not store the group's state; leave out what can be done
    without (the more the higher). ``generation`` is that of the last assignment delivered under
    this member id, -1 for none; ``reason`` is why we join, for people. ``protocol_type`` is what
    to join as, empty if there is no choice.
    """

    request: int
    member_id: str
    generation: int
    nonce: int
    reduced: int = 0
    reason: str = ""
    protocol_type: str = ""


@attrs.frozen
class RunAssignor:
    """We lead: plan ``generation`` off the I/O thread; AssignmentsReady answers."""

    generation: int
    members: tuple[JoinedMember, ...]
    reduced: int = 0
    member_id: str = ""  # our own


@attrs.frozen
class Deliver:
    """Our assignment in ``generation``; replaces the one before entirely.

    ``restarted``: we joined by static id as a new process, so these may be the bytes our
    predecessor got, which know nothing of what we said in this join.
    """

    assignment: bytes
    generation: int
    member_id: str
    leader: bool = False
    restarted: bool = False


@attrs.frozen
class LoseTasks:
    """Stop each active and pending task now, write nothing; keep copies, but claim none (M1)."""

    reason: str


@attrs.frozen
class CommitResult:
    """Answers CommitWanted; ``code`` is Kafka's where one was given."""

    token: int
    outcome: CommitOutcome
    code: int = 0


@attrs.frozen
class FetchResult:
    """Answers FetchWanted; ``committed`` has every partition asked for when FETCHED."""

    token: int
    outcome: FetchOutcome
    committed: dict[TopicPartition, Committed] = attrs.field(factory=dict)
    code: int = 0


@attrs.frozen
class BlockJoinResult:
    """Answers HoldWanted; not granted: do not begin, the leader will order again."""

    token: int
    granted: bool


@attrs.frozen
class JoinDue:
    """A JoinGroup is due, and waits for HoldEnded with this token (``hold_timeout_ms`` at most).

    Until then tasks may be stopped and committed, as a unit of this token (``CommitWanted.hold``),
    so that the join can say they are given up. Only with ``announce_joins``, or for a ``flip``: the
    JoinGroup will be another group type's, and tasks that were committed may be held open for it.
    ``generation`` is the last one delivered, which the join comes after.
    """

    token: int
    generation: int
    flip: bool = False


@attrs.frozen
class WakeAt:
    """Send a Tick at ``at_ms`` unless something else happens before; replaces the one before."""

    at_ms: int


@attrs.frozen
class Fail:
    """Membership is over for good; raise ``error`` in the worker."""

    error: GroupError


@attrs.frozen
class MembershipEnded:
    """Membership ended as wanted."""


Command: TypeAlias = (
    FindCoordinator
    | Send
    | Abandon
    | NeedMetadata
    | RunAssignor
    | Deliver
    | LoseTasks
    | CommitResult
    | FetchResult
    | BlockJoinResult
    | JoinDue
    | WakeAt
    | Fail
    | MembershipEnded
)
