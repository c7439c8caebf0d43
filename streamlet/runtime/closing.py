"""Closes stores on a thread of its own, so that no task waits for the disk.

Closing a task's database flushes it: tens of milliseconds in which the worker's other tasks would
stand still, at the very moment in which one of them changes hands. So it can be put off until the
new owner is at work, which may be on the same machine. Until it is done the folder is locked;
an opener tries again.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

from streamlet.clock import Clock
from streamlet.errors import StreamletError
from streamlet.runtime.opening import OpenTask

log = logging.getLogger(__name__)

#: How long after a task was given up its stores are closed, if no worker here waits for them, ms.
CLOSE_LATER_MS = 1_000


def close_later_ms(mode: str, siblings: bool) -> int:
    """The time to put it off, ms; ``siblings``: other workers share the folder.

    In mode ``eager`` stores that were given up are opened again by us, after each join.
    """
    return 0 if siblings or mode == "eager" else CLOSE_LATER_MS


class Closer:
    """Closes what it is given, one after the other.

    Args:
        clock: the time.
        pause_ms: how long nothing is done about a task, unless in a hurry.
    """

    def __init__(self, clock: Clock, pause_ms: int = 0) -> None:
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="streamlet-closer")
        self._pause_ms = pause_ms
        self._hurry = threading.Event()  # for what was given so far

    def close(self, opened: OpenTask) -> None:
        """Close these stores soon; the caller must not use them any more."""
        due_ms = self._clock.now_ms() + self._pause_ms
        self._thread.submit(self._close, opened, due_ms, self._hurry)

    def hurry(self) -> None:
        """Close all that was given so far without a pause: another worker may want it."""
        self._hurry.set()
        self._hurry = threading.Event()

    def finish(self) -> None:
        """Wait until all are closed; nothing can be given to it any more."""
        self.hurry()
        self._thread.shutdown(wait=True)

    def _close(self, opened: OpenTask, due_ms: int, hurry: threading.Event) -> None:
        hurry.wait(max(0, due_ms - self._clock.now_ms()) / 1000)
        try:
            opened.close()
        except StreamletError as error:
            log.warning("closing the stores of %s: %s", opened.task, error)
        except Exception:
            log.exception("closing the stores of %s", opened.task)
