"""Reads a table's source topic as its changelog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import TypeAlias

from streamlet.kafka.ports import Headers
from streamlet.types import NO_STATE

#: ``(keys, values, times, headers) -> (keys, rows)``.
Taken: TypeAlias = Callable[
    [list[bytes], list[bytes | None], list[int], Sequence[Headers | None] | None],
    tuple[list[bytes], list[bytes | None]],
]


class PlainReader:
    """Reads a source topic that is the changelog of its table: no numbers, everything counts.

    Args:
        taken: what of columns of keys, values, times and headers the table took, as keys and rows.
    """

    def __init__(self, taken: Taken) -> None:
        self._taken = taken
        self.highest = 0
        self.newest = self.beyond = NO_STATE
        self.skipped: dict[bytes, int] = {}

    def position(self, position: int) -> int:
        """``position`` itself."""
        return position

    def epoch_before(self, position: int) -> int:
        """None: a source topic has no epochs."""
        return 0

    def read(
        self,
        offsets: Sequence[int],
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        headers: Sequence[Headers | None] | None,
        times: Sequence[int] = (),
    ) -> tuple[list[bytes], list[bytes | None]]:
        """The records without those that have no key, which a table drops, as far as taken."""
        if None in keys:
            kept = [key is not None for key in keys]
            keys, values = list(compress(keys, kept)), list(compress(values, kept))
            times = list(compress(times, kept))
            headers = headers and list(compress(headers, kept))
        there = [key for key in keys if key is not None]
        return self._taken(there, list(values), list(times), headers)
