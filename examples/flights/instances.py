"""The instances of the application: processes of ``streamlet run``, each as if on its own host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_APP = "examples.flights.app:app"
_STOP_S = 60
_END_S = 5
_LOG_LINES = 15
#: Counts behind repartition topics are exact; a host that is gone is missed after 6 s.
_SETTINGS = ("repartition.exact=true", "session.timeout.ms=6000")


class InstanceFailed(Exception):
    """An instance ended that nobody asked to end, or did not end well."""


def streamlet(*arguments: str) -> list[str]:
    """The command line ``streamlet ARGUMENTS``."""
    return [sys.executable, "-m", "streamlet", *arguments]


class Instances:
    """Starts, stops and in the end always ends them.

    Args:
        bootstrap: the broker.
        folder: where each gets a folder for its state and a log file.
    """

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._bootstrap = bootstrap
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._stopping: dict[str, subprocess.Popen[bytes]] = {}
        #: The log file of each that was started, JSON lines between others.
        self.logs: dict[str, Path] = {}

    @property
    def names(self) -> list[str]:
        """Those that run and were not asked to leave."""
        return sorted(self._running)

    @property
    def leaving(self) -> list[str]:
        """Those that were asked to leave and are at it."""
        return sorted(self._stopping)

    def start(self, name: str) -> None:
        """``streamlet run`` in a session of its own, so that Ctrl-C reaches only us."""
        command = streamlet("run", _APP, "--name", name, "--processes", "1")
        command += ["--bootstrap-servers", self._bootstrap, "--log-level", "info", "--log-json"]
        command += ["--state-dir", str(self._folder / name)]
        for setting in _SETTINGS:
            command += ["--set", setting]
        self.logs[name] = self._log(name)
        with self.logs[name].open("ab") as log:
            self._running[name] = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """``kill -9`` to all processes of one, as if its host had failed."""
        process = self._running.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def interrupt(self, name: str) -> None:
        """Ask one to leave, as Ctrl-C would: it finishes its batch, commits and goes."""
        process = self._running.pop(name)
        self._stopping[name] = process
        process.send_signal(signal.SIGINT)

    def expect_to_leave(self, name: str) -> None:
        """Somebody else asked it to leave; it ends by itself."""
        if name in self._running:
            self._stopping[name] = self._running.pop(name)

    def check(self) -> None:
        """Take note of those that ended.

        Raises:
            InstanceFailed: one ended by itself, or with an exit code other than 0.
        """
        for name, process in self._running.items():
            if process.poll() is not None:
                raise self._failed(name, process)
        for name, process in list(self._stopping.items()):
            if process.poll() is not None:
                del self._stopping[name]
                if process.returncode:
                    raise self._failed(name, process)

    def stop_all(self) -> None:
        """Have all leave, and wait until they have.

        Raises:
            InstanceFailed: one does not end, or does not end well.
        """
        for name in self.names:
            self.interrupt(name)
        for name, process in list(self._stopping.items()):
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                raise InstanceFailed(f"{name} did not leave within {_STOP_S} s") from None
        self.check()

    def kill_all(self) -> None:
        """End whatever still runs: in order if that is quick, else as a second Ctrl-C does.

        A Ctrl-C meanwhile is the second one for them, too.
        """
        processes = [*self._running.values(), *self._stopping.values()]
        try:
            try:
                _interrupt(processes)
            finally:
                _interrupt(processes)
        finally:
            for process in processes:
                process.kill()  # its workers end when the pipe from it breaks
            for process in processes:
                process.wait()

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _failed(self, name: str, process: subprocess.Popen[bytes]) -> InstanceFailed:
        lines = self._log(name).read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return InstanceFailed(
            f"{name} ended with status {process.returncode}; the end of its log:\n"
            + "\n".join(f"  {line}" for line in lines)
        )


def _interrupt(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ctrl-C for those that run, and some seconds for each to end."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)


class Status:
    """What ``streamlet status --watch`` says last of the application.

    The command ends where there is no such application yet; it is then started again.
    """

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._command = streamlet("status", "flights", "--watch", "--json")
        self._command += ["--bootstrap-servers", bootstrap]
        self._log = folder / "status.log"
        self._process = self._start()
        self._unread = b""
        self._last: dict[str, Any] = {}

    def members(self, name: str) -> set[str]:
        """Member ids of an instance, as far as is known now: others once it has started again."""
        self._read()
        return {
            member["member_id"]
            for instance in self._last.get("instances", [])
            if instance["name"] == name
            for member in instance["members"]
        }

    def tasks(self, without: Collection[str] = ()) -> dict[str, list[str]]:
        """The tasks each instance runs, as far as is known now, ``without`` those of members."""
        self._read()
        return {
            instance["name"]: sorted(
                task["task"]
                for member in instance["members"]
                for task in member["tasks"]
                if task["role"] == "active" and member["member_id"] not in without
            )
            for instance in self._last.get("instances", [])
        }

    def learning(self) -> list[str]:
        """How far the copies are that are being made, a line each, as far as is known now."""
        handovers = self._last.get("handovers", [])
        return [_progress(one) for one in handovers if one["stage"] in ("learning", "ready")]

    def close(self) -> None:
        """End the command."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        return process

    def _read(self) -> None:
        assert self._process.stdout is not None
        while chunk := self._process.stdout.read(65_536):
            self._unread += chunk
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            if line.strip():
                self._last = json.loads(line)
        if self._process.poll() is not None:
            self.close()
            self._process, self._unread = self._start(), b""


def _progress(handover: dict[str, Any]) -> str:
    """``1_0 host-1-0 > host-3-0 learning 1,200 of 5,000 records``."""
    line = f"{handover['task']} {handover['from']} > {handover['to']} {handover['stage']}"
    if handover["end"] is not None:
        line += f" {handover['restored']:,} of {handover['end']:,} records"
    return line
