"""Whoever leads, in whatever order members are listed, whatever the hash seed: the same answers."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from examples.consumer_canary import canary
from examples.consumer_lag_based import lag_based
from streamlet.assignor.assign import assign
from streamlet.assignor.values import GroupState
from streamlet.partitions import leader as partitions_leader
from streamlet.partitions import wire as partitions_wire
from streamlet.partitions.sticky import PartitionAssignor, sticky
from streamlet.rebalance import leader, wire
from streamlet.rebalance.values import Assignment, JoinedMember, RunAssignor, Subscription
from streamlet.types import TopicPartition
from tests.unit.assignor.test_independence import lively

ROOT = Path(__file__).resolve().parents[3]
SEEDS = range(8)
HASHES = (b"hash-000", b"hash-001")
TOPICS = {"a": 7, "b": 4, "c": 1}

_PRINT_ALL = """
from tests.unit.rebalance.test_independence import *
for seed in SEEDS:
    print(shown_tasks(seed))
    for name in ASSIGNORS:
        print(shown_partitions(seed, name))
"""


# -- tasks -----------------------------------------------------------------------------------------


def descriptions(group: GroupState) -> list[JoinedMember]:
    """What the members of a group would say of themselves."""
    return [
        JoinedMember(
            m.member_id,
            m.instance_id,
            wire.encode_subscription(
                Subscription(
                    m.instance,
                    m.instance,
                    m.number,
                    m.capacity,
                    1,
                    HASHES,
                    copies=dict(sorted(m.copies.items())),
                    leaving=m.leaving,
                    tags=m.tags,
                    joined_generation=m.joined_generation,
                    deferral_deadline_ms=m.deferral_deadline_ms,
                )
            ),
        )
        for m in group.members
    ]


def led(group: GroupState, members: list[JoinedMember], chosen: str) -> dict[str, Assignment]:
    """Everybody's assignment when this one leads, without what only the leader is told."""
    run = RunAssignor(group.generation, tuple(members), member_id=chosen)
    hashes = tuple(HASHES[n % 2] for n in range(10))
    view = leader.LeaderView(group.tasks, hashes, group.rules, group.now_ms)
    told = {name: wire.decode_assignment(d) for name, d in leader.plan(run, view, assign).items()}
    signature = ("leader", "generation", "made_ms", "reason", "follow_up_ms", "unassigned")
    plain = {name: getattr(Assignment(), name) for name in signature}
    return {name: attrs.evolve(told[name], **plain) for name in sorted(told)}


def follow_up(group: GroupState, members: list[JoinedMember], chosen: str) -> int | None:
    """When the leader has to join again."""
    run = RunAssignor(group.generation, tuple(members), member_id=chosen)
    view = leader.LeaderView(group.tasks, HASHES, group.rules, group.now_ms)
    return wire.decode_assignment(leader.plan(run, view, assign)[chosen]).follow_up_ms


def shown_tasks(seed: int) -> list[object]:
    group = lively(seed)
    members = descriptions(group)
    told = led(group, members, members[0].member_id).items()
    return [
        (name, sorted(a.active), sorted(a.learner), sorted(a.standby), sorted(a.release.items()))
        for name, a in told
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_leader_tells_everybody_the_same(seed: int) -> None:
    group, dice = lively(seed), random.Random(seed)
    members = descriptions(group)
    first = led(group, members, members[0].member_id)
    assert any(told.active for told in first.values())
    when = follow_up(group, members, members[0].member_id)
    for member in members:
        turned = dice.sample(members, len(members))
        assert led(group, turned, member.member_id) == first
        assert follow_up(group, turned, member.member_id) == when


# -- partitions ------------------------------------------------------------------------------------


def by_lag() -> PartitionAssignor:
    return lag_based(lambda partitions: {p: 100 * (p.partition % 3) for p in partitions})


ASSIGNORS: dict[str, PartitionAssignor] = {
    "sticky": sticky,
    "canary": canary(0.2),
    "lag-based": by_lag(),
}


def consumers(seed: int) -> list[JoinedMember]:
    """A group in the middle of its life: claims uneven, one double, topics not the same for all."""
    dice = random.Random(seed)
    everything = [TopicPartition(topic, n) for topic, count in TOPICS.items() for n in range(count)]
    owners = {p: dice.randrange(5) for p in everything if dice.random() < 0.8}
    found = []
    for number in range(5):
        topics = ("a", "b", "c") if number else ("a", "b")
        owned = {p for p, owner in owners.items() if owner == number and p.topic in topics}
        if number == 4:
            owned.add(dice.choice([p for p in owners if p.topic == "a"]))
        said = partitions_wire.PartitionsSubscription(
            version=0 if seed % 4 == 3 and number == 2 else 1,
            topics=topics,
            owned=frozenset(owned),
            generation=4 - (number == 4),
            tags={"release": "canary"} if number == 1 else {},
        )
        static = f"static-{number}" if number % 2 else None
        data = partitions_wire.encode_subscription(said)
        found.append(JoinedMember(f"m-{dice.randrange(100)}-{number}", static, data))
    return found


def planned(members: list[JoinedMember], name: str) -> dict[str, object]:
    told = partitions_leader.plan(partitions_leader.read(members), TOPICS, ASSIGNORS[name])
    return {
        member: (sorted(a.assigned), sorted(a.revoked), a.error)
        for member, a in sorted(told.items())
    }


def shown_partitions(seed: int, name: str) -> dict[str, object]:
    return planned(consumers(seed), name)


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("seed", SEEDS)
def test_consumers_are_told_the_same_in_whatever_order_they_are_listed(
    seed: int, name: str
) -> None:
    members, dice = consumers(seed), random.Random(seed)
    first = planned(members, name)
    for _ in range(10):
        assert planned(dice.sample(members, len(members)), name) == first


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("seed", SEEDS)
def test_an_assignor_of_partitions_does_not_go_by_the_order_of_its_input(
    seed: int, name: str
) -> None:
    dice = random.Random(seed)
    owned = [dice.sample(range(12), 3) for _ in range(3)]
    taken: set[int] = set()
    members = []
    for number, some in enumerate(owned):
        mine = set(some) - taken
        taken |= mine
        members.append(
            partitions_leader.ConsumerMember(
                f"m{number}",
                frozenset({"t"}),
                frozenset(TopicPartition("t", n) for n in mine),
                tags={"release": "canary"} if number == 0 else {},
            )
        )
    partitions = [TopicPartition("t", n) for n in range(12)]

    def answer() -> dict[str, frozenset[TopicPartition]]:
        turned = dice.sample(members, 3), dice.sample(partitions, 12)
        return partitions_leader.checked(ASSIGNORS[name](*turned), members, partitions)

    first = answer()
    assert all(answer() == first for _ in range(10))


# -- the hash seed ---------------------------------------------------------------------------------


@pytest.mark.parametrize("hash_seed", ["1", "4242"])
def test_the_hash_seed_does_not_matter(hash_seed: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", _PRINT_ALL],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    expected: list[object] = []
    for seed in SEEDS:
        expected.append(shown_tasks(seed))
        expected += [shown_partitions(seed, name) for name in ASSIGNORS]
    assert run.stdout.splitlines() == [str(one) for one in expected]
