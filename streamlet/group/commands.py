"""The commands of a member, in order; the only output of ``Membership.handle``."""

from __future__ import annotations

import enum
from typing import TypeAlias

import attrs

from streamlet.group.messages import JoinedMember, Request
from streamlet.group.session_events import (
    CommitDone,
    Failed,
    FetchDone,
    JoinBlocked,
    JoinSoon,
    Left,
    Lost,
)


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
class WakeAt:
    """Send a Tick at ``at_ms`` unless something else happens before; replaces the one before."""

    at_ms: int


Command: TypeAlias = (
    FindCoordinator
    | Send
    | Abandon
    | NeedMetadata
    | RunAssignor
    | Deliver
    | Lost
    | CommitDone
    | FetchDone
    | JoinBlocked
    | JoinSoon
    | WakeAt
    | Failed
    | Left
)
