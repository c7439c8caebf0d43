"""The default assignor of plain consumers: even by number, and nothing moves that need not.

An assignor is a function of what the members are and which partitions there are; it names an owner
for each partition. Who owns what today is in the members. Kafka calls this one sticky.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import attrs

from streamlet.types import TopicPartition


@attrs.frozen(eq=False)
class ConsumerMember:
    """A member of a group of consumers, as an assignor sees it; usable as a key of its answer.

    ``owned`` is what it reads now; under the eager protocol no member owns anything while an
    assignor runs. ``tags`` are the member's ``instance.tags``, ``instance_id`` its static id.
    """

    member_id: str
    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    instance_id: str | None = None
    tags: Mapping[str, str] = attrs.field(factory=dict)


#: Says who is to read each partition: member (or its id) -> partitions.
PartitionAssignor: TypeAlias = Callable[
    [Sequence[ConsumerMember], Sequence[TopicPartition]],
    Mapping[ConsumerMember, Iterable[TopicPartition]] | Mapping[str, Iterable[TopicPartition]],
]


def sticky(
    members: Sequence[ConsumerMember], partitions: Sequence[TopicPartition]
) -> dict[str, list[TopicPartition]]:
    """Let each member keep what it owns, give the rest to those with least, then even out.

    Where all members read the same topics, loads differ by one at most and no more partitions
    move than that takes.
    """
    loads: dict[str, set[TopicPartition]] = {m.member_id: set() for m in members}
    readers = _readers(members)
    owners: dict[TopicPartition, str] = {}
    for member in members:
        for partition in member.owned:
            if partition.topic in member.topics:
                owners.setdefault(partition, member.member_id)
    free = []
    for partition in sorted(partitions):
        if partition in owners:
            loads[owners[partition]].add(partition)
        elif partition.topic in readers:
            free.append(partition)
    # Those that few members read come first, as long as these few have room.
    for partition in sorted(free, key=lambda p: (len(readers[p.topic]), p)):
        least = min(readers[partition.topic], key=lambda name: (len(loads[name]), name))
        loads[least].add(partition)
    while (move := _next_move(loads, readers)) is not None:
        partition, giver, taker = move
        loads[giver].remove(partition)
        loads[taker].add(partition)
    return {name: sorted(load) for name, load in loads.items()}


def _readers(members: Sequence[ConsumerMember]) -> dict[str, list[str]]:
    """The members that read each topic."""
    readers: dict[str, list[str]] = {}
    for member in members:
        for topic in sorted(member.topics):
            readers.setdefault(topic, []).append(member.member_id)
    return readers


def _next_move(
    loads: Mapping[str, set[TopicPartition]], readers: Mapping[str, Sequence[str]]
) -> tuple[TopicPartition, str, str] | None:
    """A partition whose move evens the loads out; of the topic that is spread least."""
    for giver in sorted(loads, key=lambda name: (-len(loads[name]), name)):
        topics = sorted({partition.topic for partition in loads[giver]})
        takers = {
            topic: min(readers[topic], key=lambda name: (len(loads[name]), name))
            for topic in topics
        }
        fits = [t for t in topics if len(loads[takers[t]]) + 2 <= len(loads[giver])]
        if fits:
            topic = max(fits, key=lambda t: _of(loads[giver], t) - _of(loads[takers[t]], t))
            return max(p for p in loads[giver] if p.topic == topic), giver, takers[topic]
    return None


def _of(load: Iterable[TopicPartition], topic: str) -> int:
    return sum(partition.topic == topic for partition in load)
