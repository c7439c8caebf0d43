"""The fork server with real processes: what they inherit, how they end, and what ends with them.

Each test runs the server in a program of its own: a fork of pytest would be one of its threads.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from multiprocessing import Pipe
from multiprocessing.reduction import recv_handle

import psutil
import pytest

from streamlet.errors import StreamletError
from streamlet.hosting.fork_server import ForkServer

#: What every program begins with.
BEGIN = """
import json, os, signal, sys
from streamlet.hosting.fork_server import ForkServer, UNKNOWN_END, close_stdin
MODULE = "tests.unit.hosting.forked_worker"
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
def begin(server):
    launched = server.launch()
    return launched.process, json.loads(os.fdopen(launched.events).readline())
def order(process, text):
    process.stdin.write(text.encode() + b"\\n")
    process.stdin.flush()
"""


def run(program: str) -> tuple[str, str]:
    """What a program prints that uses the fork server, and its errors; it must end well."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program], capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def test_a_worker_has_what_was_loaded_before_and_nothing_of_the_supervisors() -> None:
    printed, _ = run("""
with ForkServer(MODULE) as server:
    one, first = begin(server)
    two, second = begin(server)
    for said in (first, second):
        assert said["loaded_by"] == os.getpid() != said["pid"], "loaded before the fork"
        assert said["parent"] == server.pid
        assert said["group"] == said["pid"], "Ctrl-C in the terminal is not for it"
        assert said["session"] == os.getsid(0), "priorities count within one session"
        assert said["threads"] == 1
        assert said["handlers"] == [False, True, True, True], "SIGINT is Python's own"
    # Standard streams, two ends of its own, and those with which multiprocessing watches.
    print(len(second["fds"]) - len(first["fds"]))
    for process in (one, two):
        order(process, "exit 0")
        assert process.wait() == 0
""")
    assert int(printed) <= 2, "pipes of one worker are not open in the next"


@pytest.mark.parametrize(("told", "code"), [("exit 3", 3), ("raise", 1), ("", 0)])
def test_the_exit_code_of_a_worker_is_known(told: str, code: int) -> None:
    _, said = run(f"""
with ForkServer(MODULE) as server:
    process, said = begin(server)
    assert process.poll() is None
    order(process, {told!r})
    assert process.wait() == process.poll() == {code}
""")
    assert ("ValueError: as told" in said) == (told == "raise")


def test_a_fault_of_a_workers_program_comes_through_the_pipe_of_its_events() -> None:
    _, said = run("""
with ForkServer(MODULE) as server:
    launched = server.launch()
    events = os.fdopen(launched.events)
    events.readline()
    order(launched.process, "raise")
    broken = json.loads(events.readline())
    assert broken["event"] == "broken"
    assert broken["traceback"].startswith("Traceback (most recent call last)")
    assert "ValueError: as told" in broken["traceback"]
    assert launched.process.wait() == 1
""")
    assert "Traceback" not in said


def test_a_worker_starts_though_asyncio_is_loaded_and_takes_the_wake_up_descriptor() -> None:
    """Since Python 3.12 asyncio resets it in forked processes."""
    run("""
import asyncio
asyncio.new_event_loop().close()
class Resets:
    def __call__(self):
        signal.set_wakeup_fd(-1)
os.register_at_fork(after_in_child=Resets())
with ForkServer(MODULE) as server:
    process, said = begin(server)
    order(process, "exit 0")
    assert process.wait() == 0
""")


def test_a_killed_worker_is_noticed_and_others_go_on() -> None:
    run("""
with ForkServer(MODULE) as server:
    one, first = begin(server)
    two, second = begin(server)
    one.kill()
    assert one.wait() == -signal.SIGKILL
    assert two.poll() is None
    three, third = begin(server)
    for process in (two, three):
        order(process, "exit 4")
        assert process.wait() == 4
""")


def test_the_end_of_a_worker_is_noticed_though_what_it_forked_lives_on() -> None:
    """As the processes of a pool in user code, which hold all that the worker had open."""
    child, _ = run("""
with ForkServer(MODULE) as server:
    process, said = begin(server)
    order(process, "fork")
    assert process.wait() == 7
print(said["group"])
""")
    left = [p for p in psutil.process_iter() if _group(p.pid) == int(child)]
    assert left
    for process in left:
        process.kill()


def test_a_worker_ends_though_a_pool_of_user_code_waits_for_more() -> None:
    """Nobody closed the pool, as where it is a global of the user's module."""
    run("""
import time
with ForkServer(MODULE) as server:
    process, said = begin(server)
    order(process, "pool")
    until = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    code = process.poll()
    process.kill()
    assert code == 5, code
""")


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


def test_without_its_server_a_worker_goes_on_and_none_can_start() -> None:
    """The server may be killed where memory is short."""
    run("""
from streamlet.errors import StreamletError
with ForkServer(MODULE) as server:
    process, said = begin(server)
    other, _ = begin(server)
    os.kill(server.pid, signal.SIGKILL)
    os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
    assert process.poll() is None
    try:
        server.launch()
    except StreamletError as error:
        assert f"(pid {server.pid}) is gone" in str(error), error
    else:
        raise AssertionError("it cannot fork")
    order(process, "exit 0")
    assert process.wait() == UNKNOWN_END
    assert other.poll() is None
    other.kill()
    assert other.wait() == UNKNOWN_END
""")


def test_a_server_that_dies_before_it_answers_is_gone_as_well() -> None:
    ours, theirs = Pipe()

    def die() -> None:
        theirs.recv()
        for _ in range(2):
            os.close(recv_handle(theirs))
        theirs.close()

    server = ForkServer("nothing")
    server._channel, server._socket = ours, socket.socket(fileno=os.dup(ours.fileno()))
    dying = threading.Thread(target=die)
    dying.start()
    with pytest.raises(StreamletError, match="is gone"):
        server.launch()
    dying.join()
    ours.close()
    server._socket.close()


def test_workers_and_server_end_with_the_supervisor_however_that_ends() -> None:
    pids, _ = run("""
server = ForkServer(MODULE).__enter__()
_, said = begin(server)
print(server.pid, said["pid"], flush=True)
os._exit(0)
""")
    _, alive = psutil.wait_procs(
        [psutil.Process(int(pid)) for pid in pids.split() if psutil.pid_exists(int(pid))], 10
    )
    assert not alive


def test_a_worker_starts_again_once_file_descriptors_are_free() -> None:
    """None is free for pipes, then one pair, then two: nothing is lost, the server goes on."""
    run("""
import errno, resource
with ForkServer(MODULE) as server:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    for spare in range(4):
        taken = []
        try:
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError as error:
            assert error.errno == errno.EMFILE
        for fd in taken[:spare]:
            os.close(fd)
        try:
            server.launch()
        except OSError as error:
            assert error.errno == errno.EMFILE
        else:
            raise AssertionError("there were descriptors")
        for fd in taken[spare:]:
            os.close(fd)
    begin(server)
    process, _ = begin(server)
    order(process, "exit 0")
    assert process.wait() == 0
""")
