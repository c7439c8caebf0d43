"""A broker's descriptions of groups, as values; for ``status`` and for removing members.

The classic protocol's DescribeGroups names no generation and no leader: those a member knows, and
says in what it publishes.
"""

from __future__ import annotations

import attrs


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
