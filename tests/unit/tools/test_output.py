"""Tables for people: whole in a pipe, folded in a terminal."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import sys
from contextlib import closing

import pytest
from rich.text import Text

from streamlet.terminal import console
from streamlet.tools.output import CommandOutput, table
from tests.terminals import Terminal

PATH = "/var/lib/" + "/".join(f"folder-{number}" for number in range(20))

PROGRAM = f"""
from streamlet.tools.output import CommandOutput, table
CommandOutput(as_json=False).answer({{}},
    table("BROKER", "DATA", rows=[("localhost:9092", {PATH!r})]))
"""


@pytest.mark.parametrize("as_note", [False, True])
def test_a_pipe_gets_whole_paths_in_one_line(as_note: bool) -> None:
    out, err = io.StringIO(), io.StringIO()
    output = CommandOutput(as_json=False, out=out, err=err)
    shown = table("BROKER", "DATA", rows=[("localhost:9092", PATH)])
    if as_note:
        output.notes(shown)
    else:
        output.answer({}, shown)
    head, row = (err if as_note else out).getvalue().splitlines()
    assert (head.split(), row.split()) == (["BROKER", "DATA"], ["localhost:9092", PATH])


def test_a_terminal_gets_whole_paths_in_several_lines() -> None:
    with closing(Terminal(["-c", PROGRAM], program=(), columns=60)) as terminal:
        assert terminal.end() == 0
        cells = [line.split()[-1] for line in terminal.text.splitlines()[1:]]
    assert "".join(cells) == PATH
    assert len(cells) > 1


def test_text_in_a_pipe_is_as_it_was() -> None:
    output = CommandOutput(as_json=False, out=(out := io.StringIO()), err=sys.stderr)
    output.answer({}, "x" * 300 + "\nshort")
    assert out.getvalue() == "x" * 300 + "\nshort\n"


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_an_answer_has_escapes_for_what_standard_output_cannot_write(encoding: str) -> None:
    """A name whose bytes are no UTF-8, or any other where the terminal's language is older."""
    name = "größe-\udcff-😀"
    for as_json in (True, False):
        out = io.TextIOWrapper(raw := io.BytesIO(), encoding)
        CommandOutput(as_json, out).answer({"name": name}, name)
        out.flush()
        text = raw.getvalue().decode(encoding)
        assert (json.loads(text)["name"] == name) if as_json else (text[:2] == "gr")


def test_notes_whose_reader_has_gone_end_nothing() -> None:
    """As with ``2>&1 | head``: rich would end the process."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as err:
        output = CommandOutput(as_json=False, out=(out := io.StringIO()), err=err)
        for text in ("one", "two"):
            output.note(text)
            output.notes(Text(text))
        output.failed(RuntimeError("three"), 1)
        output.answer({}, "the answer")
    assert out.getvalue() == "the answer\n"


def test_with_json_lines_notes_events_tables_and_errors_are_lines_of_json() -> None:
    err = io.StringIO()
    output = CommandOutput(as_json=False, out=io.StringIO(), err=err, log_json=True)
    output.note("a\nnote \x1b[2J")
    output.event("one-0 failed", logging.ERROR)
    output.notes(table("BROKER", "DATA", rows=[("localhost:9092", PATH)]))
    output.failed(ValueError("wrong"), 1)
    output.status("drawn")
    lines = [json.loads(line) for line in err.getvalue().splitlines()]
    assert all(line.pop("at_ms") > 0 for line in lines)
    assert all(line.pop("logger") == "streamlet.command" for line in lines)
    assert "\x1b" not in err.getvalue()
    assert [line["level"] for line in lines] == ["info", "error", "info", "error"]
    assert lines[0]["message"] == "a\nnote \x1b[2J"
    assert PATH in lines[2]["message"]
    assert lines[3]["message"] == "error: wrong"


def test_an_event_has_its_time() -> None:
    output = CommandOutput(as_json=False, out=io.StringIO(), err=(err := io.StringIO()))
    output.event("one-0 RUNNING tasks: 0_0\x1b")
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} one-0 RUNNING tasks: 0_0␛\n", err.getvalue()
    )


def test_a_table_without_room_for_its_columns_names_is_a_line_for_each_cell() -> None:
    """Columns would be left out, and others have a letter on each line."""
    made = console(io.StringIO(), soft_wrap=True)
    made.width = 24
    with made.capture() as captured:
        made.print(
            table(
                "INSTANCE", "MEMBER", "LAG", "AT", rows=[("one-of-two-in-zone-a", "a", 5, None)] * 2
            )
        )
    one = "INSTANCE one-of-two-in-zone-a\nMEMBER a\nLAG 5\nAT -\n"
    assert captured.get() == f"{one}\n{one}"
    made.width = 25
    with made.capture() as captured:
        made.print(table("INSTANCE", "MEMBER", "LAG", "AT", rows=[("one", "a", 5, None)]))
    assert len(captured.get().splitlines()) == 2
