"""A run in the background: how it is asked about, stopped, and raises what ended it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import StreamletError
from streamlet.hosting import run as run_module


class FakeRun:
    """Runs until it is asked to stop, or fails at once."""

    error: BaseException | None = None

    def __init__(self, app: Any) -> None:
        self.state, self.tasks = "RUNNING", ("0_0",)
        self.asked = threading.Event()
        self.given: dict[str, Any] = {}

    def run(self, **given: Any) -> list[Any]:
        self.given = given
        if self.error is not None:
            raise self.error
        assert self.asked.wait(60)
        return []

    def ask_to_stop(self, leave: bool = False) -> None:
        self.asked.set()


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> sl.App:
    monkeypatch.setattr(run_module, "Run", FakeRun)
    app = sl.App("background")
    app.stream("in", key=str, value=str).to("out")
    return app


def test_it_runs_until_it_is_stopped_and_can_be_started_again(app: sl.App) -> None:
    assert app.status.state == "CREATED"
    for _ in range(2):
        assert app.start(name="one", wait_for_broker=2) is app
        assert (app.status.state, app.status.tasks) == ("RUNNING", ("0_0",))
        for call in (app.start, app.run):
            with pytest.raises(StreamletError, match="background runs already in this process"):
                call()
        app.stop()
        assert app.status.state == "NOT_RUNNING"
        app.stop()  # again: nothing


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        *(({"wait_for_broker": one}, "time in seconds") for one in ("2s", True, float("nan"))),
        ({"wait_for_broker": float("inf")}, "inf is no time in seconds"),
        ({"name": 5}, r"name=\) expects text"),
        ({"metrics_port": "0"}, r"metrics_port=\) expects a whole number, got '0'"),
        ({"settings": {}}, r"settings=\) expects what load_settings\(\) gives"),
    ],
)
def test_nothing_is_started_with_an_argument_that_is_none(
    app: sl.App, wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        app.start(**wrong)
    app.stop()
    assert app.status.state == "CREATED"


def test_a_block_stops_it_at_its_end(app: sl.App) -> None:
    with app.start():
        assert app.status.state == "RUNNING"
    assert app.status.state == "NOT_RUNNING"


def test_what_ended_it_is_in_its_status_and_is_raised_once(
    app: sl.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = compile("def fail(run, **given): raise run.error", run_module.__file__, "exec")
    exec(ours, names := {})  # no line of the user's is in its traceback
    monkeypatch.setattr(FakeRun, "run", names["fail"])
    monkeypatch.setattr(FakeRun, "error", StreamletError("the disk is full"))
    app.start()
    for thread in threading.enumerate():
        if thread.name == "streamlet-background":
            thread.join(60)
    assert app.status.state == "ERROR"
    assert app.status.error == "StreamletError: the disk is full"
    with pytest.raises(StreamletError, match="the disk is full"):
        app.stop()
    app.stop()
    assert app.status.error == "StreamletError: the disk is full"
    with pytest.raises(KeyError), app.start():
        raise KeyError  # what the block itself raises is not hidden
