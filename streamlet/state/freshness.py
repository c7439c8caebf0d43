"""The age of state: the time at which its position was last known to be the log's end."""

from __future__ import annotations

import attrs


@attrs.define
class Freshness:
    """Finds the time at which a position was the end of a log that goes on all the while."""

    _seen: tuple[int, int] | None = None  # wall-clock time of a look, and the end as of it

    def reached(self, position: int, now_ms: int, end: int | None) -> int | None:
        """The newest known time at which this position was the end of the log; None if unknown.

        ``end`` is where the log ends at ``now_ms``, None if it is not known.
        """
        if end is not None and position >= end:
            self._seen = None
            return now_ms
        at_ms = None
        if self._seen is not None and position >= self._seen[1]:
            at_ms, self._seen = self._seen[0], None
        if end is not None and (self._seen is None or end == self._seen[1]):
            self._seen = now_ms, end
        return at_ms
