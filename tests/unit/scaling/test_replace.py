"""Swapping hosts: the new ones are there as long as the old ones leave."""

from __future__ import annotations

import threading
from collections.abc import Callable

import attrs
import pytest

from streamlet.admin.window import ApplicationInfo
from streamlet.assignor.assign import assign
from streamlet.assignor.values import Copy, Role
from streamlet.config import Settings
from streamlet.control.values import MemberProgress, TaskProgress
from streamlet.errors import (
    NotFoundError,
    RefusedError,
    TimedOutError,
)
from streamlet.scaling.follow import ApplicationFollower
from streamlet.scaling.replace import Replacement
from streamlet.scaling.scale_down import ScaleDown, ScaleDownRequest
from streamlet.scaling.succession import SuccessorLostError
from tests.unit.scaling.group import member
from tests.unit.scaling.scene import NOTHING, THREE, Scene, Script


def swap(scene: Scene, *steps: Callable[[], object], **limits: float) -> list[str]:
    """What is said while h1 is replaced by h3, until it is given up or the steps are over."""
    wanted = Replacement(("h1",), ("h3",), **limits)
    command = ScaleDown(scene.cluster(), wanted.scale_down)
    plan = command.mark(command.plan())
    scene.report("h1", tasks="0_0")
    notes: list[str] = []
    cluster = attrs.evolve(command.window, stopped=Script(scene, list(steps)))
    check = wanted.succession(cluster, notes.append).look
    assert not ApplicationFollower(cluster, notes.append, check).until_left(plan, lambda _: None)
    return notes


def h3_gone(scene: Scene) -> Callable[[], object]:
    return lambda: setattr(scene.coordinator, "members", THREE[:2])


def h3_back(scene: Scene, key: str = "") -> Callable[[], object]:
    members = (*THREE[:2], member("h3", key=key))
    return lambda: setattr(scene.coordinator, "members", members)


def test_a_new_instance_that_is_gone_is_waited_for(scene: Scene) -> None:
    steps = [h3_gone(scene), NOTHING, h3_back(scene)]
    assert swap(scene, *steps) == [
        "h3 is gone; h1 keeps what it has until all are back",
        "h3 is back",
    ]


def test_a_new_instance_that_is_back_on_another_disk_is_named_in_the_marks(scene: Scene) -> None:
    swap(scene, h3_gone(scene), h3_back(scene, "process-h9"), NOTHING)
    assert scene.marks()["h1"].successors == ("process-h9",)


@pytest.mark.parametrize("limits", [{"join_timeout_ms": 1_000}, {"timeout_ms": 1_000}])
def test_a_new_instance_that_does_not_come_back_ends_the_swap(
    scene: Scene, limits: dict[str, float]
) -> None:
    with pytest.raises(
        SuccessorLostError, match="h3 is gone and did not come back in time"
    ) as lost:
        swap(scene, h3_gone(scene), *[NOTHING] * 4, **limits)
    assert lost.value.there == {"process-h1", "process-h2"}
    assert lost.value.exit_code == 4


def test_a_swap_that_is_given_up_takes_the_marks_back_and_says_who_has_the_tasks(
    scene: Scene,
) -> None:
    wanted = Replacement(("h1",), ("h3",))
    command = ScaleDown(scene.cluster(), wanted.scale_down)
    plan = command.mark(command.plan())
    scene.coordinator.members = THREE[:2]
    lost = SuccessorLostError("h3 is gone", frozenset({"process-h1", "process-h2"}))
    result = wanted.given_up(scene.cluster(), plan, lost)
    assert (result.done, result.problem) == (False, "h3 is gone; h1 stays")
    assert result.tasks == {"h1": 1, "h2": 1}
    assert scene.marks() == {}


def test_a_new_instance_that_is_gone_in_the_end_has_not_taken_over(scene: Scene) -> None:
    wanted = Replacement(("h1",), ("h3",))
    command = ScaleDown(scene.cluster(), wanted.scale_down)
    plan = command.mark(command.plan())
    scene.coordinator.members = (member("h2", "0_0 0_1 0_2"),)
    cluster = scene.cluster()
    result = wanted.checked(cluster, plan, ApplicationFollower(cluster, print))
    assert (result.done, result.problem) == (False, "h1 left, but h3 is gone")
    assert result.tasks == {"h2": 3}
    scene.coordinator.state = "Empty"
    result = wanted.checked(cluster, plan, ApplicationFollower(cluster, print))
    assert (result.done, result.tasks) == (False, {})


def checked(scene: Scene, *, own: bool = False) -> list[tuple[str, list[str]]]:
    """The rules that the check after a swap finds broken, with their tasks."""
    wanted = Replacement(("h1",), ("h3",))
    command = ScaleDown(scene.cluster(), wanted.scale_down)
    plan = command.plan()
    application = ApplicationInfo.of("flights", Settings.load(), None, assign if own else None)
    steps = Script(scene, [NOTHING])
    cluster = attrs.evolve(scene.cluster(), application=application, stopped=steps)
    result = wanted.checked(cluster, plan, ApplicationFollower(cluster, print))
    return [(one["rule"], one["tasks"]) for one in result.violations]


def test_the_check_in_the_end_sees_tasks_that_stand_still(scene: Scene) -> None:
    halted = TaskProgress("0_2", "active", "stopped", problem="out of range")
    said = MemberProgress("process-h3", 0, "h3-0", "id-h3-0", 1, generation=7, tasks=(halted,))
    scene.cluster().control.write(said)
    assert checked(scene) == [("T1", ["0_2"])]


def test_the_check_in_the_end_knows_an_assignor_of_the_applications_own(scene: Scene) -> None:
    learner = {"0_0": Copy(Role.LEARNER)}
    scene.coordinator.members = (
        member("h1", "0_0 0_3"),
        member("h2", copies=learner),
        member("h3", "0_1 0_2"),
    )
    assert checked(scene) == [("U6", ["0_0"])]
    assert checked(scene, own=True) == []


def test_a_swap_waits_for_the_new_ones_and_marks_nobody_without_them(scene: Scene) -> None:
    notes: list[str] = []

    class Joining(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            scene.coordinator.members = (*THREE, member("h4"))
            return False

    cluster = attrs.evolve(scene.cluster(), stopped=Joining())
    Replacement(("h1",), ("h4",)).await_new(cluster, notes.append)
    assert notes == ["waiting for h4 to join, for 300 s at most"]

    scene.stopped.set()
    with pytest.raises(TimedOutError, match="h5 did not join; nothing was marked"):
        Replacement(("h1",), ("h5",)).await_new(scene.cluster(), notes.append)
    with pytest.raises(NotFoundError, match="no instance is called h9"):
        Replacement(("h9",), ("h5",)).await_new(scene.cluster(), notes.append)
    scene.stopped.clear()
    scene.run(ScaleDownRequest(names=("h4",)))
    with pytest.raises(RefusedError, match="h4 is to leave itself"):
        Replacement(("h1",), ("h4",)).await_new(scene.cluster(), notes.append)
