"""The start of an instance: workers that fail before they begin, and signals that come early."""

from __future__ import annotations

import errno
import os

import pytest

from streamlet.clock import SystemClock
from streamlet.hosting.fork_server import Launched
from streamlet.hosting.requests import HostRequests
from streamlet.hosting.supervisor import Supervisor
from tests.unit.hosting.test_supervisor import Events, drained, instance, launch


def test_a_fault_of_ours_is_logged_first_with_its_traceback_and_blames_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert instance(Events(), breaks="7").run() == 1
    said = [record.getMessage() for record in caplog.records if record.levelname != "INFO"]
    assert "fault of streamlet's own" in said[0]
    assert said[0].endswith("Traceback: a fault of ours, line 7")
    assert sum("Traceback" in line for line in said) == 1, "once, not at each restart"
    assert "(exit code 1 before it began" in said[1]
    assert "user code" not in caplog.text


def test_an_exit_before_the_beginning_blames_nobody(caplog: pytest.LogCaptureFixture) -> None:
    assert instance(Events(), never_begins=3).run() == 1
    assert "(exit code 3 before it began" in caplog.text
    assert "user code" not in caplog.text


@pytest.mark.parametrize("wish", ["asked", "drain"])
def test_signals_that_came_before_it_ran_are_obeyed(wish: str) -> None:
    """They came while the start waited for a broker."""
    earlier = HostRequests()
    getattr(earlier, wish).set()
    events = Events()
    running = Supervisor(
        launch,
        {},
        1,
        clock=SystemClock(),
        on_event=events,
        earlier=earlier,
    )
    assert running.run() == 0
    assert drained(events) == ([0] if wish == "drain" else [])
    assert len(events.ups()) == len(drained(events)), "a stop starts nothing"


def test_an_instance_without_a_free_file_descriptor_waits_with_a_workers_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events, refusals = Events(), [errno.EMFILE, errno.ENFILE, errno.EMFILE, errno.EMFILE]

    def crowded() -> Launched:
        if refusals:
            number = refusals.pop()
            raise OSError(number, os.strerror(number))
        return launch()

    running = instance(events, launch=crowded)
    events.react = lambda member, event: running.stop() if "up" in event else None
    assert running.run() == 0
    assert len(events.ups()) == 1
    assert caplog.text.count("worker 0 cannot start (Too many open files") == 4
