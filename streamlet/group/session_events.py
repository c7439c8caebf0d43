"""The events of a session for the worker, and outcomes; the membership hands most of them on."""

from __future__ import annotations

import enum
from typing import TypeAlias

import attrs

from streamlet.errors import StreamletError
from streamlet.group.messages import Committed
from streamlet.group.values import Assignment
from streamlet.types import TopicPartition


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


SessionEvent: TypeAlias = (
    Assigned | Lost | CommitDone | FetchDone | JoinBlocked | JoinSoon | Failed | Left
)
