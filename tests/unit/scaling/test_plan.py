"""What a scale-down will do, worked out from what the group says."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from streamlet.admin.snapshot import GroupSnapshot
from streamlet.assignor.values import Copy, Leaving, Role, Rules
from streamlet.control.values import MemberProgress, TaskProgress
from streamlet.scaling.leavers import Burden
from streamlet.scaling.plan import (
    AROUND_S,
    HANDOVER_S,
    RESTORE_BYTES_PER_S,
    ScaleDownPlan,
    burdens,
    make_plan,
)
from streamlet.scaling.present import owners, present
from streamlet.scaling.scale_down import ScaleDownResult
from streamlet.types import TaskId
from tests.unit.assignor.cluster import Cluster, Model
from tests.unit.scaling.group import group, ids, member

NOW_MS = 1_000_000


def plan(
    live: GroupSnapshot,
    *leaving: str,
    sizes: Mapping[TaskId, int] | None = None,
    rules: Rules | None = None,
) -> ScaleDownPlan:
    marks = {f"process-{name}": Leaving(NOW_MS) for name in leaving}
    state = present(live, rules or Rules(), NOW_MS, marks)
    return make_plan(state, live.instances, sizes or {}, share=0.5)


def test_the_tasks_of_those_that_leave_move_and_no_others() -> None:
    live = group(
        member("h1", "0_0 0_1 1_0"), member("h2", "0_2 0_3 1_1"), member("h3", "0_4 0_5 1_2")
    )
    sizes = {TaskId(0, n): 1_000 * (n + 1) for n in range(6)}
    found = plan(live, "h3", sizes=sizes)
    assert [one.name for one in found.leaving] == ["h3"]
    assert [one.name for one in found.staying] == ["h1", "h2"]
    assert [(str(m.task), m.source, m.bytes) for m in found.moves] == [
        ("0_4", "h3-0", 5_000),
        ("0_5", "h3-0", 6_000),
    ]
    assert {m.target for m in found.moves} == {"h1-0", "h2-0"}
    assert found.stateless == 1
    assert found.bytes == 11_000


def test_the_leader_leaves_like_anybody() -> None:
    live = group(member("h1", "0_0 0_1"), member("h2", "0_2 0_3"))
    assert {m.target for m in plan(live, "h1").moves} == {"h2-0"}


def test_a_standing_copy_takes_its_task_over_at_no_cost() -> None:
    live = group(
        member("h1", "0_0", standby=ids("0_2")),
        member("h2", "0_1", standby=ids("0_0")),
        member("h3", "0_2", standby=ids("0_1")),
    )
    found = plan(live, "h3", sizes={TaskId(0, 2): 500}, rules=Rules(standbys=1))
    assert [(m.target, m.bytes) for m in found.moves] == [("h1-0", 0)]


def test_a_learner_that_is_at_it_stays_the_target() -> None:
    live = group(
        member("h1", "0_0"),
        member("h2", "0_1"),
        member("h3", "0_2 0_3", being_learned=ids("0_2")),
        member("h4", copies={"0_2": Copy(Role.LEARNER, lag=9)}, learner=ids("0_2")),
    )
    found = plan(live, "h3")
    assert {str(m.task): m.target for m in found.moves}["0_2"] == "h4-0"


def test_a_task_without_state_that_was_given_up_has_none() -> None:
    released = {"1_0": Copy(Role.RELEASED, ready=True, lag=0)}
    live = group(member("h1", "0_0", copies=released), member("h2", "1_0"))
    state = present(live, Rules(), NOW_MS, {})
    assert {str(info.task): info.stateful for info in state.tasks} == {"0_0": True, "1_0": False}


def test_a_task_handed_over_since_belongs_to_its_new_owner() -> None:
    live = group(
        member("h1", "0_0", release={TaskId(0, 1): "id-h2-0"}),
        member("h2", "0_2", pending={TaskId(0, 1): "id-h1-0"}),
    )
    state = present(live, Rules(), NOW_MS, {})
    assert {str(t): m.member_id for t, m in owners(state).items()} == {
        "0_0": "id-h1-0",
        "0_1": "id-h2-0",
        "0_2": "id-h2-0",
    }


def test_a_task_goes_back_to_the_member_that_gave_it_up_last() -> None:
    """The group knows the lag of older copies, and none of those that were the task until then."""
    first, second = TaskId(0, 0), TaskId(0, 1)
    active, old = Copy(Role.ACTIVE), Copy(Role.DORMANT, lag=9)
    live = group(
        member(
            "h1",
            "0_2",
            copies={"0_0": active, "0_1": old, "0_2": active},
            release={first: "id-h3-0"},
        ),
        member(
            "h2",
            "0_3",
            copies={"0_0": old, "0_1": active, "0_3": active},
            release={second: "id-h3-0"},
        ),
        member("h3", pending={first: "id-h1-0", second: "id-h2-0"}),
    )
    assert {m.task: m.target for m in plan(live, "h3").moves} == {first: "h1-0", second: "h2-0"}


def test_copies_count_as_their_members_report_them() -> None:
    live = group(
        member("h1", "0_1", copies={"0_0": Copy(Role.STANDBY, lag=9)}, standby=ids("0_0")),
        member("h2", "0_2", standby=ids("0_0")),
    )

    def copies(**reports: TaskProgress) -> list[Copy]:
        said = [
            MemberProgress(f"process-{name}", 0, f"{name}-0", "", 0, tasks=(report,))
            for name, report in reports.items()
        ]
        state = present(live, Rules(), NOW_MS, {}, {one.key: one for one in said})
        return [m.copies[TaskId(0, 0)] for m in state.members]

    unreported = [Copy(Role.STANDBY, lag=9), Copy(Role.STANDBY, ready=True, lag=0)]
    assert copies() == unreported
    assert copies(
        h1=TaskProgress("0_0", "standby", "ready", lag=1),
        h2=TaskProgress("0_0", "standby", "learning", lag=7),
    ) == [Copy(Role.STANDBY, ready=True, lag=1), Copy(Role.STANDBY, lag=7)]
    assert copies(h1=TaskProgress("0_0", "active", "running", lag=3)) == unreported


def test_the_band_is_the_one_that_the_members_say() -> None:
    live = group(member("h1", "0_0", imbalance=0.7), member("h2", "0_1"))
    state = present(live, Rules(imbalance=0.1, standbys=2), NOW_MS, {})
    assert state.rules == Rules(imbalance=0.7, standbys=2)


def test_all_may_leave_and_then_nobody_gets_anything() -> None:
    live = group(member("h1", "0_0"), member("h2", "0_1"))
    found = plan(live, "h1", "h2")
    assert [m.target for m in found.moves] == [None, None]


def test_in_a_group_without_learners_targets_are_not_known() -> None:
    live = group(member("h1", "0_0"), member("h2", "0_1"))
    found = plan(live, "h2", rules=Rules(learners=False))
    assert [m.target for m in found.moves] == [None]


def test_budgets_do_not_hide_moves() -> None:
    tasks = " ".join(f"0_{n}" for n in range(40))
    live = group(member("h1", tasks), member("h2"), member("h3"))
    tight = Rules(max_learners_group=1, max_learners_member=1, max_learners_source=1, max_moves=1)
    found = plan(live, "h1", rules=tight)
    assert len(found.moves) == 40
    assert all(move.target for move in found.moves)


def test_the_estimate_is_that_of_the_busiest_target() -> None:
    live = group(member("h1", "0_0"), member("h2", "0_1 0_2"))
    found = plan(live, "h2", sizes=dict.fromkeys(ids("0_0 0_1 0_2"), RESTORE_BYTES_PER_S))
    assert found.estimate_s == AROUND_S + 2 * (1 / 0.5 + HANDOVER_S)
    assert plan(live).estimate_s == 0


def test_the_document_is_as_promised() -> None:
    live = group(member("h1", "0_0"), member("h2", "0_1"))
    found = ScaleDownResult.of(plan(live, "h2", sizes={TaskId(0, 1): 7}), done=False)
    assert found.as_dict() == {
        "leaving": ["h2"],
        "staying": ["h1"],
        "moves": [{"task": "0_1", "from": "h2-0", "to": "h1-0", "bytes": 7}],
        "estimate_s": pytest.approx(AROUND_S + HANDOVER_S, abs=0.1),
        "done": False,
    }


def test_burdens_are_what_others_need() -> None:
    live = group(
        member("h1", "0_0 1_0", standby=ids("0_1")),
        member("h2", "0_1", number=0),
        member("h2", "0_2", number=1),
    )
    sizes = {TaskId(0, n): n + 1 for n in range(3)}
    assert burdens(present(live, Rules(), NOW_MS, {}), sizes) == {
        "process-h1": Burden({TaskId(0, 0): 1}, {TaskId(0, 1): 2}),
        "process-h2": Burden({TaskId(0, 1): 2, TaskId(0, 2): 3}),
    }


def played_out(live: GroupSnapshot, leaving: str) -> dict[TaskId, str]:
    """The instance that each task ends at when rounds are played with the usual budgets."""
    state = present(live, Rules(), NOW_MS, {f"process-{leaving}": Leaving(NOW_MS)})
    cluster = Cluster({info.task: info for info in state.tasks}, generation=state.generation)
    for one in state.members:
        cluster.members[one.member_id] = Model(
            one.member_id,
            one.instance,
            one.number,
            copies=dict(one.copies),
            leaving=one.leaving,
            joined_generation=one.joined_generation,
        )
    cluster.settle()
    assert cluster.exited == [f"process-{leaving}"]
    return cluster.owners()


@pytest.mark.parametrize("leaving", ["h1", "h2", "h3", "h4"])
def test_the_group_ends_as_planned(leaving: str) -> None:
    live = group(
        *(member(f"h{n + 1}", " ".join(f"0_{6 * n + i}" for i in range(6))) for n in range(4))
    )
    planned = {m.task: m.target for m in plan(live, leaving).moves}
    end = played_out(live, leaving)
    assert len(planned) == 6
    assert planned == {task: f"{end[task].removeprefix('process-')}-0" for task in planned}
