"""The stores of a task over its segments in Spark's state, whose rows are read on demand."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from streamlet.spark.state.segments import Segments
from streamlet.state.backing import Backing, Columns
from streamlet.state.query_errors import InvalidStateStoreError


class SegmentBacking:
    """One store of a task in Spark's state, good during a batch."""

    def __init__(self, segments: Segments, store: str) -> None:
        self._segments, self._store = segments, store

    def get(self, key: bytes) -> bytes | None:
        """The value, or None."""
        return self._segments.get(self._store, key)

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """The values, in order; read by key, so that no block is read twice."""
        get, store = self._segments.get, self._store
        found = {key: get(store, key) for key in sorted(set(keys))}
        return [found[key] for key in keys]

    def scan(
        self, low: bytes | None, high: bytes | None, *, backward: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries by key; nothing is written during a batch but at its end."""
        return self._segments.scan(self._store, low, high, backward=backward)


class SegmentEngine:
    """A storage engine whose medium is Spark's; its runs are kept in Spark's header of the task.

    Args:
        segments: of the task.
    """

    bulk_records = sys.maxsize

    def __init__(self, segments: Segments) -> None:
        self.segments = segments

    def backing(self, store: str) -> SegmentBacking:
        """One store."""
        return SegmentBacking(self.segments, store)

    def snapshot(self, store: str) -> Backing:
        """Refuse: stores on Spark are read by the batches that change them, and by no others."""
        raise InvalidStateStoreError(f"store {store} cannot be queried while it runs on Spark")

    def read_meta(self) -> bytes | None:
        """None: positions and marks are in the header."""
        return None

    def write(self, columns: Sequence[Columns], meta: bytes) -> None:
        """Append one batch's changes."""
        self.segments.append(columns)

    def write_ahead(self, columns: Columns) -> None:
        """Take entries."""
        self.bulk(columns)

    def bulk(self, columns: Columns) -> None:
        """Append as ``write`` does."""
        self.segments.append([columns])

    def wipe(self) -> None:
        """Refuse: state is Spark's, and goes with its checkpoint.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("Spark's state goes with its checkpoint")

    def close(self) -> None:
        """Do nothing: Spark closes its state itself."""
