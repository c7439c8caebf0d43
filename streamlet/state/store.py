"""The key-value store of one task: a write-behind cache of Python objects over bytes.

Reads and writes touch a dict; a key or value is serialised when it goes to the medium, once per
commit, whatever number of updates it saw. Each row has a timestamp, which goes with it to the
medium and the changelog (``state.rows``). The dict is public on purpose: operators work on it in
their loops, by three rules.

1. Its keys are *cache keys*: record keys where the key serde is exact (str, int, bytes), else their
   bytes. ``1``, ``1.0`` and ``True`` are one key of a dict but not one record key: ``ckeys`` and
   methods that take Python keys see to that.
2. Who writes ``cache[ckey]`` marks ``ckey`` with its time afterwards (``mark``). None: deleted.
3. A key that is not in the cache is fetched with ``load``; None in it: there is no such key.

Values belong to the store: an object that was read must not be changed unless it is put back.

What becomes of dirty rows: ``store_commits``. Stores of other kinds have such rows, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress, filterfalse, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from streamlet.columnwise import put_times
from streamlet.serdes import Serde
from streamlet.state.backing import Backing, end_of_prefix
from streamlet.state.beside import Beside
from streamlet.state.checked import CheckedCache, EntryCheck
from streamlet.state.eviction import KEPT_AFTER_EVICTION, oldest
from streamlet.state.rows import NO_TIME, Changes, time_of_row, times_of_rows
from streamlet.state.sizes import row_bytes
from streamlet.state.store_commits import StoreCommits
from streamlet.state.store_parts import Steps
from streamlet.state.unreadable import rows_of_store

if TYPE_CHECKING:
    from streamlet.state.row_ttl import RowTtl

_MISSING = object()


class CachedStore:
    """A key-value store of Python keys and values, with the hot way described above.

    The ``1``/``True``/``1.0`` trap is its business: keys that are one dict key but not one record
    key stay apart.

    Args:
        name: of the store.
        key: serde of the keys.
        value: serde of the values.
        backing: where the bytes are.
        beside: what it keeps beside the rows of its keys.
        steps: of the store that it is a part of, if it is.
        is_new: of keys that begin with a time: true of those whose rows are all in the cache.
    """

    dirty_row_bytes = 0

    def __init__(
        self,
        name: str,
        key: Serde[Any],
        value: Serde[Any],
        backing: Backing,
        beside: Beside | None = None,
        steps: Sequence[Steps] = (),
        is_new: Callable[[int], bool] | None = None,
    ) -> None:
        self.name = name
        self._exact, self.exact_keys = key.exact, key.exact is not None
        #: Values by cache key; all dirty and pinned keys are in it.
        self.cache: dict[Any, Any] = {}
        self._times: dict[Any, int] = {}  # of rows in the cache that are neither
        #: Puts what is stored already into a cache that would measure it; None for a plain one.
        self._keep: Callable[[Any, Any], None] | None = None
        self._is_new = is_new
        self._came = [one.came for one in steps if one.came is not None]
        self._left = [one.left for one in steps if one.left is not None]
        self.commits = StoreCommits(name, key, value, backing, self, beside, steps)
        #: Cache keys written since the last drain, oldest first, with the time of the row, ms.
        self.dirty = self.commits.dirty
        #: The expiry of its rows; None: they stay.
        self.ttl: RowTtl | None = None

    # The hot way.

    def ckeys(self, keys: list[Any]) -> list[Any]:
        """Cache keys of decoded record keys; the list itself where keys are exact."""
        return keys if self.exact_keys else self.commits.encoded(keys)

    def load(self, ckey: Any) -> Any | None:
        """The value of a cache key, or None; it is in the cache afterwards."""
        value = self.cache.get(ckey, _MISSING)
        if value is _MISSING:
            new = self._is_new is not None and self._is_new(ckey[0])
            raw = None if new else self.commits.stored(ckey)
            value = None if raw is None else self.commits.decoded(raw)
            if raw is not None:
                self._times[ckey] = time_of_row(raw)
            (self._keep or self.cache.__setitem__)(ckey, value)
            for came in self._came:
                came([ckey])
        return value

    def load_many(self, ckeys: Iterable[Any]) -> None:
        """Fetch what is not in the cache; one call to the medium for all."""
        wanted = list(dict.fromkeys(filterfalse(self.cache.__contains__, ckeys)))
        stored = wanted if self._is_new is None else self._without_new(wanted, self._is_new)
        if stored:
            raws = self.commits.stored_many(stored)
            keep = self._keep or self.cache.__setitem__
            for ckey, value in zip(stored, self.commits.decoded_all(raws), strict=True):
                keep(ckey, value)
            rows = {ckey: raw for ckey, raw in zip(stored, raws, strict=True) if raw is not None}
            self._times.update(zip(rows, times_of_rows(rows.values()), strict=True))
        if wanted:
            for came in self._came:
                came(wanted)

    def _without_new(self, wanted: list[Any], is_new: Callable[[int], bool]) -> list[Any]:
        """Keys whose rows may be on the medium; the others have none."""
        times = list(map(itemgetter(0), wanted))
        new = set(filter(is_new, set(times)))
        if not new:
            return wanted
        keep = self._keep or self.cache.__setitem__
        for ckey in compress(wanted, map(new.__contains__, times)):
            keep(ckey, None)
        return [ckey for ckey in wanted if ckey[0] not in new]

    def mark(self, ckeys: Iterable[Any], times: Iterable[int]) -> None:
        """Say that these were written to ``cache``, and the times of their rows, ms.

        Who writes a time above ``commits.latest`` raises that as well.
        """
        if type(self.dirty) is not dict:  # it notes what is written
            self.dirty.update(zip(ckeys, times, strict=True))
            return
        # Copies lie together; the given objects would keep pages of their poll from being freed.
        put_times(self.dirty, list(ckeys), list(times))

    def time_of(self, ckey: Any) -> int:
        """The time of a row that is in the cache, ms; -1 if it has none."""
        time = self.dirty.get(ckey)
        if time is None:
            time = self.commits.pinned.get(ckey)
        return self._times.get(ckey, NO_TIME) if time is None else time

    def times_of(self, ckeys: list[Any]) -> list[int]:
        """The times of rows that are in the cache, ms; -1 of those that have none."""
        dirty, of = self.dirty.get, self.time_of
        return [of(ckey) if (time := dirty(ckey)) is None else time for ckey in ckeys]

    def erase(self, ckey: Any) -> None:
        """Delete a row by its cache key."""
        self.cache[ckey] = None
        self.dirty[ckey] = NO_TIME

    def drop(self, ckeys: Sequence[Any]) -> None:
        """Take rows out of the cache; their changes are never written."""
        for rows in (self.cache, self._times):
            deque(map(rows.pop, ckeys, repeat(None)), maxlen=0)
        self.commits.unmark(ckeys)

    def keep(self, ckey: Any, raw: bytes) -> None:
        """Put a row of the medium into the cache."""
        (self._keep or self.cache.__setitem__)(ckey, self.commits.decoded(raw))
        self._times[ckey] = time_of_row(raw)

    # The way for all stores.

    def get(self, key: Any) -> Any | None:
        """The value, or None.

        Raises:
            SerdeError: the key is of a wrong type.
            StateError: the key is None, or the stored value cannot be decoded.
        """
        ckey = key if type(key) is self._exact else self._ckey(key)
        value = self.load(ckey)
        return value if self.ttl is None or value is None or self.ttl.shows(ckey) else None

    def put(self, key: Any, value: Any | None, time_ms: int = NO_TIME) -> None:
        """Set, or delete with None. The value is encoded at the next commit, not now.

        Raises:
            SerdeError: the key is of a wrong type.
            StateError: the key is None.
        """
        ckey = key if type(key) is self._exact else self._ckey(key)
        self.cache[ckey] = value
        self.dirty[ckey] = time_ms
        self.commits.reached(time_ms)

    def timestamp(self, key: Any) -> int | None:
        """The time of a key's row, ms; None if there is no such row, or it has no time.

        Raises:
            SerdeError: the key is of a wrong type.
            StateError: the key is None.
        """
        ckey = key if type(key) is self._exact else self._ckey(key)
        time = NO_TIME if self.load(ckey) is None else self.time_of(ckey)
        return None if time == NO_TIME or (self.ttl and not self.ttl.shows(ckey)) else time

    def range(self, low: Any | None = None, high: Any | None = None) -> Iterator[tuple[Any, Any]]:
        """Entries from ``low`` to ``high``, both inclusive, in the order of key bytes.

        What is put or deleted meanwhile may or may not be seen, but no deleted entry is returned.
        """
        return self._entries(*self._bounds(low, high))

    def backward_range(self, low: Any | None, high: Any | None) -> Iterator[tuple[Any, Any]]:
        """The entries of ``range``, the last one first."""
        return self._entries(*self._bounds(low, high), backward=True)

    def prefix(
        self, prefix: Any, serde: Serde[Any] | None = None, *, backward: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        """Entries whose key bytes begin with the bytes of ``prefix``, in the order of key bytes."""
        first = self.commits.key_bytes(prefix) if serde is None else serde.encode(prefix)
        return self._entries(first, end_of_prefix(first), backward=backward)

    def _entries(
        self, low: bytes | None, high: bytes | None, *, backward: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        """Entries, each as it is now; scanned values do not fill the cache."""
        commits, cached = self.commits, self.cache.get
        decode = None if self.exact_keys else commits.key.decode
        if self.ttl is not None:
            for ckey, value, _ in self.ttl.shown(commits.scan(low, high, backward=backward)):
                yield (ckey if decode is None else decode(ckey)), value
            return
        with rows_of_store(self.name):
            for key, ckey, raw in commits.raw_rows(low, high, backward=backward):
                value = cached(ckey, _MISSING)
                if value is _MISSING:
                    value = self.load(ckey) if raw is None else commits.decoded(raw)
                if value is not None:
                    yield (ckey if decode is None else decode(key)), value

    def _ckey(self, key: Any) -> Any:
        raw = self.commits.key_bytes(key)
        return self.commits.key.decode(raw) if self.exact_keys else raw

    def _bounds(self, low: Any | None, high: Any | None) -> tuple[bytes | None, bytes | None]:
        key_bytes = self.commits.key_bytes
        first = None if low is None else key_bytes(low)
        return first, None if high is None else key_bytes(high) + b"\x00"

    # Rows that were written since the last commit.

    def changes(self, olds: bool) -> Changes:
        """The rows that were written, and if ``olds``, what they were then.

        All commits before must be on the medium. Rows that only expired are left out.
        """
        found = self.commits.changes(olds, self._keys_of)
        return found if self.ttl is None else self.ttl.changes(found, self.dirty)

    def row_ids(self, keys: list[Any]) -> list[Any]:
        """Keys of a dict that tell rows apart, for keys of these rows."""
        return self.ckeys(keys)

    def keep_expired(self, keep: bool) -> None:
        """Have ``changes`` tell of rows that expire from now on, or no more."""

    def _keys_of(self, ckeys: list[Any]) -> list[Any]:
        return ckeys if self.exact_keys else list(map(self.commits.key.decode, ckeys))

    # What its commits do with the rows in memory.

    def count(self) -> int:
        """Number of rows in the cache."""
        return len(self.cache)

    def entry(self, ckey: Any) -> tuple[Any, int] | None:
        """The value and the time of a row; None: it is not in the cache."""
        value = self.cache.get(ckey, _MISSING)
        return None if value is _MISSING else (value, self.time_of(ckey))

    def columns(self, ckeys: Iterable[Any]) -> tuple[list[Any], list[int]]:
        """The values and the times of rows that are dirty."""
        return [self.cache[ckey] for ckey in ckeys], list(self.dirty.values())

    def delete(self, ckey: Any) -> None:
        """Delete a row that has no bytes."""
        self.cache[ckey] = None

    def drained(self) -> None:
        """Do nothing: rows in a dict bear no marks."""

    def undone(self) -> None:
        """Do nothing: rows in a dict bear no marks."""

    def written(self, done: dict[Any, int]) -> None:
        """Keep the times of rows that are on the medium now."""
        self._times.update(done)

    def clear(self) -> None:
        """Empty the cache."""
        self.cache.clear()
        self._times.clear()

    def evict(self, limit_bytes: int, recent: Iterable[Any]) -> None:
        """Drop clean entries until the cache is below the limit: oldest first, ``recent`` last."""
        cache, pinned = self.cache, self.commits.pinned
        kept = int(limit_bytes * KEPT_AFTER_EVICTION / self.commits.row_bytes)
        victims = oldest(cache, self.dirty, pinned, recent, len(cache) - kept)
        for ckey in victims:
            del cache[ckey]
            self._times.pop(ckey, None)
        for left in self._left:
            left(victims)

    def sampled_bytes(self) -> float | None:
        """Estimate of what an entry takes, bytes; None without entries."""
        return row_bytes(self.cache, self.dirty)

    def refuse(self, check: EntryCheck) -> None:
        """Refuse from now on entries that do not pass a check, when they are put."""
        checked = CheckedCache(self.cache, check)
        self.cache, self._keep = checked, checked.keep

    def check_invariants(self) -> None:
        """Assert what must hold between two calls; for tests."""
        assert self.dirty.keys() <= self.cache.keys(), "a dirty key is not in the cache"
        pinned = self.commits.pinned.keys()
        assert pinned <= self.cache.keys(), "a pinned key is not in the cache"
