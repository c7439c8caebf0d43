"""``streamlet reset`` shows how far it is, and what Ctrl-C leaves behind."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from streamlet.admin.window import ApplicationInfo
from streamlet.config import Settings
from streamlet.reset import commands
from streamlet.reset.plan import ResetPlan, ResetResult
from streamlet.reset.start import StartPosition
from streamlet.tools import reset
from streamlet.tools.main import build
from streamlet.tools.output import CommandOutput

PLAN = ResetPlan("words", StartPosition("earliest"), 1, 0, 1, (), (), ())


class Screen(io.StringIO):
    """A terminal that keeps what was shown."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def run(monkeypatch: pytest.MonkeyPatch, work: Callable[..., object], *words: str) -> Result:
    """Run the command; ``work`` stands for all that it does on brokers."""

    def carry_out(
        known: object, start: object, ask: Callable[[ResetPlan], bool], **ways: Any
    ) -> ResetResult:
        done = not ways["dry_run"] and ask(PLAN)
        work(ways["progress"])
        return ResetResult(PLAN, done)

    info = ApplicationInfo("words", Settings.load())
    monkeypatch.setattr(reset, "scaled", lambda common, app: info)
    monkeypatch.setattr(commands, "reset", carry_out)
    return CliRunner().invoke(build(), ["reset", "words", *words])


def steps(progress: Callable[[str, int, int], None]) -> None:
    progress("deleting topics", 0, 2)
    progress("deleting topics", 1, 2)
    progress("making topics again", 0, 2)
    progress("making topics again", 2, 2)
    progress("setting positions", 0, 0)


def test_each_step_is_a_line_on_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = run(monkeypatch, steps, "--yes")
    assert plain.exit_code == 0, plain.stderr
    assert plain.stderr.endswith("\ndeleting topics: 2\nmaking topics again: 2\n")
    assert "topics: 2" not in plain.stdout
    as_json = run(monkeypatch, steps, "--yes", "--json")
    assert json.loads(as_json.stdout)["done"] is True


def test_a_terminal_shows_how_far_a_step_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen()
    steps(reset.ResetProgress(CommandOutput(False, io.StringIO(), screen), "", "").show)
    assert "deleting topics: 1 of 2 done" in screen.getvalue()


def test_ctrl_c_says_what_it_leaves_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_work(progress: Callable[[str, int, int], None]) -> None:
        progress("deleting topics", 0, 2)
        raise KeyboardInterrupt

    def planning(progress: object) -> None:
        raise KeyboardInterrupt

    stopped = run(monkeypatch, at_work, "--yes")
    assert stopped.exit_code == 130
    assert "The reset is unfinished" in stopped.stderr
    assert "give the same command again" in stopped.stderr
    early = run(monkeypatch, planning, "--dry-run", "--json")
    assert early.exit_code == 130
    assert json.loads(early.stdout)["error"]["message"] == "nothing was changed"
