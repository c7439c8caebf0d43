"""What is said of a loop that stands still, and when."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator

import pytest

from streamlet import App
from streamlet.clock import ManualClock
from streamlet.runtime.watchdog import Watchdog, described, stack
from streamlet.testing import TopologyTestDriver

LIMIT_MS = 1_000


class Blocked:
    """A thread in a user's function, until it is let go."""

    def __init__(self) -> None:
        self.inside, self.over = threading.Event(), threading.Event()
        app = App("a")
        app.stream("in", key=str, value=int).map_values(self.wait, value=int).to("out")
        self._app = app
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        assert self.inside.wait(300)

    def wait(self, number: int) -> int:
        self.inside.set()
        self.over.wait(300)
        return number

    def _run(self) -> None:
        with TopologyTestDriver(self._app) as driver:
            driver.pipe_inputs("in", [("k", 1), ("k", 2)])


@pytest.fixture
def blocked() -> Iterator[Blocked]:
    made = Blocked()
    yield made
    made.over.set()
    made.thread.join()


def test_the_line_the_task_the_operator_and_the_records_are_named(blocked: Blocked) -> None:
    assert blocked.thread.ident is not None
    said = described(stack(sys._current_frames()[blocked.thread.ident]))
    line = Blocked.wait.__code__.co_firstlineno + 2
    assert f"test_watchdog.py:{line} in wait, `self.over.wait(300)`, task 0_0, " in said
    assert "operator KSTREAM-MAPVALUES-0000000001, records of in-0, offsets 0 to 1" in said


def test_outside_of_a_task_only_the_line_is_named() -> None:
    said = described(stack(sys._current_frames()[threading.get_ident()]))
    assert "test_watchdog.py" in said
    assert "task" not in said.replace("test_outside_of_a_task_only", "")


def test_a_loop_that_stands_still_is_reported_at_growing_intervals(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    watchdog = Watchdog(clock, LIMIT_MS)
    times = []
    with caplog.at_level(logging.WARNING):
        for _ in range(80):
            before = len(caplog.messages)
            clock.advance(100)
            watchdog.look()
            if len(caplog.messages) > before:
                times.append(clock.now_ms())
    assert times == [1_000, 2_000, 4_000, 8_000]
    assert all("max.poll.interval.ms = 1000" in line for line in caplog.messages)


def test_a_loop_that_goes_round_is_not_reported_and_one_that_does_again_is_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    watchdog = Watchdog(clock, LIMIT_MS)
    with caplog.at_level(logging.WARNING):
        for _ in range(50):
            clock.advance(900)
            watchdog.look()
            watchdog.beat()
        assert caplog.messages == []
        clock.advance(1_500)
        assert watchdog.look() == 1_500
        watchdog.beat()
        watchdog.beat()
    assert [line.startswith("the worker goes on, after 2 s") for line in caplog.messages] == [
        False,
        True,
    ]
    assert watchdog.look() == LIMIT_MS


@pytest.mark.parametrize("limit_ms", [LIMIT_MS, 2**63 - 1])  # Java's for no limit
def test_its_thread_ends_with_it(limit_ms: int) -> None:
    watchdog = Watchdog(ManualClock(), limit_ms)
    assert watchdog.look() / 1000 <= threading.TIMEOUT_MAX
    watchdog.start()
    watchdog.close()
    assert all(thread.name != "streamlet-watchdog" for thread in threading.enumerate())
