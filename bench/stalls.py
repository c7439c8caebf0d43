"""How long the machine lets nobody run, as a process that only sleeps finds out.

A virtual machine stands still whenever its host serves others, and nothing that runs in it knows.
So beside what takes tens of milliseconds a process sleeps a millisecond at a time, at the highest
priority it may have, and notes when it was woken much later: what was measured then says something
of the machine. If it may not raise its priority it also notes that others kept it waiting.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.processes import end_with_input

_ROOT = Path(__file__).resolve().parent.parent
_SLEEP_S = 0.001
_HIGHEST = -20
#: Linux shares processors out among sessions first; only within one do nice values count.
_AUTOGROUP = Path("/proc/self/autogroup")
#: What counts as a stall, ms: twice the time slice of a scheduler.
LEAST_MS = 6


class Stalls:
    """The stalls seen so far, each from when to when, ms."""

    def __init__(self, seen: Sequence[tuple[int, int]] = ()) -> None:
        self._seen = list(seen)

    def take(self, line: str) -> None:
        """One more, as the process says it."""
        begin, end = line.split()
        self._seen.append((int(begin), int(end)))

    def longest(self, window: tuple[int, int]) -> int:
        """The longest that touches the window, ms; 0 where there is none."""
        low, high = window
        within = [end - begin for begin, end in self._seen if begin <= high and end >= low]
        return max(within, default=0)


@contextmanager
def watching() -> Iterator[Stalls]:
    """Watch the machine while the block lasts."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.stalls"],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # else its autogroup would be ours, whose share is that of one
    )
    assert process.stdout is not None
    stalls = Stalls()
    lines = process.stdout

    def read() -> None:
        for line in lines:
            stalls.take(line)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield stalls
    finally:
        try:
            end_with_input(process)
        finally:
            reader.join()
            lines.close()


def seen(ended: Callable[[], bool], now_ns: Callable[[], int]) -> Iterator[tuple[int, int]]:
    """Each stall, from when to when, ms, until ``ended``, which waits a millisecond, says so."""
    over = False
    while not over:
        began = now_ns()
        over = ended()
        woken = now_ns()
        if woken - began >= LEAST_MS * 1_000_000:
            yield began // 1_000_000, woken // 1_000_000


def main() -> None:
    """Say each stall until standard input ends."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, _HIGHEST)
    with contextlib.suppress(OSError):
        _AUTOGROUP.write_text(str(_HIGHEST))

    def ended() -> bool:
        return bool(select.select([sys.stdin], [], [], _SLEEP_S)[0])

    for begin, end in seen(ended, time.time_ns):
        print(begin, end, flush=True)


if __name__ == "__main__":
    main()
