"""The fork server: a process that has loaded streamlet, and that worker processes are forked from.

A new interpreter takes a second of a processor until it has loaded streamlet and its clients, and
40 MB. The fork server is a fork of the supervisor, made before that has a thread, a client or the
user's modules, and loads nothing more: so its forks are ready at once, share its memory, and none
of them ever forks threads of librdkafka or RocksDB. A worker imports the application itself.

Supervisor and server talk over a pair of sockets: requests with the two pipes of a worker there,
pids and exit codes back. The server ends with the supervisor.
"""

from __future__ import annotations

import contextlib
import gc
import json
import multiprocessing
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import recv_handle, sendfds
from typing import IO

import attrs

from streamlet.errors import StreamletError
from streamlet.forks import in_children

#: The exit code of a worker whose end the server could not report, as it was gone by then.
UNKNOWN_END = 255

#: Signals that the supervisor handles, in the process that the server is forked from.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)

#: A worker's program: gets the file descriptors for its events and of its orders; the exit code.
Program = Callable[[int, int], int]


@attrs.frozen
class Launched:
    """A worker's process without orders, and the read end of the pipe its events come through."""

    process: ForkedProcess
    events: int


def close_stdin(process: ForkedProcess) -> None:
    """Close the pipe of a worker's orders."""
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):  # it may have died with an order unread
            process.stdin.close()


class ForkServer:
    """Starts the worker processes of one supervisor; a context manager.

    Entering it forks the server, so no other thread may run by then, and no module of the user's
    be loaded.

    Args:
        module: the module whose function ``main`` is the workers' program; loaded here.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._channel: Connection | None = None
        #: The channel once more: what sends file descriptors is to need no new one.
        self._socket: socket.socket | None = None
        self._forked: dict[int, ForkedProcess] = {}
        #: Process id of the server; 0 before it runs.
        self.pid = 0

    def __enter__(self) -> ForkServer:
        program: Program = import_module(self._module).main
        ours, theirs = multiprocessing.Pipe()
        self.pid = os.fork()
        if not self.pid:
            code = 1
            try:
                ours.close()
                _serve(theirs, program)
                code = 0
            finally:
                os._exit(code)  # the frames above are the supervisor's
        theirs.close()
        in_children(ours.close)
        self._channel, self._socket = ours, socket.socket(fileno=os.dup(ours.fileno()))
        in_children(self._socket.close)
        return self

    def __exit__(self, *_: object) -> None:
        """End the server and wait for its end; workers that run are not touched."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
            if self._socket is not None:
                self._socket.close()
            os.waitpid(self.pid, 0)

    def launch(self) -> Launched:
        """Fork a worker's process, which waits for its orders.

        Raises:
            StreamletError: the server is gone.
            OSError: no file descriptor is free (EMFILE, ENFILE); nothing was started.
        """
        orders, to_worker = os.pipe()
        try:
            events, from_worker = os.pipe()
        except OSError:
            os.close(orders)
            os.close(to_worker)
            raise
        try:
            pid = self._ask_for_fork(orders, from_worker)
        except (OSError, EOFError) as error:
            os.close(to_worker)
            os.close(events)
            raise StreamletError(
                f"no worker can be started: the process that forks them (pid {self.pid}) is "
                "gone, perhaps killed where memory is short"
            ) from error
        finally:
            os.close(orders)
            os.close(from_worker)
        forked = ForkedProcess(pid, os.fdopen(to_worker, "wb"), self)
        self._forked[pid] = forked
        return Launched(forked, events)

    def _ask_for_fork(self, orders: int, events: int) -> int:
        channel = self._channel
        if channel is None or self._socket is None:
            raise BrokenPipeError("the server has ended")
        channel.send(None)
        for fd in (orders, events):
            sendfds(self._socket, [fd])
        while True:
            pid, code = channel.recv()
            if code is None:
                return int(pid)
            self._ended(pid, code)

    def read_ends(self, timeout_s: float | None) -> bool:
        """Take the reports of workers that ended.

        Args:
            timeout_s: how long to wait for one; None is as long as it takes.

        Returns:
            False: the server is gone, and none will come.
        """
        channel = self._channel
        try:
            while channel is not None and channel.poll(timeout_s):
                self._ended(*channel.recv())
                timeout_s = 0
        except (OSError, EOFError):
            channel = None
        return channel is not None

    def _ended(self, pid: int, code: int) -> None:
        self._forked.pop(pid).returncode = code


