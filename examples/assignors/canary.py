"""A canary release: a tenth of the tasks go to instances that run the new version.

    streamlet topics create orders --partitions 20
    streamlet topics create spent --partitions 20
    streamlet run examples.assignors.canary:app --name old
    streamlet run examples.assignors.canary:app --name new --set instance.tags=release=canary

The assignor does not plan: it changes what streamlet's own is told, here how much each instance
can carry. So tasks move to a canary and back from it as they always do, warm and one by one, and
everybody else keeps what it has. While there is no canary, or nobody else, all are alike.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

import streamlet as sl
from streamlet.assignor.assign import assign
from streamlet.assignor.values import GroupState, MemberState, Plan
from streamlet.rebalance.leader import Assignor


def canary(share: float = 0.1) -> Assignor:
    """An assignor that has canaries run this share of the tasks, all of them together."""

    def assigned(group: GroupState) -> Plan:
        staying = [m for m in group.members if m.leaving is None]
        canaries = capacities(m for m in staying if m.tags.get("release") == "canary")
        others = capacities(m for m in staying if m.instance not in canaries)
        if not canaries or not others:
            return assign(group)
        scale = share / (1 - share) * sum(others.values()) / sum(canaries.values())

        def scaled(member: MemberState) -> MemberState:
            if member.instance not in canaries:
                return member
            return attrs.evolve(member, capacity=scale * canaries[member.instance])

        return assign(attrs.evolve(group, members=tuple(map(scaled, group.members))))

    return assigned


def capacities(members: Iterable[MemberState]) -> dict[str, float]:
    """How much each instance can carry; its members say it of all of them together."""
    return {member.instance: member.capacity for member in members}


app = sl.App("spent-by-customer", assignor=canary())

orders = app.stream("orders", key=str, value=int)
spent = orders.group_by_key().reduce(lambda total, more: total + more, store="spent")
spent.to_stream().to("spent")
