"""Instances of an application, forked from a process that has loaded streamlet.

To load it takes nearly a second of a processor, and the tests start hundreds of instances. A fork
runs the same command line with its own arguments and environment, and ends as a program does. There
are two servers, whose strings have different hashes: instances of one application must not depend
on the order of a set. Tests of the command line itself run ``python -m streamlet``.
"""

from __future__ import annotations

import atexit
import faulthandler
import functools
import gc
import itertools
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import typer.main
from typer.core import TyperGroup

import streamlet.__main__

ROOT = Path(__file__).resolve().parents[3]
_HASH_SEEDS = ("1", "2")
#: First the process id, then the exit code, or the negative number of the signal.
_REPORT = struct.Struct("i")
#: More than the arguments and the environment of any instance, bytes.
_ORDER_BYTES = 1 << 17


class Forked:
    """A process that was forked; as ``subprocess.Popen`` for those who watch it.

    Args:
        reports: the read end of the pipe on which the server reports the process.
    """

    def __init__(self, reports: int) -> None:
        self._reports = reports
        self.pid = self._next()
        self.returncode: int | None = None

    def _next(self) -> int:
        (number,) = _REPORT.unpack(os.read(self._reports, _REPORT.size))
        return int(number)

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def _look(self, timeout_s: float | None) -> int | None:
        if self.returncode is None and select.select([self._reports], [], [], timeout_s)[0]:
            self.returncode = self._next()
            os.close(self._reports)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """A signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM, if it runs."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, if it runs."""
        self.send_signal(signal.SIGKILL)


class _ForkServer:
    def __init__(self, hash_seed: str) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                cwd=ROOT,
                env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self._end)

    def fork(self, words: Sequence[str], environ: Mapping[str, str], out: IO[bytes]) -> Forked:
        order = json.dumps({"words": words, "environ": dict(environ)}).encode()
        reports, report = os.pipe()
        try:
            socket.send_fds(self._orders, [order], [out.fileno(), report])
        finally:
            os.close(report)
        return Forked(reports)

    def _end(self) -> None:
        self._orders.close()
        self._process.wait()


@functools.cache
def _servers() -> Iterator[_ForkServer]:
    return itertools.cycle([_ForkServer(seed) for seed in _HASH_SEEDS])


def start(words: Sequence[str], environ: Mapping[str, str], out: IO[bytes]) -> Forked:
    """Start ``streamlet WORDS``, which writes to ``out``; returns at once."""
    return next(_servers()).fork(words, environ, out)


def _serve(orders: socket.socket) -> dict[str, Any] | None:
    """Fork a process for each order until the tests have ended; in a fork, its order."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the instances
    signal.signal(signal.SIGCHLD, lambda *_: None)
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    gc.freeze()  # a collection in a fork would copy all these pages
    reports: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([orders, ended], [], [])
        if orders in ready:
            order, files, _, _ = socket.recv_fds(orders, _ORDER_BYTES, 2)
            if not order:
                return None
            out, report = files
            pid = os.fork()
            if not pid:
                orders.close()
                _become_a_program(out, [ended, wake, report, *reports.values()])
                return json.loads(order)
            os.close(out)
            os.write(report, _REPORT.pack(pid))
            reports[pid] = report
        if ended in ready:
            os.read(ended, 4096)
            _report_ends(reports)


def _report_ends(reports: dict[int, int]) -> None:
    for pid, report in list(reports.items()):
        over, status = os.waitpid(pid, os.WNOHANG)
        if over:
            os.write(report, _REPORT.pack(os.waitstatus_to_exitcode(status)))
            os.close(reports.pop(pid))


def _become_a_program(out: int, closed: Sequence[int]) -> None:
    """Have signals, output and open files as a new interpreter has them.

    By a signal that kills it, its stacks are printed: see ``Instance.log_with_stacks``.
    """
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(out, 1)
    os.dup2(out, 2)
    for fd in (out, *closed):
        os.close(fd)
    faulthandler.enable(2)


def main(orders: int) -> None:
    """Load what an instance needs, then serve; in a fork, be the instance."""
    _load()
    order = _serve(socket.socket(fileno=orders))
    if order is not None:
        os.environ.clear()
        os.environ.update(order["environ"])
        sys.argv = ["streamlet", *order["words"]]
        streamlet.__main__.main()


def _load() -> None:
    """Import all that an instance imports, and have typer read a command line.

    Typer loads pydantic for that, which takes as long as all the rest.
    """
    import streamlet.app
    import streamlet.hosting.fork_server
    import streamlet.hosting.preparing
    import streamlet.hosting.process
    import streamlet.hosting.supervisor
    import streamlet.runtime.metrics.server
    import streamlet.state.instances
    import streamlet.tools.main
    import streamlet.tools.run_native

    root = typer.main.get_command(streamlet.tools.main.build())
    assert isinstance(root, TyperGroup)
    root.commands["run"].make_context("run", ["module:app"])


if __name__ == "__main__":
    main(int(sys.argv[1]))
