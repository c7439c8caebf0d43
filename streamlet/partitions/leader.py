"""The partitions protocol, the leader's side: from all subscriptions to all assignments.

Pure, and without memory between two rebalances.

- All members V1: the assignor names an owner for each partition. One that no member claims goes to
it
  at once. One that another member claims is only taken away: it is among the revoked of that
  member, which stops, commits and rejoins without it, and the rebalance after gives it away.
- All V0: all members have given up everything, so the assignor's answer counts as it is.
- Both at once: V0 members get nothing, V1 members keep what they claim and nothing is revoked.
  What no V1 member claims is not read, because V0 members gave up all they had before they joined;
  it goes to V1 members. So what a departed member read is not left lying until the last V0 member
  is gone. All members learn that the group is mixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from streamlet.partitions import wire
from streamlet.partitions.sticky import ConsumerMember, PartitionAssignor
from streamlet.rebalance.consumer_protocol import ConsumerProtocolError
from streamlet.rebalance.values import JoinedMember
from streamlet.types import TopicPartition


@attrs.frozen
class Described:
    """A member with its subscription; None if that cannot be read."""

    member_id: str
    instance_id: str | None
    subscription: wire.PartitionsSubscription | None


def read(members: Iterable[JoinedMember]) -> list[Described]:
    """Read all subscriptions, in an order that does not depend on who leads."""
    found = []
    for member in members:
        try:
            subscription = wire.decode_subscription(member.metadata)
        except ConsumerProtocolError:
            subscription = None
        found.append(Described(member.member_id, member.instance_id, subscription))
    return sorted(found, key=lambda m: (m.instance_id or "", m.member_id))


def plan(
    members: Sequence[Described], partitions: Mapping[str, int], assign: PartitionAssignor
) -> dict[str, wire.PartitionsAssignment]:
    """Plan a generation: the assignments, by member id.

    Args:
        members: who has joined, see ``read``.
        partitions: how many partitions each topic has that a member subscribes to.
        assign: names an owner for each partition.

    Raises:
        ValueError: the assignor's answer is none: see ``checked``.
        Exception: whatever the assignor raises.
    """
    subscriptions = {m.member_id: m.subscription for m in members if m.subscription is not None}
    versions = {each.version for each in subscriptions.values()}
    if len(subscriptions) < len(members):
        # One that cannot be read may hold anything: no member gains a partition.
        return {m.member_id: _as_it_is(m.subscription) for m in members}
    version = max(versions, default=wire.V0_EAGER)
    planned = [m for m in members if subscriptions[m.member_id].version == version]
    target = _target(planned, partitions, assign)
    error = wire.PartitionsError.INCOMPATIBLE if len(versions) > 1 else wire.PartitionsError.NONE
    keepers = _keepers({name: subscriptions[name] for name in target}, target)
    parts = {
        name: _part(name, subscriptions[name], target[name], keepers, error) for name in target
    }
    for name, each in subscriptions.items():
        parts.setdefault(name, _answer(each, error=error))
    return parts


def _part(
    name: str,
    subscription: wire.PartitionsSubscription,
    wanted: frozenset[TopicPartition],
    keepers: Mapping[TopicPartition, str],
    error: wire.PartitionsError,
) -> wire.PartitionsAssignment:
    mixed = error is wire.PartitionsError.INCOMPATIBLE
    kept = {p for p in subscription.owned if keepers[p] == name and (mixed or p in wanted)}
    gained = {p for p in wanted if p not in keepers}
    return _answer(subscription, kept | gained, subscription.owned - kept, error)


def _keepers(
    subscriptions: Mapping[str, wire.PartitionsSubscription],
    target: Mapping[str, frozenset[TopicPartition]],
) -> dict[TopicPartition, str]:
    """The members that keep each claimed partition if nothing is taken away.

    Two claims on one partition cannot be as long as members keep to the protocol. The newer one
    counts then, or, of one generation, that of whom the plan names.
    """
    best: dict[TopicPartition, tuple[int, bool, str]] = {}
    for name in sorted(subscriptions):
        for partition in subscriptions[name].owned:
            claim = (subscriptions[name].generation, partition in target[name], name)
            best[partition] = max(best.get(partition, claim), claim)
    return {partition: name for partition, (_, _, name) in best.items()}


def _answer(
    subscription: wire.PartitionsSubscription,
    assigned: Iterable[TopicPartition] = (),
    revoked: Iterable[TopicPartition] = (),
    error: wire.PartitionsError = wire.PartitionsError.NONE,
) -> wire.PartitionsAssignment:
    version = min(subscription.version, wire.V1_COOPERATIVE)
    return wire.PartitionsAssignment(
        version,
        frozenset(assigned),
        frozenset(revoked),
        error,
        subscription.nonce,
        subscription.identity,
    )


def _as_it_is(subscription: wire.PartitionsSubscription | None) -> wire.PartitionsAssignment:
    if subscription is None:
        return wire.PartitionsAssignment(wire.V0_EAGER, error=wire.PartitionsError.UNREADABLE)
    return _answer(subscription, subscription.owned)


def _target(
    members: Sequence[Described], counts: Mapping[str, int], assign: PartitionAssignor
) -> dict[str, frozenset[TopicPartition]]:
    """The partitions that the assignor gives each member."""
    seen = [
        ConsumerMember(m.member_id, frozenset(one.topics), one.owned, m.instance_id, dict(one.tags))
        for m in members
        if (one := m.subscription) is not None
    ]
    topics = sorted({topic for member in seen for topic in member.topics})
    partitions = [TopicPartition(t, n) for t in topics for n in range(counts.get(t, 0))]
    return checked(assign(tuple(seen), tuple(partitions)), seen, partitions)


def checked(
    answer: Mapping[ConsumerMember, Iterable[TopicPartition]]
    | Mapping[str, Iterable[TopicPartition]],
    members: Sequence[ConsumerMember],
    partitions: Sequence[TopicPartition],
) -> dict[str, frozenset[TopicPartition]]:
    """The assignor's answer by member id, if it is one.

    Raises:
        ValueError: it names an unknown member, a partition twice, one that does not
            exist, one whose topic the member does not read, or leaves one out. All of it is named.
    """
    topics = {m.member_id: m.topics for m in members}
    known, owners = frozenset(partitions), dict[TopicPartition, str]()
    wrong = []
    for member, given in answer.items():
        name = member.member_id if isinstance(member, ConsumerMember) else str(member)
        if name not in topics:
            wrong.append(f"{name} is no member")
            continue
        for partition in (TopicPartition(*pair) for pair in given):
            if partition not in known:
                wrong.append(f"{partition} does not exist")
            elif partition.topic not in topics[name]:
                wrong.append(f"{name} does not read {partition.topic}")
            elif partition in owners:
                wrong.append(f"{partition} is given twice, to {owners[partition]} and {name}")
            else:
                owners[partition] = name
    wrong += [f"{p} is given to no member" for p in partitions if p not in owners]
    if wrong:
        raise ValueError("the assignor's answer cannot be: " + "; ".join(wrong))
    found: dict[str, set[TopicPartition]] = {name: set() for name in topics}
    for partition, name in owners.items():
        found[name].add(partition)
    return {name: frozenset(mine) for name, mine in found.items()}
