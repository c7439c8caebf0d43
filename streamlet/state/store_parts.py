"""The parts of a store as its commits use them: rows in memory, and steps that go with those."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import attrs

from streamlet.state.backing import Columns
from streamlet.state.checked import EntryCheck

#: A row by its cache key: the key, its value and its time.
TimedRow = tuple[Any, Any, int]


class HeldRows(Protocol):
    """The rows that a store has in memory, by cache key."""

    #: What a dirty row takes beside its entry, bytes.
    dirty_row_bytes: int

    def count(self) -> int:
        """Number of rows."""
        ...

    def entry(self, ckey: Any) -> tuple[Any, int] | None:
        """The value and the time of a row; None: it is not in memory."""
        ...

    def columns(self, ckeys: Iterable[Any]) -> tuple[list[Any], list[int]]:
        """The values and the times of rows that are dirty."""
        ...

    def delete(self, ckey: Any) -> None:
        """Delete a row that has no bytes."""
        ...

    def drained(self) -> None:
        """Note that dirty rows are pinned now."""
        ...

    def undone(self) -> None:
        """Note that pinned rows are dirty again."""
        ...

    def written(self, done: dict[Any, int]) -> None:
        """Note that pinned rows are on the medium."""
        ...

    def clear(self) -> None:
        """Remove all rows."""
        ...

    def evict(self, limit_bytes: int, recent: Iterable[Any]) -> None:
        """Remove clean rows until memory is below the limit: oldest first, ``recent`` last."""
        ...

    def sampled_bytes(self) -> float | None:
        """Estimate of what a row takes, bytes; None without rows."""
        ...

    def refuse(self, check: EntryCheck) -> None:
        """Refuse from now on what does not pass a check."""
        ...

    def check_invariants(self) -> None:
        """Assert what must hold between two calls; for tests."""
        ...


@attrs.frozen(eq=False, kw_only=True)
class Steps:
    """Calls of one part of a store when its rows take a step; None: no call."""

    before_drain: Callable[[], None] | None = None
    drained: Callable[[Columns], Columns] | None = None
    undone: Callable[[], None] | None = None
    written: Callable[[], None] | None = None
    forgotten: Callable[[], None] | None = None
    #: Gets what was read from the changelog, before it goes to the medium.
    read: Callable[[Columns], Columns] | None = None
    check_invariants: Callable[[], None] | None = None
    #: Get the cache keys of rows that came into a dict from the medium, and that were evicted.
    came: Callable[[Iterable[Any]], None] | None = None
    left: Callable[[Sequence[Any]], None] | None = None
