"""Decides whether a query that failed begins again from its checkpoint, and after which pause."""

from __future__ import annotations

import attrs

from streamlet.errors import SparkFailedError
from streamlet.retries import Retries

#: The first pause, which doubles each time, and the longest, ms.
_FIRST_MS, _LONGEST_MS = 1_000, 60_000


@attrs.define
class Restarts:
    """The restarts of one query.

    Args:
        limit: how many in a row, without a micro-batch between them that succeeded.
    """

    limit: int
    #: How many altogether.
    total: int = 0
    _retries: Retries = attrs.field(factory=lambda: Retries(_FIRST_MS, _LONGEST_MS), init=False)

    @property
    def in_a_row(self) -> int:
        """The restarts since the last micro-batch that succeeded."""
        return self._retries.failures

    def succeeded(self) -> None:
        """Note a micro-batch: what failed before it counts no more."""
        self._retries.reset()

    def pause_s(self, error: SparkFailedError) -> float:
        """The pause before the query begins again, seconds.

        Raises:
            SparkFailedError: the given one: it would fail again, or did too often.
        """
        if not error.by_chance or self.in_a_row >= self.limit:
            raise error
        self.total += 1
        return self._retries.next_ms() / 1000
