"""Reads a table's source topic as its changelog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.state.changelog import RecordReader

#: ``(keys, values, times, headers) -> (keys, rows)``.
Taken: TypeAlias = Callable[
    [list[bytes], list[bytes | None], list[int], Sequence[Headers | None] | None],
    tuple[list[bytes], list[bytes | None]],
]


class PlainReader(RecordReader):
    """Reads a source topic that is the changelog of its table: no numbers, everything counts.

    Args:
        taken: what of columns of keys, values, times and headers the table took, as keys and rows.
    """

    def __init__(self, taken: Taken) -> None:
        super().__init__()
        self._taken = taken

    def read(self, batch: PartitionBatch) -> tuple[list[bytes], list[bytes | None]]:
        """The records without those that have no key, which a table drops, as far as taken."""
        if None in batch.keys:
            batch = batch.select([key is not None for key in batch.keys])
        keys = [key for key in batch.keys if key is not None]
        return self._taken(keys, batch.values, batch.timestamps, batch.headers)
