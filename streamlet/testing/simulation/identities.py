"""A simulated member's identity, and the tasks protocol as it speaks it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from streamlet.assignor.values import Copy, MemberState, Role
from streamlet.rebalance.values import Subscription
from streamlet.tasks.task_record import OURS
from streamlet.testing.simulation.session import WatchedProtocol
from streamlet.types import TaskId

if TYPE_CHECKING:
    from streamlet.testing.simulation.member import SimMember


def identity_of(member: SimMember, number: int, static: str | None) -> Subscription:
    """The identity of a member, the ``number``-th of its instance."""
    spec, settings = member.instance.spec, member.world.settings
    return Subscription(
        instance=member.instance.process_id,
        name=spec.name,
        member=number,
        instance_members=spec.members,
        capacity=float(spec.capacity or settings.instance_capacity or spec.members),
        subtopologies=member.world.subtopologies_of(spec),
        instance_id=static,
        tags={**settings.instance_tags, **spec.tags},
        learners=spec.learners and member.mode != "eager",
        mode=member.mode,
    )


def protocol_of(member: SimMember) -> WatchedProtocol:
    """The protocol as a member speaks it."""
    world = member.world
    protocol = WatchedProtocol(
        member.identity,
        member.plan_rules,
        lambda state: world.plan(member, state),
        tasks=lambda: world.cluster.infos,
        wall_ms=lambda: world.now_ms,
        rejoin=lambda reason: member.session.rejoin(reason),
        envelope=world.envelope,
        migration_timeout_ms=world.settings.rebalance_timeout_ms,
        latest=member.instance.spec.version,
    )
    protocol.member = member
    return protocol


def state_of(
    member: SimMember, copies: dict[TaskId, Copy], deferral_deadline_ms: int | None
) -> MemberState:
    """The state of a member as a leader would know it if it joined now."""
    if member.manager.rules.stops_at_joins:
        for task in member.tasks(*OURS):
            copies[task] = attrs.evolve(copies[task], role=Role.RELEASED, ready=True, lag=0)
    identity = member.identity
    leader = member.world.leader() or member
    pairs = enumerate(zip(identity.subtopologies, leader.identity.subtopologies, strict=True))
    runs = frozenset(number for number, (own, theirs) in pairs if own == theirs)
    return MemberState(
        member_id=member.machine.view.member_id,
        instance=identity.instance,
        number=identity.member,
        capacity=identity.capacity,
        instance_id=identity.instance_id,
        runs=None if len(runs) == len(identity.subtopologies) else runs,
        copies=copies,
        tags=identity.tags,
        leaving=member.manager.leaving,
        learners=identity.learners,
        joined_generation=member.machine.view.generation,
        deferral_deadline_ms=deferral_deadline_ms,
    )
