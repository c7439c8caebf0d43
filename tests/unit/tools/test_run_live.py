"""The line that ``streamlet run`` keeps up to date: what it adds up, and where it is drawn."""

from __future__ import annotations

import io
import json

import pytest

from streamlet.runtime.metrics.values import Sample, Snapshot
from streamlet.tools.output import CommandOutput
from streamlet.tools.run_live import LiveLine
from streamlet.tools.run_progress import RunProgress


def snapshot(records: int, rate: float, tasks: int, *lags: int) -> Snapshot:
    return Snapshot(
        (
            Sample("streamlet_stream_thread_process_total", (), records),
            Sample("streamlet_stream_thread_process_rate", (), rate),
            Sample("streamlet_stream_thread_process_latency_seconds", (), [1.0, 2.0]),
            Sample("streamlet_stream_thread_tasks", ("active",), tasks),
            Sample("streamlet_stream_thread_tasks", ("standby",), 7),
            *(
                Sample("streamlet_consumer_fetch_manager_records_lag", ("0_0", "t", str(n)), lag)
                for n, lag in enumerate(lags)
            ),
        )
    )


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    return Screen()


def test_the_workers_values_are_added_up_those_that_ended_count_with_their_records() -> None:
    live = LiveLine(CommandOutput(as_json=False), "one")
    live.take(0, snapshot(1_000, 20.4, 2, 5, 6))
    live.take(1, snapshot(500, 10.0, 1))
    assert live.text == "one: 1,500 records, 30/s, lag 11, 3 tasks"
    live.ended(0)
    assert live.text == "one: 1,500 records, 10/s, lag unknown, 1 task"
    live.take(0, snapshot(1, 1.0, 2, 4))
    assert live.text == "one: 1,501 records, 11/s, lag 4, 3 tasks"


def test_a_terminal_shows_the_line_until_something_else_is_printed(screen: Screen) -> None:
    output = CommandOutput(as_json=False, out=(out := io.StringIO()), err=screen)
    output.status("first")
    output.status("second" * 20)
    output.note("a note")
    output.note("another")
    output.status("third")
    output.answer({}, "the answer")
    cut = ("second" * 20)[:59]
    assert screen.getvalue() == (
        f"\r\x1b[Kfirst\r\r\x1b[K{cut}\r\x1b[Ka note\nanother\n\r\x1b[Kthird\r\x1b[K"
    )
    assert out.getvalue() == "the answer\n"


def test_nothing_is_drawn_or_measured_for_a_pipe(screen: Screen) -> None:
    output = CommandOutput(as_json=False, err=(err := io.StringIO()))
    live = LiveLine(output, "one")
    live.take(0, snapshot(1, 1.0, 1))
    assert err.getvalue() == ""
    assert not live.shown
    assert LiveLine(CommandOutput(as_json=False, err=screen), "one").shown


def test_events_of_workers_reach_the_line(screen: Screen) -> None:
    output = CommandOutput(as_json=False, err=screen)
    progress = RunProgress(output, "app", "one", live := LiveLine(output, "one"))
    progress.event(0, snapshot(3, 1.0, 1, 2).to_event())
    assert "one: 3 records, 1/s, lag 2, 1 task" in screen.getvalue()
    progress.event(0, {"event": "exited", "exit_code": 0})
    assert live.text == "one: 3 records, 0/s, lag unknown, 0 tasks"


@pytest.mark.parametrize(("error", "named"), [("ProcessingError", True), ("BrokerError", False)])
def test_the_end_by_a_record_that_fails_names_what_may_be_done(error: str, named: bool) -> None:
    output = CommandOutput(as_json=True, out=(out := io.StringIO()), err=(err := io.StringIO()))
    progress = RunProgress(output, "app", "one", LiveLine(output, "one"))
    progress.event(0, {"event": "failed", "error": error, "message": "it failed"})
    progress.ended(1, False)
    found = json.loads(out.getvalue())["error"]
    assert ("on_error= of App" in found.get("hint", "")) == named
    assert ("on_error= of App" in err.getvalue()) == named
