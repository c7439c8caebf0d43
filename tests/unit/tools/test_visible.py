"""Nothing of others' names steers a terminal, whichever way it is printed."""

from __future__ import annotations

import ast
import io
import json
import logging
import sys
from pathlib import Path

import pytest
import typer
from rich.text import Text

import streamlet as sl
from streamlet.errors import NotFoundError
from streamlet.hosting.log import set_up_logging
from streamlet.testing import TopologyTestDriver
from streamlet.tools import output as outputs
from streamlet.tools.output import CommandOutput, table
from streamlet.tools.prompt import _confirmed
from streamlet.visible import visible, visible_json

#: Title, clear, 8-bit clear, delete, carriage return, bell, direction of text.
HOSTILE = "evil\x1b]0;title\x07\x1b[2J\x9b2J\x7f\r\x00\u202e\u2066end"
#: Its letters and digits stay.
LEFT = ("evil", "]0;title", "[2J", "end")
ROOT = Path(sl.__file__).parent


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def controls(text: str) -> set[str]:
    """What steers a terminal in a text, but the styles and the clearing of a line that are ours."""
    for own in ("\x1b[1;31m", "\x1b[1m", "\x1b[0m", "\x1b[K", "\n", "\r"):
        text = text.replace(own, "")
    return {one for one in text if not one.isprintable()}


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


def test_each_way_to_print_shows_control_characters(terminal: Terminal) -> None:
    def said(as_json: bool = False) -> CommandOutput:
        return CommandOutput(as_json, terminal, terminal)

    ways = [
        lambda: said().answer({}, table("NAME", rows=[(HOSTILE,)])),
        lambda: said().answer({}, HOSTILE),
        lambda: said().tick({}, Text(HOSTILE)),
        lambda: said(as_json=True).answer({"name": HOSTILE}),
        lambda: said().lines([HOSTILE]),
        lambda: said(as_json=True).lines([json.dumps(HOSTILE, ensure_ascii=False)]),
        lambda: said().note(HOSTILE),
        lambda: said().notes(table(HOSTILE, rows=[(1,)])),
        lambda: said().status(HOSTILE),
        lambda: said().failed(NotFoundError(HOSTILE), 3),
        lambda: said(as_json=True).failed(NotFoundError(HOSTILE), 3),
    ]
    for number, way in enumerate(ways):
        terminal.seek(0)
        terminal.truncate()
        way()
        written = terminal.getvalue()
        assert controls(written) == set(), (number, written)
        assert all(part in written for part in LEFT), (number, written)


def test_a_table_that_is_drawn_again_shows_them(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", terminal)
    drawn = outputs.live()
    assert drawn is not None
    drawn.update(table("NAME", rows=[(HOSTILE,)]), refresh=True)
    drawn.console.print(HOSTILE)
    written = terminal.getvalue()
    assert "\x1b[2J" not in written
    assert controls(written) <= {"\x1b"}, "its own cursor"


def test_a_cell_is_one_line() -> None:
    """Else a name could add rows to a table."""
    out = io.StringIO()
    CommandOutput(False, out).answer({}, table("NAME", rows=[("one\nmember-2  0_0",)]))
    assert [line.strip() for line in out.getvalue().splitlines()] == ["NAME", "one␤member-2  0_0"]


def test_a_pipe_gets_records_as_they_are_and_notes_without_controls() -> None:
    out, err = io.StringIO(), io.StringIO()
    CommandOutput(False, out, err).lines([HOSTILE])
    assert out.getvalue() == f"{HOSTILE}\n"
    CommandOutput(False, out, err).note(HOSTILE)
    assert controls(err.getvalue()) == set()


@pytest.mark.parametrize("as_json", [False, True])
def test_the_log_shows_them_also_in_tracebacks(
    capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    set_up_logging("info", as_json)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logging.getLogger("x").exception("from %s", HOSTILE)
    written = capsys.readouterr().err
    assert controls(written) == set()
    if as_json:
        assert HOSTILE in json.loads(written)["traceback"]


def test_a_question_shows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(typer, "confirm", lambda question, err: asked.append(question) or True)
    assert _confirmed(f"remove {HOSTILE}?", "nothing")
    assert controls(asked[0]) == set()


def test_an_application_that_prints_its_records_shows_them(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = sl.App("prints")
    app.stream("words", key=str, value=str).print("word")
    monkeypatch.setattr(sys, "stdout", terminal)
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("words", "k", HOSTILE)
    assert "evil" in terminal.getvalue()
    assert controls(terminal.getvalue()) == set()


def test_texts_keep_what_is_no_control() -> None:
    text = "Zürich\t日本語 😀 👩‍🚀 a\u00a0b\nnext"
    assert visible(text) == text
    assert visible_json(json.dumps({"a": HOSTILE}, ensure_ascii=False)).isprintable()
    assert json.loads(visible_json(json.dumps(HOSTILE, ensure_ascii=False))) == HOSTILE


def test_no_command_has_a_console_of_its_own() -> None:
    """So that what is added tomorrow keeps to it."""
    for file in ROOT.rglob("*.py"):
        text = file.read_text()
        if "from rich" not in text or file.name == "terminal.py":
            continue
        for call in ast.walk(ast.parse(text)):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                assert call.func.id != "Console", file
                if call.func.id in ("Live", "Progress"):
                    assert any(word.arg == "console" for word in call.keywords), file
