"""``streamlet dev``: an application that begins again when its file is saved."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest

from streamlet.kafka.client import KafkaSink
from streamlet.kafka.ports import OutgoingRecords
from streamlet.tools.dev import _Instance, described_by, files_of, topics_of
from tests.terminals import CTRL_C, Terminal

PROGRAM = """
import streamlet as sl

app = sl.App({name!r})
app.stream({name!r}, key=str, value=str).map_values(lambda v: {says!r} + v, value=str).print()
"""


@pytest.mark.integration
def test_it_begins_again_when_the_program_is_saved_and_ends_whole(
    bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"dev-{uuid4().hex[:8]}"
    program = tmp_path / "dev_of_test.py"
    program.write_text("this is no Python\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    where = ("--bootstrap-servers", bootstrap_servers, "--state-dir", str(tmp_path / "state"))
    words = ["dev", "dev_of_test:app", "--watch", str(tmp_path), "--port", port, *where]
    with closing(Terminal(words)) as terminal:
        terminal.await_text("save a file to try again")
        assert "shown on" not in terminal.text, "nothing is shown yet"
        program.write_text(PROGRAM.format(name=name, says="first "))
        terminal.await_text(f"and is shown on http://127.0.0.1:{port}/")
        terminal.await_text(f"made topic {name} with 4 partitions")
        terminal.await_text("4 tasks")
        sink = KafkaSink(bootstrap_servers)
        sink.send(OutgoingRecords(name, [b"k"], [b"word"]))
        sink.flush(10_000)
        terminal.await_text("first word")
        program.write_text("this is no Python\n")
        terminal.await_text("dev_of_test.py has changed: begin again", times=2)
        terminal.await_text("save a file to try again", times=2)
        program.write_text(PROGRAM.format(name=name, says="second "))
        sink.send(OutgoingRecords(name, [b"k"], [b"word"]))
        sink.flush(10_000)
        sink.close()
        terminal.await_text("second word")
        (command,) = (one for one in psutil.Process().children() if "dev" in one.cmdline())
        started = [one.pid for one in command.children()]
        assert len(started) == 1
        terminal.type(CTRL_C)
        assert terminal.end() == 0, terminal.text
        assert not any(map(psutil.pid_exists, started))


def test_a_program_that_is_never_loaded_is_left_when_it_is_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "never_loaded.py").write_text("import threading\nthreading.Event().wait()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    looks = iter((False, True))
    before = psutil.Process().children()
    assert described_by("never_loaded:app", lambda: next(looks)) is None
    assert psutil.Process().children() == before
    assert next(looks, None) is None


def test_a_second_ctrl_c_leaves_no_instance_behind() -> None:
    class Slow:
        """A process that takes its time to end, until it is killed."""

        killed = False

        def terminate(self) -> None:
            pass

        def wait(self, timeout: float | None = None) -> None:
            if not self.killed:
                raise KeyboardInterrupt

        def kill(self) -> None:
            self.killed = True

    process: Any = Slow()
    instance = _Instance("app", [], [], None, process)
    with pytest.raises(KeyboardInterrupt):
        instance.end()
    assert process.killed


def test_only_the_programs_own_python_files_are_watched(tmp_path: Path) -> None:
    for name in ("app.py", "parts/a.py", ".venv/b.py", "parts/__pycache__/c.py", "notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    first = files_of(tmp_path)
    assert set(first) == {"app.py", "parts/a.py"}
    (tmp_path / "parts/a.py").write_text("1")
    assert [name for name, about in files_of(tmp_path).items() if about != first[name]] == [
        "parts/a.py"
    ]


def test_topics_of_the_program_are_made_and_not_those_that_streamlet_makes() -> None:
    described = {
        "source_topics": ["lines"],
        "global_tables": [{"topic": "rates"}],
        "subtopologies": [
            {"sources": [{"topics": ["lines"]}], "sinks": [{"topic": "a-repartition"}]},
            {
                "sources": [{"topics": ["a-repartition"]}],
                "sinks": [{"topic": "counts"}, {"topic": ""}],
            },
        ],
    }
    assert topics_of(described) == {"lines", "rates", "counts"}
