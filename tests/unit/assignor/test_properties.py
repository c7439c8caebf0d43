"""What holds for any group at all, however odd what its members say.

Members may claim the same task, hold copies of tasks there are not, leave all at once, be late,
know other topologies; a leader has to find a plan that breaks no rule all the same.
"""

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamlet.assignor.assign import assign
from streamlet.assignor.validate import validate
from streamlet.assignor.values import (
    Copy,
    GroupState,
    Leaving,
    MemberState,
    Role,
    Rules,
    TaskInfo,
)
from streamlet.types import TaskId
from tests.shares import share_of
from tests.unit.assignor.groups import GENERATION, NOW

task_ids = st.builds(TaskId, st.integers(0, 2), st.integers(0, 4))
copies = st.builds(
    Copy,
    st.sampled_from(list(Role)),
    st.integers(-1, GENERATION - 1),
    st.booleans(),
    st.one_of(st.none(), st.integers(0, 100_000)),
)
leaving = st.builds(Leaving, st.just(NOW - 5), st.one_of(st.none(), st.integers(NOW - 2, NOW + 2)))
rules = st.builds(
    Rules,
    standbys=st.integers(0, 2),
    learners=st.booleans(),
    handover=st.sampled_from(["release", "surrender"]),
    mode=st.sampled_from(["incremental", "upgrading", "eager"]),
    imbalance=st.sampled_from([0.0, 0.2, 1.0]),
    max_learners_member=st.integers(1, 4),
    max_learners_source=st.integers(1, 4),
    max_learners_group=st.integers(1, 8),
    max_moves=st.integers(0, 3),
    move_interval_ms=st.sampled_from([0, 50]),
    deferral_ms=st.sampled_from([0, 100]),
    initial_delay_ms=st.sampled_from([0, 100]),
    rack_tags=st.sampled_from([(), ("zone",)]),
)


@st.composite
def members(draw: st.DrawFn) -> tuple[MemberState, ...]:
    count = draw(st.integers(1, 6))
    return tuple(
        MemberState(
            f"m{number}",
            draw(st.sampled_from("xyz")),
            number,
            capacity=draw(st.sampled_from([0.0, 0.5, 1.0, 2.0])),
            runs=draw(st.one_of(st.none(), st.none(), st.frozensets(st.integers(0, 2)))),
            copies=draw(st.dictionaries(task_ids, copies, max_size=5)),
            tags=draw(st.dictionaries(st.just("zone"), st.sampled_from("ab"))),
            leaving=draw(st.one_of(st.none(), st.none(), leaving)),
            learners=draw(st.booleans()),
            joined_generation=draw(st.integers(-1, GENERATION - 1)),
            deferral_deadline_ms=draw(st.one_of(st.none(), st.integers(NOW - 9, NOW + 9))),
        )
        for number in range(count)
    )


@st.composite
def groups(draw: st.DrawFn) -> GroupState:
    stateful = draw(st.lists(st.booleans(), min_size=3, max_size=3))
    infos = tuple(
        TaskInfo(task, stateful[task.subtopology], draw(st.integers(1, 5)))
        for task in draw(st.lists(task_ids, unique=True, max_size=12))
    )
    return GroupState(infos, draw(members()), GENERATION, NOW, draw(rules))


@settings(max_examples=share_of(300), suppress_health_check=[HealthCheck.too_slow])
@given(groups())
def test_no_plan_breaks_a_rule(state: GroupState) -> None:
    assert validate(state, assign(state)) == []


@settings(max_examples=share_of(150), suppress_health_check=[HealthCheck.too_slow])
@given(groups(), st.randoms(use_true_random=False))
def test_the_order_in_which_a_group_is_told_does_not_matter(state: GroupState, dice) -> None:
    turned = attrs.evolve(
        state,
        members=tuple(dice.sample(state.members, len(state.members))),
        tasks=tuple(dice.sample(state.tasks, len(state.tasks))),
    )
    assert assign(turned) == assign(state)


@settings(max_examples=share_of(150), suppress_health_check=[HealthCheck.too_slow])
@given(groups())
def test_without_learners_and_standbys_a_plan_has_neither_copies_nor_hand_overs(
    state: GroupState,
) -> None:
    cold = attrs.evolve(state.rules, learners=False, standbys=0)
    for part in assign(attrs.evolve(state, rules=cold)).members.values():
        assert {*part.learner, *part.standby, *part.release, *part.pending} == set()
