"""Marks are set all at once or not at all, whoever else is at it."""

from __future__ import annotations

import math
import threading

import pytest

from streamlet.control.values import Mark
from streamlet.coordinator.events import FailureKind
from streamlet.coordinator.ports import TransportError
from streamlet.errors import (
    BrokerError,
    NotFoundError,
    RefusedError,
    TimedOutError,
)
from streamlet.scaling.scale_down import ScaleDown, ScaleDownRequest, cancel
from streamlet.testing.memory_ports import MemoryAdmin
from streamlet.types import TopicPartition
from tests.unit.scaling.group import ids, member
from tests.unit.scaling.scene import Scene


def test_those_with_the_least_state_are_marked(scene: Scene) -> None:
    """Sizes come from the brokers: 0_0 is the smallest."""
    assert scene.run(ScaleDownRequest(60)) == ["h1"]
    assert scene.marks() == {"h1": Mark("process-h1", 1_000, None, "h1")}


def test_a_time_limit_travels_with_the_mark(scene: Scene) -> None:
    scene.run(ScaleDownRequest(names=("h2",), timeout_ms=500))
    assert scene.marks()["h2"].deadline_ms == 1_500
    scene.clock.advance(100)
    scene.run(ScaleDownRequest(names=("h2",)))
    assert scene.marks()["h2"] == Mark("process-h2", 1_000, 1_500, "h2")
    scene.run(ScaleDownRequest(names=("h2",), timeout_ms=10))
    assert scene.marks()["h2"] == Mark("process-h2", 1_000, 1_110, "h2")
    scene.run(ScaleDownRequest(names=("h2",), timeout_ms=math.inf))
    assert scene.marks()["h2"] == Mark("process-h2", 1_000, None, "h2", unlimited=True)
    scene.run(ScaleDownRequest(names=("h2",), timeout_ms=10))
    assert scene.marks()["h2"] == Mark("process-h2", 1_000, 1_110, "h2")


def test_the_same_again_marks_nobody_else(scene: Scene) -> None:
    assert scene.run(ScaleDownRequest(60)) == scene.run(ScaleDownRequest(60)) == ["h1"]
    assert list(scene.marks()) == ["h1"]


def test_a_second_command_that_planned_before_the_first_marked_adds_nothing(scene: Scene) -> None:
    first, second = (ScaleDown(scene.cluster(), ScaleDownRequest(60)) for _ in range(2))
    plans = [first.plan(), second.plan()]
    # Meanwhile the sizes have turned: the second one would have chosen otherwise.
    second._sizes = {task: 100 - task.partition for task in ids("0_0 0_1 0_2")}
    assert [one.name for one in first.mark(plans[0]).leaving] == ["h1"]
    assert [one.name for one in second.mark(plans[1]).leaving] == ["h1"]
    assert list(scene.marks()) == ["h1"]


def test_a_group_that_changed_since_the_plan_was_shown_marks_nobody(scene: Scene) -> None:
    command = ScaleDown(scene.cluster(), ScaleDownRequest(60))
    plan = command.plan()
    scene.coordinator.members = (member("h2", "0_0"), member("h1", "0_1"), member("h3", "0_2"))
    with pytest.raises(RefusedError, match=r"h2 would leave now\. Nothing was marked"):
        command.mark(plan)
    assert scene.marks() == {}


def test_who_is_told_to_stop_before_the_marks_are_written_writes_none(scene: Scene) -> None:
    command = ScaleDown(scene.cluster(), ScaleDownRequest(60))
    plan = command.plan()
    scene.stopped.set()
    with pytest.raises(RefusedError, match="stopped before an instance was marked"):
        command.mark(plan)
    scene.stopped.clear()
    assert scene.marks() == {}


def test_marks_of_instances_that_are_gone_do_not_count(scene: Scene) -> None:
    scene.run(ScaleDownRequest(60))
    scene.coordinator.members = (member("h2", "0_0 0_1"), member("h3", "0_2"))
    assert scene.run(ScaleDownRequest(50)) == ["h3"]


def test_nothing_runs_nothing_is_marked(scene: Scene) -> None:
    for state, says in (("Dead", "no application"), ("Empty", "is not running")):
        scene.coordinator.state = state
        with pytest.raises(NotFoundError, match=says) as told:
            scene.run(ScaleDownRequest(50))
        assert told.value.exit_code == 3
    assert scene.marks() == {}


def test_calling_back_where_nothing_runs_writes_nothing(scene: Scene) -> None:
    """Brokers may make a topic for whatever name is written to, and it would not be compacted."""
    scene.coordinator.state = "Dead"
    with pytest.raises(NotFoundError, match="no application"):
        cancel(scene.cluster(), ())
    assert scene.log.end(TopicPartition("flights-streamlet-control", 0)) == 0


def test_a_broker_that_refuses_or_is_too_old_is_told_with_its_exit_code(scene: Scene) -> None:
    scene.coordinator.error = 30
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED") as told:
        scene.run(ScaleDownRequest(50))
    assert told.value.exit_code == 1
    scene.coordinator.failure = TransportError(FailureKind.UNSUPPORTED, "the broker is too old")
    with pytest.raises(BrokerError, match="too old") as told:
        scene.run(ScaleDownRequest(50))
    assert told.value.exit_code == 2
    assert scene.marks() == {}


def test_without_its_control_topic_an_application_cannot_be_scaled(scene: Scene) -> None:
    MemoryAdmin(scene.log).delete_topics(["flights-streamlet-control"])
    with pytest.raises(BrokerError, match="flights-streamlet-control is not there or may not"):
        scene.run(ScaleDownRequest(50))


def test_a_group_that_never_settles_is_given_up(scene: Scene) -> None:
    class Impatient(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            scene.clock.advance(10_000)
            return False

    scene.stopped = Impatient()
    scene.coordinator.state = "PreparingRebalance"
    with pytest.raises(TimedOutError, match="still in PreparingRebalance after 30 s; nothing"):
        scene.run(ScaleDownRequest(50))


def test_cancelling_takes_all_marks_back_or_those_named(scene: Scene) -> None:
    scene.run(ScaleDownRequest(names=("h1", "h2")))
    result, back = cancel(scene.cluster(), ["h2"])
    assert ([one.name for one in back], result.leaving) == (["h2"], ("h1",))
    with pytest.raises(NotFoundError, match="no instance is called h7"):
        cancel(scene.cluster(), ["h1", "h7"])
    assert list(scene.marks()) == ["h1"]
    result, back = cancel(scene.cluster(), ())
    assert ([one.name for one in back], result.leaving, result.done) == (["h1"], (), False)
    result, back = cancel(scene.cluster(), ())
    assert (back, result.staying, result.done) == ((), ("h1", "h2", "h3"), True)
    assert scene.marks() == {}


def test_marks_of_a_swap_name_the_new_instances_until_another_command_says_otherwise(
    scene: Scene,
) -> None:
    scene.run(ScaleDownRequest(names=("h1",), successors=("h3",)))
    assert scene.marks()["h1"].successors == ("process-h3",)
    scene.run(ScaleDownRequest(names=("h2",)))
    assert scene.marks()["h1"].successors == ("process-h3",)
    scene.run(ScaleDownRequest(names=("h1",)))
    assert scene.marks()["h1"] == Mark("process-h1", 1_000, None, "h1")
