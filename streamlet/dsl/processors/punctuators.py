"""Functions that a processor has called at intervals, of stream time or of the clock.

As in Kafka Streams: by stream time they are due at the multiples of the interval from 0, so the
first record calls them at once; by the clock one interval after the start. One call makes up for
all that were missed, and what is due next stays aligned.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Literal, TypeAlias

import attrs

from streamlet.absent import explains_misuse

#: By which time a function is called.
PunctuationType: TypeAlias = Literal["stream_time", "wall_clock"]

#: Called with the time, ms; what it returns or yields is forwarded.
Punctuator: TypeAlias = Callable[[int], Any]


@explains_misuse
@attrs.define(eq=False)
class Cancellable:
    """A function that is called at intervals, until it is cancelled."""

    interval_ms: int
    function: Punctuator
    cancelled: bool = False

    def cancel(self) -> None:
        """Call it no more."""
        self.cancelled = True


class Punctuators:
    """The functions that are called by one kind of time."""

    def __init__(self) -> None:
        #: Due time, number in order of creation, and what is due.
        self._waiting: list[tuple[int, int, Cancellable]] = []
        #: Grows when something is added.
        self.number = 0

    def add(self, due_ms: int, interval_ms: int, function: Punctuator) -> Cancellable:
        """Call a function at a time for the first time, and then at intervals."""
        added = Cancellable(interval_ms, function)
        self._push(due_ms, added)
        return added

    @property
    def due_ms(self) -> int | None:
        """The time of the next call, ms; None: nothing is called any more."""
        while self._waiting and self._waiting[0][2].cancelled:
            heappop(self._waiting)
        return self._waiting[0][0] if self._waiting else None

    def take(self, now_ms: int) -> tuple[int, Cancellable] | None:
        """The next function to call at this time, with its due time; None: none is due.

        ``again`` is to be called behind the call.
        """
        due = self.due_ms
        if due is None or due > now_ms:
            return None
        _, _, taken = heappop(self._waiting)
        return due, taken

    def again(self, due_ms: int, now_ms: int, called: Cancellable) -> None:
        """Schedule a punctuator that was called for its next time, later than now."""
        if not called.cancelled:
            interval = called.interval_ms
            self._push(due_ms + ((now_ms - due_ms) // interval + 1) * interval, called)

    def _push(self, due_ms: int, entry: Cancellable) -> None:
        heappush(self._waiting, (due_ms, self.number, entry))
        self.number += 1
