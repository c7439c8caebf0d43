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

    cache  ── drain ──▶  pinned (on its way to the changelog)  ── written ──▶  the medium
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from operator import add
from typing import Any

from streamlet.errors import SerdeError, StateError
from streamlet.serdes import ColumnError, Serde
from streamlet.state.backing import Backing, Columns, end_of_prefix
from streamlet.state.beside import Beside, NothingBeside
from streamlet.state.checked import CheckedCache, EntryCheck, unwritable
from streamlet.state.eviction import KEPT_AFTER_EVICTION, oldest
from streamlet.state.merged_scan import merged
from streamlet.state.overlay import Overlay
from streamlet.state.rows import NO_TIME, TIME_BYTES, Changes, rows_of, time_of_row, times_of_rows
from streamlet.state.sizes import EntrySize, row_bytes
from streamlet.state.source_times import SourceTimes
from streamlet.state.unreadable import rows_of_store

_MISSING = object()


class CachedStore:
    """A ``topology.operator.StoreOfOperators`` with the hot way described above.

    Args:
        name: of the store.
        key: serde of the keys.
        value: serde of the values.
        backing: where the bytes are.
    """

    def __init__(self, name: str, key: Serde[Any], value: Serde[Any], backing: Backing) -> None:
        self.name = name
        self.exact_keys = key.exact is not None
        #: Values by cache key; all dirty and pinned keys are in it.
        self.cache: dict[Any, Any] = {}
        #: Cache keys written since the last drain, oldest first, with the time of the row, ms.
        self.dirty: dict[Any, int] = {}
        #: No row is younger than this, ms; -1 where there is none.
        self.latest = NO_TIME
        self._pinned: dict[Any, int] = {}  # drained, not yet written
        self._times: dict[Any, int] = {}  # of rows in the cache that are neither
        #: Puts what is stored already into a cache that would measure it; None for a plain one.
        self._keep: Callable[[Any, Any], None] | None = None
        self._key = key
        self._value = value
        self._backing = backing
        self._overlay = Overlay(self._to_bytes)
        #: What it keeps beside the rows of its keys.
        self._beside: Beside = NothingBeside()
        #: Of a topic that it is restored from.
        self.source_times = SourceTimes(None)
        self._entry_size = EntrySize(self._sampled_bytes)

    def taken(
        self, keys: list[bytes], values: list[bytes | None], times: list[int]
    ) -> tuple[list[bytes], list[bytes | None]]:
        """Records of other writers that this store took, as keys and rows that it would write.

        A record that the serdes cannot read, or that has no time, never came through; a restore
        leaves it out as well, or the row would be unreadable that was an older one or missing.
        """
        return self.source_times.taken(self._key, self._value, keys, values, times)

    # The hot way.

    def ckeys(self, keys: list[Any]) -> list[Any]:
        """Cache keys of decoded record keys; the list itself where keys are exact."""
        return keys if self.exact_keys else self._encoded(keys)

    def load(self, ckey: Any) -> Any | None:
        """The value of a cache key, or None; it is in the cache afterwards."""
        value = self.cache.get(ckey, _MISSING)
        if value is _MISSING:
            raw = self._backing.get(self._key.encode(ckey) if self.exact_keys else ckey)
            value = None if raw is None else self._decoded(raw)
            if raw is not None:
                self._times[ckey] = time_of_row(raw)
            (self._keep or self.cache.__setitem__)(ckey, value)
        return value

    def load_many(self, ckeys: Iterable[Any]) -> None:
        """Fetch what is not in the cache; one call to the medium for all."""
        cache = self.cache
        wanted = list(dict.fromkeys(ckey for ckey in ckeys if ckey not in cache))
        if not wanted:
            return
        raws = self._backing.get_many(self._to_bytes(wanted))
        keep = self._keep or cache.__setitem__
        for ckey, value in zip(wanted, self._decoded_all(raws), strict=True):
            keep(ckey, value)
        rows = {ckey: raw for ckey, raw in zip(wanted, raws, strict=True) if raw is not None}
        self._times.update(zip(rows, times_of_rows(rows.values()), strict=True))

    def mark(self, ckeys: Iterable[Any], times: Iterable[int]) -> None:
        """Say that these were written to ``cache``, and the times of their rows, ms.

        Who writes a time above ``latest`` raises that as well.
        """
        # Copies lie together; the given objects would keep pages of their poll from being freed.
        self.dirty.update(zip(ckeys, map(add, times, repeat(0)), strict=True))

    def time_of(self, ckey: Any) -> int:
        """The time of a row that is in the cache, ms; -1 if it has none."""
        time = self.dirty.get(ckey)
        if time is None:
            time = self._pinned.get(ckey)
        return self._times.get(ckey, NO_TIME) if time is None else time

    def times_of(self, ckeys: list[Any]) -> list[int]:
        """The times of rows that are in the cache, ms; -1 of those that have none."""
        dirty, of = self.dirty.get, self.time_of
        return [of(ckey) if (time := dirty(ckey)) is None else time for ckey in ckeys]

    # The way for all stores.

    def get(self, key: Any) -> Any | None:
        """The value, or None.

        Raises:
            SerdeError: the key is of a wrong type.
            StateError: the key is None, or the stored value cannot be decoded.
        """
        return self.load(self._ckey(key))

    def put(self, key: Any, value: Any | None, time_ms: int = NO_TIME) -> None:
        """Set, or delete with None. The value is encoded at the next commit, not now.

        Raises:
            SerdeError: the key is of a wrong type.
            StateError: the key is None.
        """
        ckey = self._ckey(key)
        self.cache[ckey] = value
        self.dirty[ckey] = time_ms
        self.latest = max(self.latest, time_ms)

    def timestamp(self, key: Any) -> int | None:
        """The time of a key's row, ms; None if there is no such row, or it has no time.

        Raises:
            SerdeError: the key is of a wrong type.
            StateError: the key is None.
        """
        ckey = self._ckey(key)
        time = NO_TIME if self.load(ckey) is None else self.time_of(ckey)
        return None if time == NO_TIME else time

    def range(self, low: Any | None = None, high: Any | None = None) -> Iterator[tuple[Any, Any]]:
        """Entries from ``low`` to ``high``, both inclusive, in the order of key bytes.

        What is put or deleted meanwhile may or may not be seen, but no deleted entry is returned.
        """
        return self._scan(*self._bounds(low, high))

    def backward_range(self, low: Any | None, high: Any | None) -> Iterator[tuple[Any, Any]]:
        """The entries of ``range``, the last one first."""
        return self._scan(*self._bounds(low, high), backward=True)

    def prefix(self, prefix: Any, serde: Serde[Any] | None = None) -> Iterator[tuple[Any, Any]]:
        """Entries whose key bytes begin with the bytes of ``prefix``, in the order of key bytes."""
        first = self._key_bytes(prefix) if serde is None else serde.encode(prefix)
        return self._scan(first, end_of_prefix(first))

    def check_entries(self, most: int | None) -> None:
        """Refuse from now on what has no bytes, or makes a record of more than so many bytes."""
        checked = CheckedCache(self.cache, EntryCheck(self.name, self._size, most))
        self.cache, self._keep = checked, checked.keep

    def _size(self, ckey: Any, value: Any) -> int:
        key = self._key.encode(ckey) if self.exact_keys else ckey
        row = 0 if value is None else len(self._value.encode(value))
        return len(key) + TIME_BYTES + row

    # What the task's state does with it.

    def changes(self, olds: bool) -> Changes:
        """The rows that were written since the last commit, and if ``olds``, what they were then.

        All commits before must be on the medium.
        """
        ckeys = list(self.dirty)
        values, times = self._dirty_columns()
        assert not (olds and self._pinned), f"{self.name}: the medium is not as of the last commit"
        raws = self._backing.get_many(self._to_bytes(ckeys)) if olds and ckeys else []
        olds_then = self._decoded_all(raws) if olds else None
        return Changes(self._keys_of(ckeys), values, olds_then, times)

    def row_ids(self, keys: list[Any]) -> list[Any]:
        """Keys of a dict that tell rows apart, for keys of these rows."""
        return self.ckeys(keys)

    def keep_expired(self, keep: bool) -> None:
        """Have ``changes`` tell of rows that expire from now on, or no more."""

    def _dirty_columns(self) -> tuple[list[Any], list[int]]:
        """The values and the times of the dirty rows."""
        return [self.cache[ckey] for ckey in self.dirty], list(self.dirty.values())

    def _keys_of(self, ckeys: list[Any]) -> list[Any]:
        return ckeys if self.exact_keys else list(map(self._key.decode, ckeys))

    def has_changes(self) -> bool:
        """True if a drain would return anything."""
        return bool(self.dirty) or self._beside.has_changes()

    def drain(self, again: Iterable[bytes] = ()) -> Columns:
        """Encode what has changed, and the present values of the keys in ``again``.

        The entries are pinned until ``written``.

        Raises:
            SerdeError: a value cannot be encoded; nothing has changed then.
        """
        assert not self._pinned, f"{self.name}: drained twice without a write"
        ckeys = list(self.dirty)
        values, times = self._dirty_columns()
        try:
            raws = self._value.encode_rows(values)
            keys = self._to_bytes(ckeys)
        except ColumnError as error:
            raise unwritable(self.name, ckeys[error.index], error.cause) from error
        if self._value.encode_all is None and None in raws:  # a serde that writes None deletes
            for ckey in (one for one, raw in zip(ckeys, raws, strict=True) if raw is None):
                self.cache[ckey] = None
        rows = rows_of(raws, times)
        rest = list(dict.fromkeys(again)) if again else []
        beside_keys, beside_rows = self._beside.drain(rest)
        keys, rows = beside_keys + keys, beside_rows + rows
        if rest:
            covered = set(keys)
            rest = [key for key in rest if key not in covered]
            keys, rows = keys + rest, rows + self._backing.get_many(rest)
        self._pinned = dict(self.dirty)
        self.dirty.clear()
        self._entry_size.changed(len(ckeys))
        self._overlay.drained()
        return Columns(self.name, keys, rows)

    def undo_drain(self) -> None:
        """Take back a drain: the entries are dirty again."""
        self._beside.undo_drain()
        self.dirty = {**self._pinned, **self.dirty}
        self.written()

    def written(self) -> dict[Any, int]:
        """Note that a drain is on the medium; its cache keys need not stay in the cache."""
        done, self._pinned = self._pinned, {}
        self._times.update(done)
        self._overlay.written()
        self._beside.written()
        return done

    def reset(self, backing: Backing) -> None:
        """Forget everything that is not on the medium, which is this one now."""
        self.forget()
        self.dirty.clear()
        self._backing = backing
        self._beside.reset(backing)
        self.written()
        self._times.clear()

    def forget(self) -> None:
        """Empty the cache: what is on the medium has changed."""
        self.cache.clear()
        self._times.clear()
        self._beside.forget()

    def with_expired(self, columns: Columns) -> Columns:
        """Entries from the changelog with the range of rows that expire with them."""
        return columns

    def cache_bytes(self) -> int:
        """Estimate of what the cache takes in memory."""
        return int(len(self.cache) * self._entry_size.of(len(self.cache)))

    def dirty_bytes(self) -> int:
        """Estimate of what the entries take that cannot be evicted."""
        return int((len(self.dirty) + len(self._pinned)) * self._entry_size.of(len(self.cache)))

    def evict(self, limit_bytes: int, recent: Iterable[Any] = ()) -> None:
        """Drop clean entries until the cache is below the limit: oldest first, ``recent`` last."""
        if self.cache_bytes() <= limit_bytes:
            return
        cache = self.cache
        kept = int(limit_bytes * KEPT_AFTER_EVICTION / self._entry_size.of(len(cache)))
        victims = oldest(cache, self.dirty, self._pinned, recent, len(cache) - kept)
        for ckey in victims:
            del cache[ckey]
            self._times.pop(ckey, None)
        self._evicted(victims)

    def _evicted(self, ckeys: list[Any]) -> None:
        """Take note of rows that were evicted."""

    def check_invariants(self) -> None:
        """Assert what must hold between two calls; for tests."""
        assert self.dirty.keys() <= self.cache.keys(), "a dirty key is not in the cache"
        assert self._pinned.keys() <= self.cache.keys(), "a pinned key is not in the cache"

    # Inside.

    def _scan(
        self, low: bytes | None, high: bytes | None, *, backward: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        """Entries, each as it is now; scanned values do not fill the cache."""
        cached, decode = self.cache.get, None if self.exact_keys else self._key.decode
        with rows_of_store(self.name):
            for key, ckey, raw in self._raw_rows(low, high, backward=backward):
                value = cached(ckey, _MISSING)
                if value is _MISSING:
                    value = self.load(ckey) if raw is None else self._decoded(raw)
                if value is not None:
                    yield (ckey if decode is None else decode(key)), value

    def _timed_scan(
        self, low: bytes | None, high: bytes | None, *, backward: bool = False
    ) -> Iterator[tuple[Any, Any, int]]:
        """Entries as ``_scan``, each with the time of its row."""
        with rows_of_store(self.name):
            for key, ckey, raw in self._raw_rows(low, high, backward=backward):
                yield from self._entry(key, ckey, raw)

    def _raw_rows(
        self, low: bytes | None, high: bytes | None, *, backward: bool
    ) -> Iterator[tuple[bytes, Any, bytes | None]]:
        """The medium's rows with what was written since laid over them (``merged``)."""
        newer = self._overlay.between(self._pinned, self.dirty, low, high, backward=backward)
        older = self._backing.scan(low, high, backward=backward)
        is_bytes = not self.exact_keys or self._key.exact is bytes
        return merged(older, newer, None if is_bytes else self._key.decode, backward=backward)

    def _entry(self, key: bytes, ckey: Any, raw: bytes | None) -> Iterator[tuple[Any, Any, int]]:
        """The entry as it is now, unless it is deleted; scanned values do not fill the cache."""
        value = self.cache.get(ckey, _MISSING)
        if value is _MISSING and raw is not None:
            value, time = self._decoded(raw), time_of_row(raw)
        else:
            value, time = self.load(ckey), self.time_of(ckey)
        if value is not None:
            yield (ckey if self.exact_keys else self._key.decode(key)), value, time

    def _ckey(self, key: Any) -> Any:
        if self.exact_keys and type(key) is self._key.exact:
            return key
        raw = self._key_bytes(key)
        return self._key.decode(raw) if self.exact_keys else raw

    def _key_bytes(self, key: Any) -> bytes:
        if key is None:
            raise StateError(f"store {self.name}: a key cannot be None")
        return self._key.encode(key)

    def _bounds(self, low: Any | None, high: Any | None) -> tuple[bytes | None, bytes | None]:
        first = None if low is None else self._key_bytes(low)
        return first, None if high is None else self._key_bytes(high) + b"\x00"

    def _to_bytes(self, ckeys: list[Any]) -> list[bytes]:
        return self._encoded(ckeys) if self.exact_keys else list(ckeys)

    def _encoded(self, keys: list[Any]) -> list[bytes]:
        raws = self._key.encode_column(keys)
        if None in raws:
            raise StateError(f"store {self.name}: a key cannot be None")
        return raws  # type: ignore[return-value]

    def _decoded(self, raw: bytes) -> Any:
        try:
            return self._value.decode(raw[TIME_BYTES:])
        except SerdeError as error:
            raise StateError(f"store {self.name}: {error}") from error

    def _decoded_all(self, raws: list[bytes | None]) -> list[Any]:
        try:
            return self._value.decode_column([raw and raw[TIME_BYTES:] for raw in raws])
        except ColumnError as error:
            raise StateError(f"store {self.name}: {error.cause}") from error.cause

    def _sampled_bytes(self) -> float | None:
        return row_bytes(self.cache, self.dirty)
