"""``streamlet drain``: finds the instance by its folder, signals it, waits for how it ends."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streamlet.errors import ConfigError, NotFoundError, RefusedError, StreamletError, TimedOutError
from streamlet.state.directory import INSTANCE_LOCK, StateDirectory
from streamlet.state.instances import InstanceFolder, InstanceRecord, instances, living
from streamlet.tools.command import Common
from streamlet.tools.drain import DrainView
from streamlet.tools.main import build
from streamlet.tools.output import CommandOutput

#: Plays an instance: leaves some time after it was told to, or never.
INSTANCE = """
import signal, sys, threading
from pathlib import Path
from streamlet.state.directory import StateDirectory
from streamlet.state.instances import InstanceRecord

root, application, name, ends = sys.argv[1:]
told = threading.Event()
signal.signal(signal.SIGUSR1, lambda number, frame: told.set())
process_id, lock = StateDirectory(Path(root), application).lock_instance()
record = InstanceRecord(lock, name)
record.say(drains=1, tasks=2)
print("up", flush=True)
while not told.wait(0.01):
    pass
record.say(leaving_since_ms=7, tasks=1)
if ends == "never":
    threading.Event().wait()
if ends != "killed":
    record.say(tasks=0, drains=0, ended=ends)
"""


@pytest.fixture
def play(tmp_path: Path) -> Iterator[object]:
    started: list[subprocess.Popen[str]] = []

    def start(name: str = "h1", ends: str = "drained", application: str = "app") -> Path:
        arguments = [str(tmp_path), application, name, ends]
        process = subprocess.Popen(
            [sys.executable, "-c", INSTANCE, *arguments], stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        return tmp_path

    yield start
    for process in started:
        process.kill()
        process.communicate()


def common() -> tuple[Common, io.StringIO]:
    out = io.StringIO()
    return Common(None, {}, CommandOutput(True, out, io.StringIO())), out


def drain(root: Path, wait: bool = True, timeout_ms: int | None = None) -> dict[str, object]:
    told, out = common()
    DrainView(told, living(root, None, None), timeout_ms).run(wait)
    found: dict[str, object] = json.loads(out.getvalue())
    return found


def test_an_instance_is_signalled_and_waited_for(play: object) -> None:
    root = play()  # type: ignore[operator]
    found = drain(root)
    assert (found["application"], found["name"], found["drained"]) == ("app", "h1", True)
    assert [one.ended for one in instances(root)] == ["drained"]


def test_without_waiting_the_answer_comes_at_once(play: object) -> None:
    assert drain(play(ends="never"), wait=False)["drained"] is False  # type: ignore[operator]


@pytest.mark.parametrize("ends", ["stopped", "failed", "killed"])
def test_an_instance_that_ends_otherwise_was_not_drained(play: object, ends: str) -> None:
    with pytest.raises(StreamletError, match=f"it was {ends}"):
        drain(play(ends=ends))  # type: ignore[operator]


def test_waiting_has_an_end(play: object) -> None:
    with pytest.raises(TimedOutError, match="still leaving"):
        drain(play(ends="never"), timeout_ms=300)  # type: ignore[operator]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_the_waiting_and_the_instance_goes_on_leaving(
    play: object, number: signal.Signals
) -> None:
    root = play(ends="never")  # type: ignore[operator]
    words = ["drain", "--state-dir", str(root), "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "streamlet", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        assert command.stderr is not None
        assert command.stderr.readline() == "h1 still runs 1 task\n"
        command.send_signal(number)
        out, err = command.communicate(timeout=300)
    assert (command.returncode, json.loads(out)["drained"], err) == (4, False, "")


def test_ctrl_c_before_an_instance_takes_orders_asks_nothing_of_it(tmp_path: Path) -> None:
    _, lock = StateDirectory(tmp_path, "app").lock_instance()
    stopped = threading.Event()
    stopped.set()
    with lock:
        InstanceRecord(lock, "h1")
        with pytest.raises(KeyboardInterrupt, match="h1 was not asked to leave"):
            DrainView(common()[0], living(tmp_path, None, None), None, stopped).run(True)


def test_an_instance_that_takes_no_orders_yet_is_not_signalled(tmp_path: Path) -> None:
    """The signal would kill it: this very process, which has no handler for it."""
    _, lock = StateDirectory(tmp_path, "app").lock_instance()
    with lock:
        InstanceRecord(lock, "h1")
        with pytest.raises(TimedOutError, match="takes no orders yet"):
            drain(tmp_path, timeout_ms=0)


@pytest.mark.parametrize("pid", [-1, 0, 1 << 70, "x", os.getppid()])
def test_no_process_is_signalled_that_does_not_have_the_lock(
    tmp_path: Path, pid: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """-1 would be each process of the user, 0 those of the terminal."""
    signalled: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: number and signalled.append(pid))
    _, lock = StateDirectory(tmp_path, "app").lock_instance()
    InstanceRecord(lock, "h1").say(drains=1, pid=pid)
    with pytest.raises(RefusedError, match="nothing was signalled"):
        drain(tmp_path)
    assert signalled == []


def test_one_of_several_must_be_named(play: object) -> None:
    root = play("h1", application="flights")  # type: ignore[operator]
    play("h2", application="trains")  # type: ignore[operator]
    with pytest.raises(ConfigError, match="flights h1, trains h2"):
        living(root, None, None)
    assert living(root, "trains", None).name == "h2"
    assert living(root, None, "h1").application == "flights"
    with pytest.raises(NotFoundError, match=r"called h3 .*; running there: flights h1, trains h2$"):
        living(root, None, "h3")


def test_the_command_says_by_its_exit_code_that_nothing_runs_here(tmp_path: Path) -> None:
    runner = CliRunner()
    found = runner.invoke(build(), ["drain", "app", "--state-dir", str(tmp_path), "--json"])
    assert found.exit_code == 3
    error = json.loads(found.stdout)["error"]
    assert error["type"] == "NotFoundError"
    assert error["message"].endswith("; give --state-dir as its streamlet run had it")
    wrong = ["drain", "--state-dir", str(tmp_path), "--timeout", "soon"]
    assert runner.invoke(build(), wrong).exit_code == 2


def test_an_instance_goes_on_when_its_record_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk that is full for a while; what was not written is written later."""
    _, lock = StateDirectory(tmp_path, "app").lock_instance()
    file = tmp_path / "app" / INSTANCE_LOCK

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with lock:
        record = InstanceRecord(lock, "h1")
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            record.say(tasks=3)
        assert "No space left on device" in caplog.text
        record.say(tasks=3)
        assert InstanceFolder.read(file).tasks == 3


def test_the_record_of_an_instance_shrinks_and_stays_readable(tmp_path: Path) -> None:
    process_id, lock = StateDirectory(tmp_path, "app").lock_instance()
    with lock:
        record = InstanceRecord(lock, "a name that is long")
        record.say(tasks=1_000_000, drains=1)
        record.say(tasks=1)
        file = tmp_path / "app" / INSTANCE_LOCK
        found = InstanceFolder.read(file)
        assert (found.pid, found.tasks, found.drains) == (os.getpid(), 1, True)
        assert json.loads(file.read_text())["process_id"] == process_id
    assert InstanceFolder.read(file).pid is None
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
