"""Stores in memory: for ``persistent=False``, for tests and for the TopologyTestDriver."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from weakref import WeakSet

from streamlet.state.backing import Columns


class MemoryBacking:
    """A dict of bytes whose keys can be walked in order.

    The sorted list of keys is put right at a scan: new keys wait in ``_fresh``, deleted
    ones stay in the list until half of it is gone. So writes cost what a dict costs.
    """

    def __init__(self) -> None:
        self._entries: dict[bytes, bytes] = {}
        self._sorted: list[bytes] = []  # all keys but those in _fresh, and some deleted ones
        self._fresh: dict[bytes, None] = {}
        #: Snapshots that have the same dict, which is copied before it changes under one.
        self._snapshots: WeakSet[MemorySnapshot] = WeakSet()

    def get(self, key: bytes) -> bytes | None:
        """The value, or None."""
        return self._entries.get(key)

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """The values, in order."""
        return list(map(self._entries.get, keys))

    def scan(
        self, low: bytes | None, high: bytes | None, *, backward: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries by key; a key put meanwhile is not seen, nor one that was deleted."""
        keys = self._in_order()
        start = 0 if low is None else bisect_left(keys, low)
        stop = len(keys) if high is None else bisect_left(keys, high)
        get = self._entries.get
        some = reversed(keys[start:stop]) if backward else keys[start:stop]
        return ((key, value) for key in some if (value := get(key)) is not None)

    def update(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Set and delete."""
        self._part_from_snapshots()
        entries, fresh = self._entries, self._fresh
        for key, value in zip(keys, values, strict=True):
            if value is None:
                entries.pop(key, None)
                continue
            if key not in entries:
                fresh[key] = None
            entries[key] = value

    def delete_range(self, low: bytes, high: bytes) -> None:
        """Delete from ``low`` (inclusive) to ``high`` (exclusive)."""
        self._part_from_snapshots()
        keys = self._in_order()
        start, stop = bisect_left(keys, low), bisect_left(keys, high)
        for key in keys[start:stop]:
            self._entries.pop(key, None)
        del keys[start:stop]

    def snapshot(self) -> MemorySnapshot:
        """The entries as they are now."""
        taken = MemorySnapshot(self._entries)
        self._snapshots.add(taken)
        return taken

    def _part_from_snapshots(self) -> None:
        if self._snapshots:
            self._entries, self._snapshots = dict(self._entries), WeakSet()

    def _in_order(self) -> list[bytes]:
        if self._fresh or len(self._sorted) > 2 * len(self._entries):
            # A key deleted and put again is in both. Two sorted runs sort in about one pass.
            known = [key for key in self._sorted if key in self._entries and key not in self._fresh]
            known += sorted(key for key in self._fresh if key in self._entries)
            known.sort()
            self._sorted, self._fresh = known, {}
        return self._sorted


class MemorySnapshot(MemoryBacking):
    """The entries of a store at one moment; its keys are put in order for the first scan.

    Args:
        entries: which stay as they are.
    """

    def __init__(self, entries: dict[bytes, bytes]) -> None:
        super().__init__()
        self._entries = entries
        self._is_sorted = False

    def _in_order(self) -> list[bytes]:
        if not self._is_sorted:
            self._sorted, self._is_sorted = sorted(self._entries), True
        return self._sorted


class MemoryEngine:
    """Stores that live as long as the process."""

    bulk_records = sys.maxsize

    def __init__(self, stores: Sequence[str]) -> None:
        self._stores = {name: MemoryBacking() for name in stores}
        self._meta: bytes | None = None

    def backing(self, store: str) -> MemoryBacking:
        """The rows of one store."""
        return self._stores[store]

    def snapshot(self, store: str) -> MemorySnapshot:
        """One store as it is now."""
        return self._stores[store].snapshot()

    def read_meta(self) -> bytes | None:
        """Read the ``meta`` of the last write."""
        return self._meta

    def write(self, columns: Sequence[Columns], meta: bytes) -> None:
        """Take entries and meta."""
        for part in columns:
            self._stores[part.store].update(part.keys, part.values)
            if part.expired is not None:
                self._stores[part.store].delete_range(*part.expired)
        self._meta = meta

    def write_ahead(self, columns: Columns) -> None:
        """Take entries of one store."""
        self._stores[columns.store].update(columns.keys, columns.values)

    def bulk(self, columns: Columns) -> None:
        """Take entries as ``write_ahead`` does."""
        self.write_ahead(columns)

    def wipe(self) -> None:
        """Start empty."""
        self._stores = {name: MemoryBacking() for name in self._stores}
        self._meta = None

    def close(self) -> None:
        """Forget everything."""
        self._stores = {}
