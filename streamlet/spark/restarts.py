"""Decides whether a query that failed begins again from its checkpoint, and after which pause."""

from __future__ import annotations

import attrs

from streamlet.doubling import doubled
from streamlet.errors import SparkFailedError

#: The first pause, which doubles each time, and the longest, seconds.
_FIRST_S, _LONGEST_S = 1, 60


@attrs.define
class Restarts:
    """The restarts of one query.

    Args:
        limit: how many in a row, without a micro-batch between them that succeeded.
    """

    limit: int
    #: How many since the last micro-batch that succeeded.
    in_a_row: int = 0
    #: How many altogether.
    total: int = 0

    def succeeded(self) -> None:
        """Note a micro-batch: what failed before it counts no more."""
        self.in_a_row = 0

    def pause_s(self, error: SparkFailedError) -> float:
        """The pause before the query begins again, seconds.

        Raises:
            SparkFailedError: the given one: it would fail again, or did too often.
        """
        if not error.by_chance or self.in_a_row >= self.limit:
            raise error
        self.in_a_row += 1
        self.total += 1
        return float(doubled(_FIRST_S, _LONGEST_S, self.in_a_row - 1))
