"""Closes stores on a thread of its own, so that nobody waits for the disk.

Closing a task's database flushes it: tens of milliseconds in which the worker's other tasks would
stand still, at the very moment in which one of them changes hands. Until it is done the folder is
locked; whoever wants it tries again.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

from streamlet.errors import StreamletError
from streamlet.runtime.opening import OpenTask

log = logging.getLogger(__name__)


class Closer:
    """Closes what it is given, one after the other."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="streamlet-closer")

    def close(self, opened: OpenTask) -> None:
        """Close these stores soon; nobody may use them any more."""
        self._thread.submit(_close, opened)

    def finish(self) -> None:
        """Wait until all are closed; nothing can be given to it any more."""
        self._thread.shutdown(wait=True)


def _close(opened: OpenTask) -> None:
    try:
        opened.close()
    except StreamletError as error:
        log.warning("closing the stores of %s: %s", opened.task, error)
    except Exception:
        log.exception("closing the stores of %s", opened.task)
