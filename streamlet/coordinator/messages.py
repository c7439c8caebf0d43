"""The requests of a classic Kafka group and their answers, as plain values.

``membership`` makes requests and takes answers, ``session`` puts them on the wire through
kafka-python, the fake coordinator answers them in memory. ``error`` is Kafka's code, 0 for none.
Times are ms. At the end are the descriptions that brokers give of groups, for ``status`` and for
removing members. They name no generation and no leader: those a member knows, and says in what it
publishes.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from streamlet.rebalance.values import JoinedMember
from streamlet.types import TopicPartition


@attrs.frozen
class JoinGroup:
    """Ask to be a member of the next generation. ``protocols`` is (name, metadata), best first."""

    group: str
    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    reason: str = ""


@attrs.frozen
class JoinGroupAnswer:
    """``members`` is empty unless we lead; ``skip_assignment``: we do, but the old plan stands."""

    error: int
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    member_id: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@attrs.frozen
class SyncGroup:
    """Ask for the assignment of a generation; the leader sends all of them."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str
    protocol_name: str
    assignments: tuple[tuple[str, bytes], ...] = ()


@attrs.frozen
class SyncGroupAnswer:
    """The member's own assignment."""

    error: int
    assignment: bytes = b""


@attrs.frozen
class Heartbeat:
    """Still here."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None


@attrs.frozen
class HeartbeatAnswer:
    """27 REBALANCE_IN_PROGRESS asks for a rejoin."""

    error: int


@attrs.frozen
class LeaveGroup:
    """Give up membership."""

    group: str
    member_id: str
    instance_id: str | None
    reason: str = ""


@attrs.frozen
class LeaveGroupAnswer:
    """Answer for the whole request, or for our own identity in it."""

    error: int


@attrs.frozen
class OffsetCommit:
    """Commit positions, fenced by generation and member id. Values are (offset, metadata text).

    That is all the fencing there is: any member of the generation may commit any partition.
    """

    group: str
    generation: int
    member_id: str
    instance_id: str | None
    offsets: dict[TopicPartition, tuple[int, str]]


@attrs.frozen
class OffsetCommitAnswer:
    """An error code per partition."""

    errors: dict[TopicPartition, int]


@attrs.frozen
class OffsetFetch:
    """Read committed positions; membership is not needed."""

    group: str
    partitions: tuple[TopicPartition, ...]
    require_stable: bool = True


@attrs.frozen
class Committed:
    """A committed position; ``offset`` -1 where there is none."""

    offset: int
    metadata: str
    error: int = 0


@attrs.frozen
class OffsetFetchAnswer:
    """``error`` is the group's; each partition has one of its own (88: unstable)."""

    error: int
    committed: dict[TopicPartition, Committed] = attrs.field(factory=dict)


Request: TypeAlias = JoinGroup | SyncGroup | Heartbeat | LeaveGroup | OffsetCommit | OffsetFetch
Answer: TypeAlias = (
    JoinGroupAnswer
    | SyncGroupAnswer
    | HeartbeatAnswer
    | LeaveGroupAnswer
    | OffsetCommitAnswer
    | OffsetFetchAnswer
)


@attrs.frozen
class GroupListing:
    """A group as a broker lists it; ``state`` as Kafka spells it, e.g. ``Stable``."""

    group: str
    protocol_type: str
    state: str


@attrs.frozen
class MemberDescription:
    """A member with the bytes it joined with and the bytes it was assigned."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@attrs.frozen
class GroupDescription:
    """A group as its coordinator sees it.

    ``state`` is Empty, PreparingRebalance, CompletingRebalance, Stable, or Dead for a group that
    does not exist. Metadata and assignments are only there while it is Stable. ``error`` is
    Kafka's code, 0 for none.
    """

    group: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[MemberDescription, ...]
    error: int = 0
