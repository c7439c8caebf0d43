"""Commands that change marks do so one at a time."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from streamlet.admin.window import ApplicationInfo, GroupWindow
from streamlet.bounded import TIME_MAX
from streamlet.clock import ManualClock
from streamlet.control.records import place_of
from streamlet.control.topic import ControlTopic, prepare_control
from streamlet.control.values import Command, Mark
from streamlet.errors import DeliveryError, RefusedError
from streamlet.scaling.command_lock import DEAD_MS, command_lock
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog, MemorySink, MemorySource


class Clocked(ManualClock):
    """A clock that each look moves on, as no wait of the topic's does here."""

    def now_ms(self) -> int:
        self.advance(1_000)
        return super().now_ms()


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    prepare_control(MemoryAdmin(log), "flights")
    return log


def topic(log: MemoryLog, clock: ManualClock) -> ControlTopic:
    return ControlTopic("flights", MemorySource(log), MemorySink(log), MemoryAdmin(log), clock)


def window(
    control: ControlTopic, clock: ManualClock, stopped: threading.Event | None = None
) -> GroupWindow:
    """The application as a command sees it that needs only the control topic."""
    unused: Any = None
    ways = unused, unused, lambda: control
    stopped = stopped or threading.Event()
    return GroupWindow(ApplicationInfo("flights"), *ways, stopped=stopped, clock=clock)


def commands(log: MemoryLog) -> list[str]:
    """What commands there are, for people, as another reader sees it."""
    view = topic(log, ManualClock()).read()
    return [command.what for command in view.commands.values()]


def test_a_turn_is_announced_and_taken_back(log: MemoryLog) -> None:
    clock = Clocked()
    with command_lock(window(topic(log, clock), clock), "scale-down"):
        assert commands(log) == ["scale-down"]
    assert commands(log) == []


def test_it_is_taken_back_also_when_the_command_fails(log: MemoryLog) -> None:
    clock = Clocked()
    with (
        pytest.raises(RefusedError),
        command_lock(window(topic(log, clock), clock), "scale-down"),
    ):
        raise RefusedError("no")
    assert commands(log) == []


def test_who_comes_second_is_told_of_the_first(log: MemoryLog) -> None:
    clock = ManualClock()
    with command_lock(window(topic(log, clock), clock), "scale-down on h7"):
        told_to_stop = threading.Event()
        told_to_stop.set()
        with (
            pytest.raises(RefusedError, match="another command is running: scale-down on h7"),
            command_lock(window(topic(log, clock), clock, told_to_stop), "replace"),
        ):
            pytest.fail("two at once")
        assert commands(log) == ["scale-down on h7"]


def test_who_comes_second_gets_its_turn_after_the_first(log: MemoryLog) -> None:
    clock = ManualClock()
    first = command_lock(window(topic(log, clock), clock), "scale-down")
    first.__enter__()
    order: list[str] = []

    def second() -> None:
        with command_lock(window(topic(log, clock), clock), "replace"):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    while "replace" not in commands(log):
        pass
    order.append("first")
    first.__exit__(None, None, None)
    thread.join(300)
    assert order == ["first", "second"]


def test_a_command_that_died_in_its_turn_is_passed_over(log: MemoryLog) -> None:
    clock = ManualClock(start_ms=1_000_000)
    dead = Command("dead", "scale-down", 1_000_000 - DEAD_MS)
    other = topic(log, clock)
    other.write(dead)
    other.flush()
    with command_lock(window(topic(log, clock), clock), "replace"):
        pass
    assert commands(log) == []
    assert place_of(dead) == (Command, "dead")


def test_a_command_of_a_host_whose_clock_is_ahead_blocks_no_others_for_ever(log: MemoryLog) -> None:
    clock = Clocked()
    other = topic(log, clock)
    other.write(*(Command(f"ahead {n}", "scale-down", TIME_MAX) for n in range(10)))
    other.flush()
    with command_lock(window(topic(log, clock), clock), "replace"):
        assert commands(log) == ["replace"]
    assert clock.now_ms() > DEAD_MS


def opened(log: MemoryLog) -> tuple[ControlTopic, MemorySink, ManualClock]:
    """A topic over a producer whose records wait until they are flushed."""
    clock, sink = Clocked(), MemorySink(log, hold=True)
    return ControlTopic("flights", MemorySource(log), sink, MemoryAdmin(log), clock), sink, clock


def test_what_could_not_be_delivered_in_a_turn_is_not_delivered_after_it(log: MemoryLog) -> None:
    """The operator is told that it was not."""
    control, sink, clock = opened(log)

    def flush(timeout_ms: int) -> None:
        sink.flush = deliver  # type: ignore[method-assign]
        raise DeliveryError("1 records still undelivered after 15000 ms")

    deliver = sink.flush

    def marking() -> None:
        with command_lock(window(control, clock), "scale-down"):
            control.write(Mark("h1", 1))
            sink.flush = flush  # type: ignore[method-assign]
            control.flush()

    with pytest.raises(DeliveryError, match=r"still undelivered.*may have taken it all the same"):
        marking()
    view = topic(log, ManualClock()).read()
    assert (dict(view.marks), dict(view.commands)) == ({}, {})


def test_what_was_done_in_a_turn_stands_though_its_end_cannot_be_told(
    log: MemoryLog, caplog: pytest.LogCaptureFixture
) -> None:
    control, sink, clock = opened(log)
    with command_lock(window(control, clock), "scale-down"):
        control.write(Mark("h1", 1))
        control.flush()
        sink.fail("the broker is away")
    assert "other commands wait for 30 s: the broker is away" in caplog.text
    assert commands(log) == ["scale-down"]
    assert topic(log, ManualClock()).read().marks.keys() == {"h1"}
