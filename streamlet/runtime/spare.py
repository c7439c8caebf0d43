"""A spare worker process: it has loaded streamlet and waits for its orders.

A new interpreter takes a second of a processor until it has loaded streamlet and its clients. The
tasks of a crashed worker wait for that if their state is here, or their static id. A spare process
has it behind it. It loads in a thread of low priority, once the workers have run for a while, and
imports the application only when it gets its orders.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
from collections.abc import Sequence

import attrs

from streamlet.clock import Clock

log = logging.getLogger(__name__)

#: How long no worker has started before a spare process does, ms: by then those that started run.
PAUSE_MS = 10_000


@attrs.frozen
class Launched:
    """A worker's process without orders, and the read end of the pipe its events come through."""

    process: subprocess.Popen[bytes]
    events: int

    def end(self) -> None:
        """Kill the process, which has nothing, and close the pipes."""
        self.process.kill()
        self.process.wait()
        close_stdin(self.process)
        os.close(self.events)


def launch(command: Sequence[str]) -> Launched:
    """Start a worker's process; it does nothing before its orders come."""
    read, write = os.pipe()
    process = subprocess.Popen(
        [*command, "--events-fd", str(write)],
        stdin=subprocess.PIPE,
        pass_fds=(write,),
        # Ctrl-C in the terminal is for the supervisor alone. The session is its own: where Linux
        # shares processors out among sessions first, no priority counts between two of them.
        process_group=0,
    )
    os.close(write)
    return Launched(process, read)


def close_stdin(process: subprocess.Popen[bytes]) -> None:
    """Close the pipe of a worker's orders."""
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):  # it may have died with an order unread
            process.stdin.close()


class Spare:
    """Has one process ready for the next worker that starts.

    Args:
        command: the command line of a spare process.
        clock: for the pause.
        pause_ms: how long no worker has started before the process does.
    """

    def __init__(self, command: Sequence[str], clock: Clock, pause_ms: int = PAUSE_MS) -> None:
        self._command = list(command)
        self._clock = clock
        self._pause_ms = pause_ms
        self._waiting: Launched | None = None
        #: When the next process starts; None: not before another worker has.
        self._due_ms: int | None = None

    def take(self) -> Launched | None:
        """The process, for a worker that starts now; None if there is none."""
        found, self._waiting = self._waiting, None
        self._due_ms = self._clock.now_ms() + self._pause_ms
        if found is not None and found.process.poll() is not None:
            found.end()
            return None
        return found

    def keep(self) -> None:
        """Start the process when it is due.

        One that died meanwhile, as where memory is short, is not replaced.
        """
        if self._due_ms is not None and self._due_ms <= self._clock.now_ms():
            self._due_ms = None
            if self._waiting is None:
                self._waiting = launch(self._command)
                log.debug("a spare process waits (pid %d)", self._waiting.process.pid)

    def end(self) -> None:
        """End the process, and start none from now on until a worker starts."""
        waiting, self._waiting, self._due_ms = self._waiting, None, None
        if waiting is not None:
            waiting.end()
