"""Commands that watch live through brokers that are away, up to their own time limit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs
import pytest

from streamlet.admin.window import ApplicationInfo, GroupWindow
from streamlet.clock import ManualClock
from streamlet.config import Settings
from streamlet.coordinator.events import FailureKind
from streamlet.coordinator.ports import TransportError
from streamlet.errors import NotFoundError, StreamletError, TimedOutError, UnreachableError
from streamlet.scaling import commands
from streamlet.scaling.commands import CommandPrompts
from streamlet.scaling.follow import ApplicationFollower
from streamlet.scaling.outages import outlast
from streamlet.scaling.replace import Replacement
from streamlet.scaling.scale_down import ScaleDown, ScaleDownRequest
from tests.unit.scaling.group import member
from tests.unit.scaling.scene import Scene, Script

AWAY = TransportError(FailureKind.TIMEOUT, "cannot reach it")


def away(scene: Scene, failure: StreamletError | None = AWAY) -> Callable[[], None]:
    return lambda: setattr(scene.coordinator, "failure", failure)


def left(scene: Scene) -> Callable[[], None]:
    """h1 is out, and h3 has its task."""

    def leave() -> None:
        scene.coordinator.members = (member("h2", "0_1"), member("h3", "0_2 0_0"))
        scene.end("h1")

    return leave


@pytest.fixture
def ask(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Callable[..., CommandPrompts]:
    """``ask(notes, steps)``: commands act on the scene; each pause of theirs is the next step."""

    def made(notes: list[str], *steps: Callable[[], object]) -> CommandPrompts:
        script = Script(scene, list(steps))

        @contextmanager
        def open_window(
            application: ApplicationInfo, purpose: str, stopped: threading.Event
        ) -> Iterator[GroupWindow]:
            yield attrs.evolve(scene.cluster(), application=application, stopped=script)

        monkeypatch.setattr(commands, "open_window", open_window)
        return CommandPrompts(note=notes.append, stopped=script)

    return made


FLIGHTS = ApplicationInfo("flights", Settings.load())
LEAVE = ScaleDownRequest(names=("h1",))


def test_a_scale_down_that_waits_plans_once_the_broker_answers(
    scene: Scene, ask: Callable[..., CommandPrompts]
) -> None:
    notes: list[str] = []
    scene.report("h1")
    away(scene)()
    ways = ask(notes, away(scene), away(scene), away(scene, None), left(scene))
    assert commands.scale_down(FLIGHTS, LEAVE, ways).done
    assert notes == ["cannot reach it; trying again"]


def test_one_that_does_not_wait_fails_at_once(
    scene: Scene, ask: Callable[..., CommandPrompts]
) -> None:
    notes: list[str] = []
    away(scene)()
    with pytest.raises(TransportError):
        commands.scale_down(FLIGHTS, LEAVE, ask(notes, away(scene)), wait=False)
    assert notes == []


@pytest.mark.parametrize(("timeout_ms", "tries"), [(None, 120), (3_000, 6)])
def test_it_gives_up_after_its_own_time_or_a_minute(
    scene: Scene, ask: Callable[..., CommandPrompts], timeout_ms: float | None, tries: int
) -> None:
    notes: list[str] = []
    away(scene)()
    since_ms = scene.clock.now_ms()
    wanted = attrs.evolve(LEAVE, timeout_ms=timeout_ms)
    with pytest.raises(TransportError, match="cannot reach it"):
        commands.scale_down(FLIGHTS, wanted, ask(notes, *[away(scene)] * 200))
    assert scene.clock.now_ms() - since_ms == tries * 500
    assert len(notes) == max(1, tries * 500 // 10_000), "a line every ten seconds"


def test_a_replace_goes_on_when_the_broker_is_back(
    scene: Scene, ask: Callable[..., CommandPrompts]
) -> None:
    """It is away while new instances are waited for, and again while the old one leaves."""
    notes: list[str] = []
    scene.report("h1")
    back = away(scene, None)
    away(scene)()
    ways = ask(notes, away(scene), back, away(scene), away(scene), back, left(scene))
    result = commands.replace(FLIGHTS, Replacement(("h1",), ("h3",)), ways)
    assert (result.done, result.tasks) == (True, {"h3": 2})
    assert notes == ["cannot reach it; trying again", "cannot reach it; the marks hold meanwhile"]


def test_a_cancel_that_waits_outlives_an_outage(
    scene: Scene, ask: Callable[..., CommandPrompts]
) -> None:
    scene.run(LEAVE)
    away(scene)()
    ways = ask([], away(scene), away(scene, None))
    assert commands.cancel_scale_down(FLIGHTS, (), ways).done
    assert scene.marks() == {}


def test_a_broker_that_stays_away_ends_the_watch_after_the_commands_own_time(
    scene: Scene,
) -> None:
    command = ScaleDown(scene.cluster(), attrs.evolve(LEAVE, timeout_ms=5_000))
    plan = command.mark(command.plan())
    away(scene)()
    cluster = attrs.evolve(command.window, stopped=Script(scene, [away(scene)] * 1_000))
    follower = ApplicationFollower(cluster, print, limit_ms=5_000)
    since_ms = scene.clock.now_ms()
    with pytest.raises(TimedOutError, match="no broker answers"):
        follower.until_left(plan, lambda _: None)
    assert scene.clock.now_ms() - since_ms == 5_000 + 60_000 + 500


def test_a_check_that_fails_for_a_while_is_made_again(scene: Scene) -> None:
    command = ScaleDown(scene.cluster(), LEAVE)
    plan = command.mark(command.plan())
    scene.report("h1")
    failures = iter([UnreachableError("no answer"), UnreachableError("no answer"), None])

    def check(_: object) -> None:
        if (failure := next(failures, None)) is not None:
            raise failure

    notes: list[str] = []
    steps = [lambda: None, lambda: None, lambda: None, left(scene)]
    cluster = attrs.evolve(command.window, stopped=Script(scene, steps))
    assert ApplicationFollower(cluster, notes.append, check).until_left(plan, lambda _: None)
    assert notes == ["no answer; trying again"]


def test_an_error_that_does_not_pass_is_raised_at_once() -> None:
    tries: list[None] = []

    def step() -> None:
        tries.append(None)
        raise NotFoundError("no such application")

    with pytest.raises(NotFoundError):
        outlast(step, None, note=print, clock=ManualClock(), stopped=threading.Event())
    assert len(tries) == 1


def test_a_stop_ends_the_tries() -> None:
    stopped = threading.Event()
    stopped.set()

    def step() -> None:
        raise AWAY

    with pytest.raises(TransportError):
        outlast(step, None, note=print, clock=ManualClock(), stopped=stopped)


def test_marks_are_still_known_where_the_control_topic_could_not_be_read(scene: Scene) -> None:
    """Without them an instance whose mark is unknown would count as one that stays."""
    scene.run(LEAVE)
    control = scene.cluster().control
    view = control.read()

    def fail(*_: object) -> None:
        raise UnreachableError("no answer")

    control._admin.end_offsets = fail  # type: ignore[assignment, method-assign]
    with pytest.raises(UnreachableError):
        control.read()
    assert control.view == view
    assert list(view.marks) == ["process-h1"]
