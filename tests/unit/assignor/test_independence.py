"""The same group has the same plan, in whatever order it is told and whatever the hash seed."""

import os
import random
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet.assignor.assign import assign
from streamlet.assignor.values import GroupState, MemberState, Rules
from tests.unit.assignor.cluster import Cluster, shown, stateful, stateless
from tests.unit.assignor.groups import group, member, planned

ROOT = Path(__file__).resolve().parents[3]

_PRINT_PLANS = """
from tests.unit.assignor.test_independence import lively
from tests.unit.assignor.cluster import shown
from streamlet.assignor.assign import assign
for seed in range(12):
    print(shown(assign(lively(seed))))
"""


def lively(seed: int) -> GroupState:
    """A cluster in the middle of several moves."""
    dice = random.Random(seed)
    cluster = Cluster(
        {**stateful(18, subtopologies=2), **stateless(7)},
        Rules(
            standbys=dice.choice([0, 1, 2]),
            learners=dice.random() < 0.8,
            handover=dice.choice(["release", "surrender"]),
            rack_tags=dice.choice([(), ("zone",)]),
            max_learners_group=dice.choice([2, 64]),
        ),
    )
    for number in range(dice.randint(2, 5)):
        tags = {"zone": dice.choice("ab")}
        cluster.join(f"i{number}", dice.choice([1, 2]), tags=tags)
    cluster.settle()
    cluster.join("late", 2)
    cluster.drain("i0")
    cluster.round(stage=dice.choice([0, 1, 2]))
    cluster.crash("i1")
    cluster.ready(dice.sample(sorted(cluster.tasks), 9))
    return cluster.state()


def shuffled(state: GroupState, dice: random.Random) -> GroupState:
    """The same said in another order."""

    def turned(who: MemberState) -> MemberState:
        copies = dice.sample(sorted(who.copies.items()), len(who.copies))
        return attrs.evolve(who, copies=dict(copies), tags=dict(reversed(who.tags.items())))

    members = tuple(map(turned, dice.sample(state.members, len(state.members))))
    return attrs.evolve(
        state, members=members, tasks=tuple(dice.sample(state.tasks, len(state.tasks)))
    )


@given(st.integers(0, 10_000), st.integers())
def test_the_order_of_members_tasks_and_copies_does_not_matter(seed: int, turn: int) -> None:
    state = lively(seed)
    assert assign(shuffled(state, random.Random(turn))) == assign(state)


@pytest.mark.parametrize("hash_seed", ["0", "1", "4242"])
def test_the_hash_seed_does_not_matter(hash_seed: str) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    run = subprocess.run(
        [sys.executable, "-c", _PRINT_PLANS],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.splitlines() == [shown(assign(lively(seed))) for seed in range(12)]


def test_whoever_leads_knows_enough_from_what_the_members_say() -> None:
    """A plan takes the group alone: nothing tells it who leads, nothing is kept between calls."""
    states = [lively(seed) for seed in range(5)]
    fresh = [assign(state) for state in states]
    assert [assign(state) for state in reversed(states)] == fresh[::-1]


def test_a_static_id_decides_the_order_whatever_the_member_id() -> None:
    """After a restart with another member id the same instance gets the same tasks."""
    first = group(
        member("m-9", instance_id="a"), member("m-1", instance_id="b"), tasks="0_0 0_1 0_2"
    )
    second = group(
        member("m-2", instance="i-m-9", instance_id="a"),
        member("m-7", instance="i-m-1", instance_id="b"),
        tasks="0_0 0_1 0_2",
    )
    assert planned(first).members["m-9"] == planned(second).members["m-2"]
    assert planned(first).members["m-1"] == planned(second).members["m-7"]
