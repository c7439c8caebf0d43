"""Following instances on their way out: when they have left, and when they will not."""

from __future__ import annotations

import threading
from collections.abc import Callable

import attrs
import pytest

from streamlet.control.topic import ControlTopic
from streamlet.errors import (
    BrokerError,
    TimedOutError,
    WithdrawnError,
)
from streamlet.scaling.follow import ApplicationFollower
from streamlet.scaling.progress import Progress
from streamlet.scaling.scale_down import ScaleDown, ScaleDownRequest
from tests.unit.scaling.group import member
from tests.unit.scaling.scene import NOTHING, THREE, Scene, Script


def test_following_ends_when_all_have_left_though_the_broker_was_away(scene: Scene) -> None:
    command = ScaleDown(scene.cluster(), ScaleDownRequest(60))
    plan = command.mark(command.plan())
    seen: list[Progress] = []
    notes: list[str] = []

    class Turns(threading.Event):
        """Each wait is the next thing that happens."""

        turns = 0

        def wait(self, timeout: float | None = None) -> bool:
            self.turns += 1
            if self.turns == 1:
                scene.coordinator.failure = BrokerError("away")
                scene.report("h1")
            elif self.turns == 2:
                scene.coordinator.failure = None
            else:
                scene.end("h1")
                scene.coordinator.failure = None
                scene.coordinator.members = (member("h2", "0_0 0_1"), member("h3", "0_2"))
            return False

    cluster = attrs.evolve(command.window, stopped=Turns())
    assert ApplicationFollower(cluster, notes.append).until_left(plan, seen.append)
    assert notes == ["away; the marks hold meanwhile"]
    assert [found.left for found in seen] == [(), ("h1",)]


def test_the_last_word_of_new_owners_is_waited_for_but_not_for_long(scene: Scene) -> None:
    command = ScaleDown(scene.cluster(), ScaleDownRequest(60))
    plan = command.mark(command.plan())
    seen: list[Progress] = []

    class Turns(threading.Event):
        """They have left at once; what they had is never said to run."""

        def wait(self, timeout: float | None = None) -> bool:
            scene.coordinator.members = (member("h2", "0_1"), member("h3", "0_2"))
            scene.end("h1")
            scene.clock.advance(500)
            return False

    scene.report("h1")
    cluster = attrs.evolve(command.window, stopped=Turns())
    since_ms = scene.clock.now_ms()
    assert ApplicationFollower(cluster, print).until_left(plan, seen.append)
    assert [(found.left, found.moved) for found in seen] == [((), 0), (("h1",), 0)]
    assert scene.clock.now_ms() - since_ms == 500 + 2_000


def test_following_does_not_wait_for_ever_behind_a_deadline(scene: Scene) -> None:
    command = ScaleDown(scene.cluster(), ScaleDownRequest(60, timeout_ms=1_000))
    plan = command.mark(command.plan())

    class Long(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            scene.clock.advance(50_000)
            return False

    cluster = attrs.evolve(command.window, stopped=Long())
    with pytest.raises(TimedOutError, match="h1 had to be gone by now and is not"):
        ApplicationFollower(cluster, print).until_left(plan, lambda _: None)


def gone(scene: Scene) -> None:
    scene.end("h1")
    scene.coordinator.members = THREE[1:]


def follow(scene: Scene, *steps: Callable[[], object]) -> tuple[bool, list[str]]:
    """Whether h1 has left after these steps, and the notes meanwhile."""
    command = ScaleDown(scene.cluster(), ScaleDownRequest(names=("h1",)))
    plan = command.mark(command.plan())
    scene.report("h1", tasks="0_0")
    notes: list[str] = []
    cluster = attrs.evolve(command.window, stopped=Script(scene, list(steps)))
    return ApplicationFollower(cluster, notes.append).until_left(plan, lambda _: None), notes


STAYS = (
    "h1 stays: its mark was removed, because the scale-down was cancelled or the instance was "
    "started again"
)
ENDED = "h1 ended before it had handed over its tasks; others restore them"


def test_a_mark_that_is_gone_while_its_instance_is_there_ends_the_watch(scene: Scene) -> None:
    with pytest.raises(WithdrawnError, match=STAYS) as told:
        follow(scene, lambda: scene.unmark("h1"))
    assert told.value.exit_code == 1


def test_a_mark_that_was_just_written_is_not_taken_for_gone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client needs a moment to fetch records: a look that does not wait sees none of them."""
    scene.report("h1", tasks="0_0")
    monkeypatch.setattr(ControlTopic, "follow", _only_waiting(ControlTopic.follow))
    assert follow(scene, NOTHING, NOTHING) == (False, [])


def _only_waiting(
    follow: Callable[[ControlTopic, int], bool],
) -> Callable[[ControlTopic, int], bool]:
    return lambda topic, timeout_ms: follow(topic, timeout_ms) if timeout_ms else False


def test_an_instance_that_is_started_again_at_once_has_not_left(scene: Scene) -> None:
    """It stopped in peace, with a task; for a moment nothing is there of it."""

    def back() -> None:
        scene.coordinator.members = THREE
        scene.report("h1", leaving=False)

    steps = [lambda: gone(scene), NOTHING, NOTHING, lambda: scene.unmark("h1"), NOTHING, back]
    with pytest.raises(WithdrawnError, match=STAYS):
        follow(scene, *steps)


def test_an_instance_that_ended_with_tasks_was_cut_short(scene: Scene) -> None:
    with pytest.raises(WithdrawnError, match=ENDED):
        follow(scene, lambda: gone(scene), *[NOTHING] * 32)


def test_an_instance_that_removed_its_mark_and_stays_away_has_left(scene: Scene) -> None:
    """Its last report came between two looks."""
    steps = [lambda: (gone(scene), scene.unmark("h1")), *[NOTHING] * 40]
    assert follow(scene, *steps) == (True, [])


def test_one_that_reported_that_it_runs_nothing_has_left_at_once(scene: Scene) -> None:
    steps = [lambda: scene.report("h1"), lambda: gone(scene), *[NOTHING] * 5]
    assert follow(scene, *steps) == (True, [])


def test_those_that_leave_as_asked_are_awaited_though_another_one_stays(scene: Scene) -> None:
    command = ScaleDown(scene.cluster(), ScaleDownRequest(names=("h1", "h2")))
    plan = command.mark(command.plan())
    for name in ("h1", "h2"):
        scene.report(name)

    def h2_left() -> None:
        scene.end("h2")
        scene.coordinator.members = (THREE[0], THREE[2])

    steps = [lambda: scene.unmark("h1"), NOTHING, h2_left]
    cluster = attrs.evolve(command.window, stopped=Script(scene, steps))
    notes: list[str] = []
    with pytest.raises(WithdrawnError) as told:
        ApplicationFollower(cluster, notes.append).until_left(plan, lambda _: None)
    assert str(told.value) == f"{STAYS}; h2 left"
    assert notes == [STAYS]
