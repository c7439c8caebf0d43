"""The ports between ``store``/``task_state`` and the medium that keeps their bytes.

An ``StorageEngine`` holds all stores of a task on one medium, because they must be written in one
piece; a ``Backing`` is one store of it. Keys and values are bytes here; a value of None deletes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, Self, runtime_checkable

import attrs


@attrs.frozen(eq=False)
class Columns:
    """Entries of one store in columns of equal length; a value of None deletes its key.

    ``expired`` is a range of keys, from the first (inclusive) to the second, that is deleted after
    the entries were put. It goes to the medium only, never to the changelog.
    """

    store: str
    keys: list[bytes]
    values: list[bytes | None]
    expired: tuple[bytes, bytes] | None = None

    def pieces(self, rows: int) -> Iterator[Self]:
        """The entries, so many at a time; without the range that is deleted after them."""
        for start in range(0, len(self.keys), rows):
            part = slice(start, start + rows)
            yield attrs.evolve(self, keys=self.keys[part], values=self.values[part], expired=None)


class Backing(Protocol):
    """The bytes of one store, as of the last write."""

    def get(self, key: bytes) -> bytes | None:
        """The value, or None."""
        ...

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """The values of several keys, in their order."""
        ...

    def scan(
        self, low: bytes | None, high: bytes | None, *, backward: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries from ``low`` (inclusive) to ``high`` (exclusive), by key, as they are now.

        ``backward``: the last one first.
        """
        ...


@runtime_checkable
class MeasuredBacking(Protocol):
    """A store on a medium that knows figures of itself."""

    def figures(self) -> dict[str, int]:
        """Figures by RocksDB's names of them; raises ``StateError`` if the medium refuses."""
        ...


@attrs.frozen
class StoreFigures:
    """Counts and sizes of one store.

    Attributes:
        written: rows that commits put on the medium since the store was opened.
        read: rows that were asked of the medium, because they were not in memory.
        cached_bytes: memory of rows that are kept, an estimate.
        medium: figures by RocksDB's names; empty for a store in memory.
    """

    written: int
    read: int
    cached_bytes: int
    medium: Mapping[str, int]


class StorageEngine(Protocol):
    """All stores of one task on one medium, and a few bytes that describe them (``meta``)."""

    @property
    def bulk_records(self) -> int:
        """From so many entries on, ``bulk`` is faster than ``write``."""
        ...

    def backing(self, store: str) -> Backing:
        """One store; good until ``wipe`` or ``close``."""
        ...

    def snapshot(self, store: str) -> Backing:
        """One store as it is now, whatever is written later; for any thread."""
        ...

    def read_meta(self) -> bytes | None:
        """Read the ``meta`` of the last write."""
        ...

    def write(self, columns: Sequence[Columns], meta: bytes) -> None:
        """Write everything or nothing, also when the process is killed meanwhile.

        Raises:
            StateError: the medium refused.
        """
        ...

    def write_ahead(self, columns: Columns) -> None:
        """Write some entries of one store, all or none of them, and leave ``meta`` as it is.

        Raises:
            StateError: the medium refused.
        """
        ...

    def bulk(self, columns: Columns) -> None:
        """Write many entries with distinct keys, in any order, the fast way.

        Durable on return, but a kill meanwhile may leave all or nothing of it.

        Raises:
            StateError: the medium refused.
        """
        ...

    def wipe(self) -> None:
        """Empty all stores and meta; backings must be asked for again."""
        ...

    def close(self) -> None:
        """Free the medium; everything written stays where it is persistent."""
        ...


def end_of_prefix(prefix: bytes) -> bytes | None:
    """The least bytes above all that begin with ``prefix``; None if there are none."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else None
