"""The commands of a member, in order; the only output of ``Membership.handle``.

Those that are a ``SessionEvent`` go to the worker as they are; the shell carries out the others.
"""

from __future__ import annotations

import enum
from typing import Generic, TypeAlias, TypeVar

import attrs

from streamlet.errors import StreamletError
from streamlet.group.messages import Committed, JoinedMember, Request
from streamlet.group.values import Assignment
from streamlet.types import TopicPartition

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
class WakeAt:
    """Send a Tick at ``at_ms`` unless something else happens before; replaces the one before."""

    at_ms: int


# -- for the worker --------------------------------------------------------------------------------


class CommitOutcome(enum.StrEnum):
    """The outcomes of a commit.

    Only after ``ACCEPTED`` may the local store be written. ``UNKNOWN`` may have happened or may
    yet happen.
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
    """The outcome of a commit; ``code`` is Kafka's where it gave one."""

    token: int
    outcome: CommitOutcome
    code: int = 0


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
    """A join after ``generation`` is due and waits, not for ever, for ``end_hold`` with this token.

    Until then give up what is given up at joins, and commit it as a unit of this token, so that the
    join can say so.

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
