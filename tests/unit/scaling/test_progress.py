"""How far a scale-down is, from the group and the control topic."""

from __future__ import annotations

from streamlet.admin.snapshot import GroupSnapshot
from streamlet.assignor.values import Leaving, Rules
from streamlet.control.values import MemberKey, MemberProgress, TaskProgress
from streamlet.control.view import ControlView
from streamlet.scaling.plan import ScaleDownPlan, make_plan
from streamlet.scaling.present import present
from streamlet.scaling.progress import MoveProgress, Progress, progress
from streamlet.types import TaskId
from tests.unit.scaling.group import group, ids, member

BEFORE = group(member("h1", "0_0"), member("h2", "0_1"), member("h3", "0_2 0_3"))


def planned() -> ScaleDownPlan:
    state = present(BEFORE, Rules(), 0, {"process-h3": Leaving(0)})
    return make_plan(state, BEFORE.instances, {})


def said(name: str, *tasks: TaskProgress) -> MemberProgress:
    return MemberProgress(f"process-{name}", 0, f"{name}-0", f"id-{name}-0", 5, tasks=tasks)


def view(*entries: MemberProgress) -> ControlView:
    return ControlView(progress={MemberKey(one.instance, one.number): one for one in entries})


def at(live: GroupSnapshot = BEFORE, *entries: MemberProgress) -> Progress:
    return progress(planned(), live, view(*entries))


def stages(found: Progress) -> dict[str, tuple[str | None, str]]:
    return {str(step.task): (step.target, step.stage) for step in found.steps}


def test_before_anything_happens_tasks_wait_for_their_planned_owners() -> None:
    found = at()
    assert stages(found) == {str(move.task): (move.target, "queued") for move in planned().moves}
    assert found.leaving == ("h3",)
    assert not found.done


def test_members_say_how_far_a_copy_is() -> None:
    task = TaskProgress("0_2", "learner", "learning", 60, 40, 100, 20.0, 3.0)
    found = at(BEFORE, said("h1", task))
    assert found.steps[0] == MoveProgress(
        TaskId(0, 2), "h3-0", "h1-0", "learning", 40, 100, 20.0, 3.0
    )


def test_a_task_goes_through_its_stages_wherever_it_goes() -> None:
    for role, stage, shown in (
        ("learner", "ready", "ready"),
        ("pending", "waiting", "ordered"),
        ("active", "restoring", "restoring"),
        ("active", "running", "active"),
    ):
        found = at(BEFORE, said("h2", TaskProgress("0_3", role, stage)))
        assert stages(found)["0_3"] == ("h2-0", shown)
    assert found.moved == 1


def test_what_the_leaver_says_of_itself_moves_nothing() -> None:
    found = at(BEFORE, said("h3", TaskProgress("0_3", "active", "running")))
    assert found.moved == 0


def test_of_several_that_have_a_task_the_furthest_counts() -> None:
    found = at(
        BEFORE,
        said("h1", TaskProgress("0_3", "active", "running")),
        said("h2", TaskProgress("0_3", "learner", "learning")),
    )
    assert stages(found)["0_3"] == ("h1-0", "active")


def test_without_a_word_members_do_what_they_were_told() -> None:
    live = group(
        member("h1", "0_0", pending={TaskId(0, 2): "id-h3-0"}),
        member("h2", "0_1", learner=ids("0_3")),
        member("h3", "0_3", release={TaskId(0, 2): "id-h1-0"}),
    )
    assert stages(at(live)) == {"0_2": ("h1-0", "ordered"), "0_3": ("h2-0", "learning")}


def test_one_has_left_when_neither_group_nor_topic_knows_it() -> None:
    after = group(member("h1", "0_0 0_2"), member("h2", "0_1 0_3"))
    assert not at(after, said("h3")).done  # its worker may be starting anew
    found = at(after)
    assert found.done
    assert found.left == ("h3",)
    assert found.moved == 2


def test_where_nobody_is_left_the_group_alone_counts() -> None:
    state = present(BEFORE, Rules(), 0, {f"process-h{n}": Leaving(0) for n in (1, 2, 3)})
    plan = make_plan(state, BEFORE.instances, {})
    found = progress(plan, group(state="Empty"), view(said("h1"), said("h3")))
    assert found.left == ("h1", "h2", "h3")
