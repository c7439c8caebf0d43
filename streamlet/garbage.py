"""Python's garbage collector, out of the way of work that leaves nothing in cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: While a hand-over is open young garbage is collected only after so long, ms.
YOUNG_MS = 1_000
#: There is no full collection before so long after the last, ms.
FULL_MS = 60_000


@contextmanager
def without_gc() -> Iterator[None]:
    """Collect no garbage: Python would look for cycles again and again, and there are none."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class GarbageCollection:
    """Python's garbage collector, called where a pause does no harm.

    Closed tasks are cycles with all that their stores had cached. They have grown old, so only a
    full collection finds them, which looks through all that lives: some ten ms for each 100,000
    objects. So there is one once tasks were closed, at most each minute.
    """

    def __init__(self) -> None:
        self._closed = False
        self._young_by_ms = self._full_from_ms = 0

    def closed(self) -> None:
        """Note that a task was closed."""
        self._closed = True

    def due(self, now_ms: int) -> bool:
        """True if young garbage must be collected now, even while records wait."""
        return now_ms >= self._young_by_ms

    def collect(self, now_ms: int, *, busy: bool) -> None:
        """Collect what is due; ``busy``: another member waits for us."""
        if not busy and self._closed and now_ms >= self._full_from_ms:
            self._closed, self._full_from_ms = False, now_ms + FULL_MS
            gc.collect()
        elif not busy or self.due(now_ms):
            gc.collect(1)
        else:
            return
        self._young_by_ms = now_ms + YOUNG_MS
