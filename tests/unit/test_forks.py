"""Children that user code forks keep nothing of ours, and end."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from streamlet.forks import STRAY_CHILD, OwnDescriptor, OwnProcess, in_children, no_fork
from streamlet.hosting.process import EventPipe, SupervisorOrders
from streamlet.hosting.signals import GracefulStop
from streamlet.runtime.metrics.server import MetricsServer

LIMIT_S = 300

#: Runs a function in a fork, as multiprocessing does, and waits for its end.
BEGIN = """
import multiprocessing, os, sys, threading
fork = multiprocessing.get_context("fork")
def child(function):
    process = fork.Process(target=function)
    process.start()
    process.join(200)
    if process.is_alive():
        process.kill()
        print("it hangs")
        os._exit(1)
    return process.exitcode
"""


def printed(program: str, told: str = "") -> str:
    """What a program prints that forks: a fork of pytest would have all that pytest has."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program],
        input=told,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def status_in_child(function: Callable[[], object]) -> int:
    """The exit code of a fork that does this and no more."""
    pid = os.fork()
    if not pid:
        code = 99
        try:
            code = int(bool(function()))
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_child_closes_what_is_this_processs_own() -> None:
    read, write = os.pipe()
    own = OwnDescriptor(write)
    assert not os.get_inheritable(write), "programs that are executed do not get it"
    assert status_in_child(lambda: own.fd == -1 and not open_there(write)) == 1
    assert open_there(own.fd)
    own.close()
    own.close()
    assert not open_there(write)
    assert status_in_child(lambda: open_there(read)) == 1, "the descriptor of another is left"
    os.close(read)


def open_there(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_what_forgets_itself_in_a_child_keeps_nothing_else_from_being_done() -> None:
    pipes = [OwnDescriptor(fd) for fd in os.pipe()]
    assert status_in_child(lambda: [one.fd for one in pipes] == [-1, -1]) == 1
    for one in pipes:
        one.close()


def test_actions_are_done_in_children_from_the_last_to_the_first() -> None:
    done: list[str] = []

    def fail() -> None:
        raise OSError("closed already")

    forgotten = [in_children(lambda: done.append("first")), in_children(fail)]
    forgotten.append(in_children(lambda: done.append("last")))
    assert status_in_child(lambda: done == ["last", "first"]) == 1
    assert done == []
    for forget in forgotten:
        forget()
        forget()
    assert status_in_child(lambda: done == []) == 1


def test_ctrl_c_at_the_begin_of_a_child_is_not_printed_as_an_ignored_exception() -> None:
    program = """
import signal
from streamlet.forks import in_children
in_children(lambda: os.kill(os.getpid(), signal.SIGINT))
os.dup2(1, 2)
def blocked():
    os._exit(len(signal.pthread_sigmask(signal.SIG_BLOCK, ())))
print(child(blocked))
"""
    assert printed(program) == "0", "the child goes on, with the signals of its parent"


def test_a_fork_waits_for_what_is_being_opened() -> None:
    begun, ended = threading.Event(), threading.Event()
    opened: list[str] = []

    def open_it() -> None:
        with no_fork():
            begun.set()
            ended.wait(LIMIT_S)
            opened.append("done")

    opening = threading.Thread(target=open_it)
    opening.start()
    begun.wait(LIMIT_S)
    threading.Timer(0.05, ended.set).start()
    assert status_in_child(lambda: opened == ["done"]) == 1
    opening.join()


@pytest.mark.parametrize("leave", ["return", "raise SystemExit(0)", "raise ValueError"])
def test_a_child_that_comes_back_out_of_a_function_ends_there(leave: str) -> None:
    function = {"return": lambda: None}.get(leave, lambda: _raise(leave))

    def forked() -> None:
        with OwnProcess():
            pass  # ours goes on
        with own:
            function()

    own = OwnProcess()
    assert status_in_child(forked) == STRAY_CHILD


def _raise(text: str) -> Any:
    raise SystemExit(0) if "SystemExit" in text else ValueError


def test_a_thread_that_waits_for_orders_does_not_hang_a_fork() -> None:
    """A lock of ``sys.stdin`` was held for ever in the child, which closes its ``sys.stdin``."""
    told = printed(
        """
from streamlet.hosting.process import SupervisorOrders
orders = SupervisorOrders()
asked = orders.requests.asked
print(orders.first, child(lambda: None), asked.is_set())
asked.wait(10)
print(orders.requests.since_ms, orders.requests.drain.is_set(), asked.is_set())
""",
        '{"first": 1}\n{"drain": 7}\n{"stop": "graceful"}\n',
    )
    assert told.splitlines()[-1] == "7 True True"
    assert told.startswith("{'first': 1} 0 ")


def test_the_pipes_of_a_worker_end_with_it_though_a_child_lives_on() -> None:
    orders, to_worker = os.pipe()
    events, from_worker = os.pipe()
    os.write(to_worker, b'{"app": 1}\n')
    kept = SupervisorOrders(orders), EventPipe(from_worker)
    sleeper = multiprocessing.get_context("fork").Process(target=signal.pause)
    sleeper.start()
    try:
        kept[1].tell({"event": "finished"})
        kept[1]._pipe.close()
        with os.fdopen(events, "rb") as pipe:
            assert pipe.read() == b'{"event": "finished"}\n', "the child has the other end, too"
    finally:
        sleeper.kill()
        sleeper.join()
        os.close(to_worker)


def test_a_pool_of_a_process_that_stops_gracefully_ends_when_it_is_told_to() -> None:
    """It tells its processes by SIGTERM, and waits for them."""
    with GracefulStop(drains=True):
        sleeper = multiprocessing.get_context("fork").Process(target=signal.pause)
        sleeper.start()
        sleeper.terminate()
        sleeper.join(LIMIT_S)
        code = sleeper.exitcode
        sleeper.kill()
    assert code == -signal.SIGTERM


def binds(port: int) -> bool:
    """True if a server can be opened at the port."""
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            again.bind(("127.0.0.1", port))
            again.listen()
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True


def test_a_port_of_metrics_is_free_once_its_process_has_closed_it(tmp_path: Path) -> None:
    page = {"ok": True}
    server = MetricsServer(CollectorRegistry(), lambda: page, lambda: page, 0, "127.0.0.1")
    sleeper = multiprocessing.get_context("fork").Process(target=signal.pause)
    sleeper.start()
    try:
        with urllib.request.urlopen(f"{server.url}/health", timeout=LIMIT_S) as answer:
            assert answer.status == 200
        server.close()
        deadline = time.monotonic() + LIMIT_S
        while not binds(server.port):  # another program's connection may have it for a moment
            assert time.monotonic() < deadline
    finally:
        sleeper.kill()
        sleeper.join()
