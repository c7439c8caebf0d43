"""A canary release: a tenth of the partitions go to members that run the new version.

    streamlet topics create orders --partitions 20
    python -m examples.consumer_canary orders billing              # as often as you like
    python -m examples.consumer_canary orders billing --canary     # the new version

Whoever leads decides for all, so every member is given the assignor. While there is no canary the
others have everything; when the last one stops, its partitions go back to them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import streamlet as sl
from streamlet.consumer import ConsumerMember, PartitionAssignor, sticky
from streamlet.types import TopicPartition


def canary(share: float = 0.1) -> PartitionAssignor:
    """An assignor that gives canaries this share of the partitions of each topic, at least one."""

    def assign(
        members: Sequence[ConsumerMember], partitions: Sequence[TopicPartition]
    ) -> dict[str, list[TopicPartition]]:
        canaries = [m for m in members if m.tags.get("release") == "canary"]
        others = [m for m in members if m not in canaries]
        if not canaries or not others:
            return sticky(members, partitions)
        tried = chosen(canaries, partitions, share)
        proven = [p for p in partitions if p not in tried]
        return {**sticky(canaries, sorted(tried)), **sticky(others, proven)}

    return assign


def chosen(
    canaries: Sequence[ConsumerMember], partitions: Sequence[TopicPartition], share: float
) -> set[TopicPartition]:
    """The partitions that canaries get, first those they have: what need not move stays."""
    owned = {p for m in canaries for p in m.owned}
    found: set[TopicPartition] = set()
    for topic in sorted({p.topic for p in partitions}):
        there = [p for p in partitions if p.topic == topic]
        there.sort(key=lambda p: (p not in owned, p))
        found.update(there[: max(1, round(share * len(there)))])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("topic")
    parser.add_argument("group")
    parser.add_argument("--bootstrap-servers", default="localhost:9092")
    parser.add_argument("--canary", action="store_true", help="run the new version")
    options = parser.parse_args()
    release = "canary" if options.canary else "stable"
    with sl.Consumer(
        options.topic,
        options.group,
        bootstrap_servers=options.bootstrap_servers,
        assignor=canary(),
        config={"rebalance.protocol": "cooperative", "instance.tags": {"release": release}},
        on_assigned=lambda partitions: print("assigned", *partitions, flush=True),
        on_revoked=lambda partitions: print("revoked", *partitions, flush=True),
    ) as consumer:
        for record in consumer:
            print(release, record.topic, record.partition, record.offset, record.value, flush=True)


if __name__ == "__main__":
    main()
