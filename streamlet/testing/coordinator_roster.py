"""The members of one group inside the fake coordinator: who leads, what they have in common.

Nothing here waits, answers or knows a phase; that is ``coordinator_group``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import attrs

from streamlet.rebalance.values import JoinedMember
from streamlet.testing.coordinator_desk import (
    FENCED_INSTANCE_ID,
    OK,
    UNKNOWN_MEMBER_ID,
    CoordinatorMember,
)

#: Bytes of a stored group that are neither names, metadata nor assignments; close, not exact.
_RECORD_OVERHEAD, _MEMBER_OVERHEAD = 120, 40


@attrs.define(eq=False)
class Roster:
    """Members in the order of joining; when the leader goes, the first that fits follows."""

    members: dict[str, CoordinatorMember] = attrs.field(factory=dict)
    leader: str | None = None

    def __iter__(self) -> Iterator[CoordinatorMember]:
        return iter(list(self.members.values()))

    def __len__(self) -> int:
        return len(self.members)

    def get(self, member_id: str) -> CoordinatorMember | None:
        """The member with this id."""
        return self.members.get(member_id)

    def add(self, member: CoordinatorMember) -> None:
        """Add a member; the first one leads."""
        self.members[member.member_id] = member
        self.leader = self.leader or member.member_id

    def remove(self, member_id: str) -> None:
        """Remove a member from the group."""
        self.members.pop(member_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def replace(self, old: CoordinatorMember, new_id: str) -> CoordinatorMember:
        """A static member under its new id; it leads if the old one did."""
        del self.members[old.member_id]
        member = attrs.evolve(old, member_id=new_id, is_new=False)
        self.members[new_id] = member
        if self.leader == old.member_id:
            self.leader = new_id
        return member

    def static_member(self, instance_id: str | None) -> CoordinatorMember | None:
        """The member that holds this static id."""
        if instance_id is None:
            return None
        return next((m for m in self if m.instance_id == instance_id), None)

    def check(self, member_id: str, instance_id: str | None) -> int:
        """The code for a client that claims to be this member; a static id fences older holders."""
        if instance_id is not None:
            holder = self.static_member(instance_id)
            if holder is None:
                return UNKNOWN_MEMBER_ID
            if holder.member_id != member_id:
                return FENCED_INSTANCE_ID
        return OK if member_id in self.members else UNKNOWN_MEMBER_ID

    def elect(self) -> bool:
        """Keep the leader if it joined, else take one that did; False if none did."""
        leader = self.members.get(self.leader or "")
        if leader is None or leader.join_request is None:
            joined = [m.member_id for m in self if m.join_request is not None]
            if not joined:
                return False
            self.leader = joined[0]
        return True

    def common_protocols(self) -> set[str]:
        """Names that every member offers."""
        offered = Counter(name for m in self for name, _ in m.protocols)
        return {name for name, count in offered.items() if count == len(self)}

    def vote(self) -> str:
        """The protocol most members like best among those all have."""
        common = self.common_protocols()
        votes = Counter(next(name for name, _ in m.protocols if name in common) for m in self)
        return votes.most_common(1)[0][0]

    def listed(self, protocol: str | None) -> tuple[JoinedMember, ...]:
        """The members in the form that the leader receives."""
        return tuple(JoinedMember(m.member_id, m.instance_id, m.metadata(protocol)) for m in self)

    def rebalance_timeout_ms(self) -> int:
        """The longest any member asks for."""
        return max((m.rebalance_timeout_ms for m in self), default=0)

    def stored_bytes(self, protocol: str | None) -> int:
        """About what the group's one record takes in the log."""
        return _RECORD_OVERHEAD + sum(
            _MEMBER_OVERHEAD + 2 * len(m.member_id) + len(m.metadata(protocol)) + len(m.assignment)
            for m in self
        )