@attrs.define(eq=False)
class ForkedProcess:
    """A worker's process that the fork server forked, with the pipe of its orders."""

    pid: int
    stdin: IO[bytes] | None
    _server: ForkServer
    returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        if self.returncode is None and not self._server.read_ends(0):
            self._look()
        return self.returncode

    def wait(self) -> int:
        """Wait for the exit code; kill the process if the fork server cannot report its end."""
        while self.returncode is None:
            if not self._server.read_ends(None):
                self.kill()
                self.returncode = UNKNOWN_END
        return self.returncode

    def kill(self) -> None:
        """SIGKILL, if it runs."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _look(self) -> None:
        """See whether it runs without a server; then it is a child of another process."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            self.returncode = UNKNOWN_END


def _serve(channel: Connection, program: Program) -> None:
    """Fork workers when asked to, and report their ends, until the supervisor is gone."""
    os.setpgid(0, 0)  # Ctrl-C in the terminal is for the supervisor alone
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    # Not the sentinels of multiprocessing: what a worker forked would keep them open.
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    gc.freeze()  # a collection in a worker would copy all these pages
    workers: list[BaseProcess] = []
    with contextlib.suppress(OSError, EOFError):
        while True:
            ready = wait([channel, ended])
            if channel in ready:
                channel.recv()
                workers.append(_fork(channel, (ended, wake), program))
                channel.send((workers[-1].pid, None))
            if ended in ready:
                os.read(ended, 4096)
            for worker in [one for one in workers if one.exitcode is not None]:
                workers.remove(worker)
                channel.send((worker.pid, worker.exitcode))


def _fork(channel: Connection, servers: tuple[int, int], program: Program) -> BaseProcess:
    orders, events = recv_handle(channel), recv_handle(channel)
    context = multiprocessing.get_context("fork")
    forked = context.Process(target=_work, args=(channel, servers, orders, events, program))
    forked.start()
    os.close(orders)
    os.close(events)
    return forked


def _work(
    channel: Connection, servers: tuple[int, int], orders: int, events: int, program: Program
) -> None:
    """Be a worker, in a process of its own, until it ends.

    Args:
        channel: to the supervisor; the server's.
        servers: the two ends of the pipe that wakes the server up, which is the server's as well.
        orders: the read end of the pipe of orders.
        events: the write end of the pipe of events.
        program: what the worker runs.
    """
    try:
        _leave_the_server(channel, servers)
        code = program(events, orders)
    except Exception:
        # Programs answer the errors of users: this one is ours, and the supervisor logs it. Where
        # the supervisor is gone, multiprocessing writes it to standard error.
        event = {"event": "broken", "traceback": traceback.format_exc()}
        os.write(events, json.dumps(event).encode() + b"\n")
        sys.exit(1)
    finally:
        # First, as at the end of any interpreter, what user code's executors leave to this:
        # multiprocessing would wait for their processes before it told them to end.
        threading._shutdown()  # type: ignore[attr-defined]
    sys.exit(code)


def _leave_the_server(channel: Connection, servers: tuple[int, int]) -> None:
    """Close what a forked worker inherited from the fork server."""
    # The session is the supervisor's: where Linux shares processors out among sessions first, no
    # priority counts between two of them (autogroups, the usual setting outside of containers and
    # services). With a session each, the background threads of eight workers had nine tenths of a
    # full machine where the broker had one.
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)  # since Python 3.12 asyncio, where it is loaded, has done so by now
    for fd in servers:
        os.close(fd)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    channel.close()
    # Not the orders: a user's function, or a program that it starts, may read standard input.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - it is open as long as the process
