"""The stream time of a task record by record, though its records come in batches."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, islice

from streamlet.batch import Batch


class StreamTimes:
    """The stream time as of each record of the present batch of a source.

    Nothing is computed unless an operator asks.
    """

    def __init__(self) -> None:
        self._offsets: Sequence[int] = ()
        self._timestamps: Sequence[int] = ()
        self._before = -1
        self._highest: list[int] | None = None

    def begin(self, batch: Batch, before: int) -> None:
        """Take the batch that is processed next, and the stream time before it, ms."""
        self._offsets, self._timestamps = batch.offsets, batch.timestamps
        self._before, self._highest = before, None

    def at(self, offset: int) -> int:
        """The stream time once the record at an offset was taken, ms."""
        index = bisect_left(self._offsets, offset)
        return self._times()[min(index, len(self._offsets) - 1)] if self._offsets else self._before

    def reached(self, time: int, offset: int) -> tuple[int, int] | None:
        """The first record from ``offset`` on with which stream time is ``time`` ms or later.

        Returns:
            Its offset, and the stream time then; None: no record of the batch does that.
        """
        times = self._times()
        index = max(bisect_left(times, time), bisect_left(self._offsets, offset))
        return (self._offsets[index], times[index]) if index < len(times) else None

    def _times(self) -> list[int]:
        if self._highest is None:
            highest = accumulate(self._timestamps, max, initial=self._before)
            self._highest = list(islice(highest, 1, None))
        return self._highest
