"""The key-value store of a table whose rows expire (``Materialized(ttl=)``).

A row has expired once stream time is ``ttl`` past its own time. Stream time is that of the
operators that touch the store, and is kept with the timers beside it (``dsl.graph.row_expiry``).
What has expired is not shown from then on, though it is deleted a little later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from streamlet.serdes import Serde
from streamlet.state.backing import Backing, Columns
from streamlet.state.rows import NO_TIME, Changes
from streamlet.state.store import CachedStore
from streamlet.state.timer_store import TimerStore


class ExpiringStore(CachedStore):
    """A store whose rows expire.

    Args:
        name: of the store.
        key: serde of the keys.
        value: serde of the values.
        backing: where the bytes are.
        ttl_ms: the time, by stream time, since a row's own time.
    """

    def __init__(
        self, name: str, key: Serde[Any], value: Serde[Any], backing: Backing, ttl_ms: int
    ) -> None:
        super().__init__(name, key, value, backing)
        self.ttl_ms = ttl_ms
        #: The store of timers beside it, set by the operators of its task.
        self.timers: TimerStore | None = None
        #: Cache keys of rows that have expired and were deleted since the last commit.
        self._dropped: set[Any] = set()

    def has_expired(self, ckey: Any, now: int) -> bool:
        """True if the row of a key in the cache has expired by a stream time, ms."""
        return self.cache.get(ckey) is not None and self._is_over(self.time_of(ckey), now)

    def drop(self, ckey: Any) -> None:
        """Delete a row that has expired; readers downstream do not see that."""
        self.cache[ckey] = None
        self.dirty[ckey] = NO_TIME
        self._dropped.add(ckey)

    def _is_over(self, time: int, now: int) -> bool:
        return time != NO_TIME and time + self.ttl_ms <= now

    @property
    def _now(self) -> int:
        return NO_TIME if self.timers is None else self.timers.progress.observed

    # The way for all stores.

    def get(self, key: Any) -> Any | None:
        """The value, or None; errors as of ``CachedStore``."""
        ckey = self._ckey(key)
        value = self.load(ckey)
        return None if value is None or self._is_over(self.time_of(ckey), self._now) else value

    def timestamp(self, key: Any) -> int | None:
        """The time of a key's row, ms; None if there is no such row, or it has no time."""
        return None if self.get(key) is None else super().timestamp(key)

    def _timed_scan(
        self, low: bytes | None, high: bytes | None, *, backward: bool = False
    ) -> Iterator[tuple[Any, Any, int]]:
        for entry in super()._timed_scan(low, high, backward=backward):
            if not self._is_over(entry[2], self._now):
                yield entry

    def _scan(
        self, low: bytes | None, high: bytes | None, *, backward: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        return ((key, value) for key, value, _ in self._timed_scan(low, high, backward=backward))

    # What the task's state does with it.

    def changes(self, olds: bool) -> Changes:
        """The rows that were written since the last commit, without those that only expired."""
        found = super().changes(olds)
        if not self._dropped:
            return found
        gone = [ckey in self._dropped for ckey in self.dirty]
        if found.olds is not None:  # a row that expired and was written again is a new one
            pairs = zip(found.olds, gone, strict=True)
            found = attrs.evolve(found, olds=[None if new else old for old, new in pairs])
        keep = [not new or v is not None for v, new in zip(found.values, gone, strict=True)]
        columns = (found.keys, found.values, found.olds, found.times)
        return Changes(*(_kept(column, keep) for column in columns))  # type: ignore[arg-type]

    def drain(self, again: Iterable[bytes] = ()) -> Columns:
        """Encode the dirty entries; as of ``CachedStore``."""
        columns = super().drain(again)
        self._dropped.clear()
        return columns

    def forget(self) -> None:
        """Empty the cache: what is on the medium has changed."""
        super().forget()
        self._dropped.clear()


def _kept(column: list[Any] | None, keep: list[bool]) -> list[Any] | None:
    if column is None:
        return None
    return [entry for entry, kept in zip(column, keep, strict=True) if kept]
