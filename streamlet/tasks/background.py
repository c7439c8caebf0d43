"""Work that everything else on the machine comes before."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path

#: How much nicer background threads are than the thread was: a tenth of its weight.
NICER = 10
NICEST = 19
#: How much less of a processor they take for each share of their time that they wait for one, and
#: what they take at least. Alone they take all of it: 1 / (1 + 16 * waited / ran).
WAIT_WEIGHT = 16
LEAST_SHARE = 0.25
#: How long a thread runs between two looks at how long it waited, ns.
LOOK_NS = 20_000_000
#: Time that the thread ran and that it waited to run, ns (Linux with CONFIG_SCHED_INFO).
SCHEDSTAT = Path("/proc/thread-self/schedstat")


def lower_priority(*, of_all: bool = False) -> None:
    """Have the calling thread come behind others from now on, for good: raising takes privileges.

    On Linux, where each thread has a nice value of its own; elsewhere it changes nothing.
    There a thread inherits the priority of the one that starts it. ``of_all``: every thread of the
    process, and so those that they start: for a process of ours that has drained. To close its
    databases and end took up to two thirds of a processor for a tenth of a second, amid the
    hand-overs of others.
    """
    if sys.platform != "linux":
        return
    here = threading.get_native_id()
    for thread in map(int, os.listdir("/proc/self/task")) if of_all else [here]:
        with contextlib.suppress(OSError):  # it has ended; or a sandbox forbids even that
            now = os.getpriority(os.PRIO_PROCESS, thread)
            os.setpriority(os.PRIO_PROCESS, thread, min(now + NICER, NICEST))


class Processors:
    """Measures how short processors are, as one thread feels it; plenty where that is unknown.

    Args:
        schedstat: the system's account of the thread that asks.
    """

    def __init__(self, schedstat: Path = SCHEDSTAT) -> None:
        self._schedstat = schedstat
        self._ran_ns = self._waited_ns = 0
        self._share = 1.0

    def share(self) -> float:
        """The share of a processor the thread should take, from how long it waited of late."""
        try:
            ran_ns, waited_ns, *_ = map(int, self._schedstat.read_bytes().split())
        except (OSError, ValueError):
            return 1.0
        ran, waited = ran_ns - self._ran_ns, waited_ns - self._waited_ns
        if ran >= LOOK_NS:
            self._share = max(LEAST_SHARE, 1 / (1 + WAIT_WEIGHT * waited / ran))
            self._ran_ns, self._waited_ns = ran_ns, waited_ns
        return self._share
