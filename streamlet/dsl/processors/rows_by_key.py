"""The part of a store of values by key that its views need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from streamlet.serdes import Serde
from streamlet.state.rows import NO_TIME


class RowsByKey(Protocol):
    """The rows of a store of values by key: those of a task's store, or of a reader of one."""

    name: str

    def get(self, key: Any) -> Any | None:
        """The value of a key, or None."""
        ...

    def put(self, key: Any, value: Any | None, time_ms: int = NO_TIME) -> None:
        """Set the value of a key and the time of its row, ms, or delete it with None."""
        ...

    def ckeys(self, keys: list[Any]) -> list[Any]:
        """The cache keys of record keys."""
        ...

    def timestamp(self, key: Any) -> int | None:
        """The time of a key's row, ms; None if there is none."""
        ...

    def range(self, low: Any | None = None, high: Any | None = None) -> Iterator[tuple[Any, Any]]:
        """Entries from one key to another, both inclusive, in the order of key bytes."""
        ...

    def backward_range(self, low: Any | None, high: Any | None) -> Iterator[tuple[Any, Any]]:
        """The entries of ``range``, the last one first."""
        ...

    def prefix(
        self, prefix: Any, serde: Serde[Any] | None = None, *, backward: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        """Entries whose key bytes begin with those of ``prefix``, in order."""
        ...
