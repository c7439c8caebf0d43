"""Marks are set all at once or not at all, whoever else is at it."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, cast

import attrs
import pytest

from streamlet.clock import ManualClock
from streamlet.config import Settings
from streamlet.control.topic import ControlTopic, prepare_control
from streamlet.control.values import Mark
from streamlet.errors import BrokerError, NotFoundError, RefusedError, TimedOutError
from streamlet.group.describe import GroupDescription, MemberDescription
from streamlet.group.messages import Answer, Committed, OffsetFetch, OffsetFetchAnswer, Request
from streamlet.group.transport_errors import FailureKind, TransportError
from streamlet.scaling.cluster import Application, Cluster
from streamlet.scaling.progress import Progress
from streamlet.scaling.replace import Replacement
from streamlet.scaling.scale_down import Follower, ScaleDown, Wanted, cancel
from streamlet.testing.ports import MemoryAdmin, MemoryLog, MemorySink, MemorySource
from streamlet.types import TopicPartition
from tests.unit.scaling.group import ids, member

THREE = (member("h1", "0_0"), member("h2", "0_1"), member("h3", "0_2"))


def done(result: Any) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
    return future


@attrs.define
class Coordinator:
    """Answers as set."""

    members: tuple[MemberDescription, ...] = THREE
    state: str = "Stable"
    error: int = 0
    failure: Exception | None = None
    kind: str = "stream"

    def describe_group(self, group: str, timeout_ms: int) -> Future[GroupDescription]:
        if self.failure is not None:
            return done(self.failure)
        members = () if self.state in ("Dead", "Empty") else self.members
        return done(
            GroupDescription(group, self.state, self.kind, "streamlet-v1", members, self.error)
        )

    def ask(self, request: Request, timeout_ms: int) -> Future[Answer]:
        assert isinstance(request, OffsetFetch)
        text = '{"v":1,"epoch":1,"by":"id-h1-0","gen":7,"ends":{"changes":{"0":4}},"state":[1,1]}'
        found = {TopicPartition("in", 0): Committed(5, text, 0)}
        return done(OffsetFetchAnswer(0, found))

    def log_sizes(
        self, topics: Mapping[str, Sequence[int]], timeout_ms: int
    ) -> Future[dict[TopicPartition, int]]:
        return done({TopicPartition("changes", p): 100 * (p + 1) for p in topics["changes"]})


@attrs.define
class Scene:
    log: MemoryLog
    coordinator: Coordinator
    clock: ManualClock
    stopped: threading.Event

    def cluster(self) -> Cluster:
        """As one more command sees it."""
        admin = MemoryAdmin(self.log)
        source, sink = MemorySource(self.log), MemorySink(self.log)
        control = ControlTopic("flights", source, sink, admin, self.clock)
        application = Application("flights", Settings.load())
        transport = cast(Any, self.coordinator)
        return Cluster(application, transport, admin, control, self.stopped, self.clock)

    def marks(self) -> dict[str, Mark]:
        return {mark.name: mark for mark in self.cluster().control.read().marks.values()}

    def run(self, wanted: Wanted) -> list[str]:
        command = ScaleDown(self.cluster(), wanted)
        return [one.name for one in command.mark(command.plan()).leaving]


@pytest.fixture
def scene() -> Scene:
    log = MemoryLog()
    admin = MemoryAdmin(log)
    prepare_control(admin, "flights")
    log.create("changes", 3)
    log.create("in", 3)
    return Scene(log, Coordinator(), ManualClock(1_000), threading.Event())


def test_those_with_the_least_state_are_marked(scene: Scene) -> None:
    """Sizes come from the brokers: 0_0 is the smallest."""
    assert scene.run(Wanted(60)) == ["h1"]
    assert scene.marks() == {"h1": Mark("process-h1", 1_000, None, "h1")}


def test_a_time_limit_travels_with_the_mark(scene: Scene) -> None:
    scene.run(Wanted(names=("h2",), timeout_ms=500))
    assert scene.marks()["h2"].deadline_ms == 1_500
    scene.clock.advance(100)
    scene.run(Wanted(names=("h2",)))
    assert scene.marks()["h2"] == Mark("process-h2", 1_000, 1_500, "h2")
    scene.run(Wanted(names=("h2",), timeout_ms=10))
    assert scene.marks()["h2"] == Mark("process-h2", 1_000, 1_110, "h2")
    scene.run(Wanted(names=("h2",), timeout_ms=math.inf))
    assert scene.marks()["h2"] == Mark("process-h2", 1_000, None, "h2", unlimited=True)
    scene.run(Wanted(names=("h2",), timeout_ms=10))
    assert scene.marks()["h2"] == Mark("process-h2", 1_000, 1_110, "h2")


def test_the_same_again_marks_nobody_else(scene: Scene) -> None:
    assert scene.run(Wanted(60)) == scene.run(Wanted(60)) == ["h1"]
    assert list(scene.marks()) == ["h1"]


def test_a_second_command_that_planned_before_the_first_marked_adds_nothing(scene: Scene) -> None:
    first, second = (ScaleDown(scene.cluster(), Wanted(60)) for _ in range(2))
    plans = [first.plan(), second.plan()]
    # Meanwhile the sizes have turned: the second one would have chosen otherwise.
    second._sizes = {task: 100 - task.partition for task in ids("0_0 0_1 0_2")}
    assert [one.name for one in first.mark(plans[0]).leaving] == ["h1"]
    assert [one.name for one in second.mark(plans[1]).leaving] == ["h1"]
    assert list(scene.marks()) == ["h1"]


def test_a_group_that_changed_since_the_plan_was_shown_marks_nobody(scene: Scene) -> None:
    command = ScaleDown(scene.cluster(), Wanted(60))
    plan = command.plan()
    scene.coordinator.members = (member("h2", "0_0"), member("h1", "0_1"), member("h3", "0_2"))
    with pytest.raises(RefusedError, match=r"h2 would leave now\. Nothing was marked"):
        command.mark(plan)
    assert scene.marks() == {}


def test_who_is_told_to_stop_before_the_marks_are_written_writes_none(scene: Scene) -> None:
    command = ScaleDown(scene.cluster(), Wanted(60))
    plan = command.plan()
    scene.stopped.set()
    with pytest.raises(RefusedError, match="stopped before anybody was marked"):
        command.mark(plan)
    scene.stopped.clear()
    assert scene.marks() == {}


def test_marks_of_instances_that_are_gone_do_not_count(scene: Scene) -> None:
    scene.run(Wanted(60))
    scene.coordinator.members = (member("h2", "0_0 0_1"), member("h3", "0_2"))
    assert scene.run(Wanted(50)) == ["h3"]


def test_nothing_runs_nothing_is_marked(scene: Scene) -> None:
    for state, says in (("Dead", "no application"), ("Empty", "is not running")):
        scene.coordinator.state = state
        with pytest.raises(NotFoundError, match=says) as told:
            scene.run(Wanted(50))
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
        scene.run(Wanted(50))
    assert told.value.exit_code == 1
    scene.coordinator.failure = TransportError(FailureKind.UNSUPPORTED, "the broker is too old")
    with pytest.raises(BrokerError, match="too old") as told:
        scene.run(Wanted(50))
    assert told.value.exit_code == 2
    assert scene.marks() == {}


def test_without_its_control_topic_an_application_cannot_be_scaled(scene: Scene) -> None:
    MemoryAdmin(scene.log).delete_topics(["flights-streamlet-control"])
    with pytest.raises(BrokerError, match="flights-streamlet-control is not there or may not"):
        scene.run(Wanted(50))


def test_a_group_that_never_settles_is_given_up(scene: Scene) -> None:
    class Impatient(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            scene.clock.advance(10_000)
            return False

    scene.stopped = Impatient()
    scene.coordinator.state = "PreparingRebalance"
    with pytest.raises(TimedOutError, match="still in PreparingRebalance after 30 s; nothing"):
        scene.run(Wanted(50))


def test_cancelling_takes_all_marks_back_or_those_named(scene: Scene) -> None:
    scene.run(Wanted(names=("h1", "h2")))
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


def test_following_ends_when_all_have_left_though_the_broker_was_away(scene: Scene) -> None:
    command = ScaleDown(scene.cluster(), Wanted(60))
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
            else:
                scene.coordinator.failure = None
                scene.coordinator.members = (member("h2", "0_0 0_1"), member("h3", "0_2"))
            return False

    cluster = attrs.evolve(command.cluster, stopped=Turns())
    assert Follower(cluster, notes.append).until_left(plan, seen.append, None)
    assert notes == ["away; the marks hold meanwhile"]
    assert [found.left for found in seen] == [(), ("h1",)]


def test_the_last_word_of_new_owners_is_waited_for_but_not_for_long(scene: Scene) -> None:
    command = ScaleDown(scene.cluster(), Wanted(60))
    plan = command.mark(command.plan())
    seen: list[Progress] = []

    class Turns(threading.Event):
        """They have left at once; what they had is never said to run."""

        def wait(self, timeout: float | None = None) -> bool:
            scene.coordinator.members = (member("h2", "0_1"), member("h3", "0_2"))
            scene.clock.advance(500)
            return False

    cluster = attrs.evolve(command.cluster, stopped=Turns())
    since_ms = scene.clock.now_ms()
    assert Follower(cluster, print).until_left(plan, seen.append, None)
    assert [(found.left, found.moved) for found in seen] == [((), 0), (("h1",), 0)]
    assert scene.clock.now_ms() - since_ms == 500 + 2_000


def test_following_does_not_wait_for_ever_behind_a_deadline(scene: Scene) -> None:
    command = ScaleDown(scene.cluster(), Wanted(60, timeout_ms=1_000))
    plan = command.mark(command.plan())

    class Long(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            scene.clock.advance(50_000)
            return False

    cluster = attrs.evolve(command.cluster, stopped=Long())
    with pytest.raises(TimedOutError, match="h1 had to be gone by now and is not"):
        Follower(cluster, print).until_left(plan, lambda _: None, 2_000)


def test_a_swap_waits_for_the_new_ones_and_marks_nobody_without_them(scene: Scene) -> None:
    notes: list[str] = []

    class Joining(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            scene.coordinator.members = (*THREE, member("h4"))
            return False

    cluster = attrs.evolve(scene.cluster(), stopped=Joining())
    Replacement(("h1",), ("h4",)).await_new(cluster, notes.append)
    assert notes == ["waiting for h4 to join"]

    scene.stopped.set()
    with pytest.raises(TimedOutError, match="h5 did not join; nothing was marked"):
        Replacement(("h1",), ("h5",)).await_new(scene.cluster(), notes.append)
    with pytest.raises(NotFoundError, match="no instance is called h9"):
        Replacement(("h9",), ("h5",)).await_new(scene.cluster(), notes.append)
    scene.stopped.clear()
    scene.run(Wanted(names=("h4",)))
    with pytest.raises(RefusedError, match="h4 is to leave itself"):
        Replacement(("h1",), ("h4",)).await_new(scene.cluster(), notes.append)
