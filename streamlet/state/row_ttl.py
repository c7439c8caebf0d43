"""The expiry of the rows of a table (``Materialized(ttl=)``).

A row has expired once stream time is ``ttl`` past its own time. Stream time is that of the
operators that touch the store, and is kept with the timers beside it (``dsl.graph.row_expiry``).
What has expired is not shown from then on, though it is deleted a little later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import attrs

from streamlet.state.backing import Columns
from streamlet.state.rows import NO_TIME, Changes
from streamlet.state.store_parts import Steps, TimedRow
from streamlet.state.timer_store import TimerStore

if TYPE_CHECKING:
    from streamlet.state.store import CachedStore


class RowTtl:
    """The time for which rows are shown.

    Args:
        store: of the rows.
        ttl_ms: the time, by stream time, since a row's own time.
    """

    def __init__(self, store: CachedStore, ttl_ms: int) -> None:
        self.ttl_ms = ttl_ms
        #: The store of timers beside it, set by the operators of its task.
        self.timers: TimerStore | None = None
        self._store = store
        #: Cache keys of rows that have expired and were deleted since the last commit.
        self._dropped: set[Any] = set()
        store.commits.add(Steps(drained=self._drained, forgotten=self._dropped.clear))

    def has_expired(self, ckey: Any, now: int) -> bool:
        """True if the row of a key in the cache has expired by a stream time, ms."""
        store = self._store
        return store.cache.get(ckey) is not None and self._is_over(store.time_of(ckey), now)

    def drop(self, ckey: Any) -> None:
        """Delete a row that has expired; readers downstream do not see that."""
        self._store.erase(ckey)
        self._dropped.add(ckey)

    def shows(self, ckey: Any) -> bool:
        """True if the row of a key in the cache has not expired."""
        return not self._is_over(self._store.time_of(ckey), self._now)

    def shown(self, rows: Iterable[TimedRow]) -> Iterator[TimedRow]:
        """Rows that have not expired when they are read."""
        return (row for row in rows if not self._is_over(row[2], self._now))

    def changes(self, found: Changes, ckeys: Iterable[Any]) -> Changes:
        """Rows that were written, without those that only expired; by their cache keys."""
        if not self._dropped:
            return found
        gone = [ckey in self._dropped for ckey in ckeys]
        if found.olds is not None:  # a row that expired and was written again is a new one
            pairs = zip(found.olds, gone, strict=True)
            found = attrs.evolve(found, olds=[None if new else old for old, new in pairs])
        keep = [not new or v is not None for v, new in zip(found.values, gone, strict=True)]
        columns = (found.keys, found.values, found.olds, found.times)
        return Changes(*(_kept(column, keep) for column in columns))  # type: ignore[arg-type]

    def _is_over(self, time: int, now: int) -> bool:
        return time != NO_TIME and time + self.ttl_ms <= now

    @property
    def _now(self) -> int:
        return NO_TIME if self.timers is None else self.timers.progress.observed

    def _drained(self, columns: Columns) -> Columns:
        self._dropped.clear()
        return columns


def _kept(column: list[Any] | None, keep: list[bool]) -> list[Any] | None:
    if column is None:
        return None
    return [entry for entry, kept in zip(column, keep, strict=True) if kept]
