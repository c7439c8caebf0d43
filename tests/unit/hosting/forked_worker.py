"""A program that the fork server forks in tests: says who it is, and does what its orders say."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
from concurrent.futures import ProcessPoolExecutor

from tests.unit.hosting import loaded_once

_POOL: ProcessPoolExecutor | None = None

#: Signals whose handlers are the supervisor's until a worker has its own.
_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD)


def main(events: int, orders: int) -> int:
    """Say what the process is like, then obey the first order; the exit code."""
    said = {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "group": os.getpgid(0),
        "session": os.getsid(0),
        "threads": threading.active_count(),
        "loaded_by": loaded_once.PID,
        "handlers": [signal.getsignal(number) is signal.SIG_DFL for number in _HANDLED],
        "fds": sorted(map(int, os.listdir("/proc/self/fd"))),
    }
    os.write(events, json.dumps(said).encode() + b"\n")
    assert sys.stdin.read() == "", "orders are nothing for user code that reads standard input"
    with os.fdopen(orders) as pipe:
        words = pipe.readline().split()
    match words:
        case ["exit", code]:
            return int(code)
        case ["raise"]:
            raise ValueError("as told")
        case ["pool"]:
            global _POOL
            _POOL = ProcessPoolExecutor(2, multiprocessing.get_context("fork"))
            return _POOL.submit(abs, -5).result()
        case ["fork"]:
            if not os.fork():
                os.closerange(1, 3)  # the test reads them to their ends
                signal.pause()
            os._exit(7)
        case _:
            return 0
