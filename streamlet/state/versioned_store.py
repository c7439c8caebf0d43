"""The versioned store of one task: the values that a key had, each with the time it began.

It can be asked what a key's value was at a time, as far back from the latest time that was put as
its history goes (``VersionSpec.history_ms``). A put may come out of order; one that is older than
the history is left out. The newest version of a key never expires, unless it is a deletion.

Rows are a head for each key, and chunks of older versions (``version_rows``), whose keys begin with
their ends: those that have expired lie in front. A commit deletes some of them, in the changelog
too, so that grows with the history and not with time. A key that was deleted has a chunk that ends
then, also if that is empty: when it expires, the head goes with it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import islice
from typing import Any, TypeAlias

from streamlet.errors import StateError
from streamlet.kafka.ports import Headers
from streamlet.serdes import Serde
from streamlet.state.backing import Backing, end_of_prefix
from streamlet.state.checked import CheckedCache
from streamlet.state.headed_parts import bare_parts, fitting, headers_of_part
from streamlet.state.record_keys import RecordKeys
from streamlet.state.rows import NO_TIME
from streamlet.state.store import CachedStore
from streamlet.state.store_parts import Steps
from streamlet.state.store_specs import VersionSpec
from streamlet.state.store_times import EVER, StoreTimes, StoreWithTimes
from streamlet.state.unreadable import rows_of_store
from streamlet.state.version_rows import (
    HEAD,
    ROW_VERSIONS,
    Version,
    VersionedRecord,
    VersionRow,
)
from streamlet.state.window_rows import FIRST_KEY, row_keys, time_bytes

#: A row's cache key: the end of a chunk, or ``HEAD``, and the cache key of the record key.
Place: TypeAlias = tuple[int, Any]

#: The end of the newest version, as ``put_version`` tells it.
NEWEST = HEAD
#: Told by ``put_version`` of a version that is older than the history.
NOT_PUT = -1
#: Chunks that one commit deletes, at most; the next commit takes the next ones.
EXPIRE_ROWS = 5_000
#: Expired chunks are looked for when so many parts of the history have passed.
_PARTS = 8


class VersionedStore(StoreWithTimes):
    """A store of the versions of keys.

    Values that were read must not be changed, nor lists of versions.

    Args:
        name: of the store.
        layout: keys and history.
        value: serde of the rows (``version_rows``).
        backing: where the bytes are.
    """

    def __init__(self, name: str, layout: VersionSpec, value: Serde[Any], backing: Backing) -> None:
        self.name, self.layout, self._keys = name, layout, RecordKeys(layout.key)
        self.times = StoreTimes(name, backing)
        steps = Steps(
            before_drain=self._expire,
            forgotten=self._forgotten,
            check_invariants=self._check_invariants,
        )
        keys = row_keys(layout.key)
        # Heads, which are of all times, may be on the medium: no row is known to be new.
        self.rows = CachedStore(name, keys, value, backing, self.times, (steps,))
        self.commits, self.dirty = self.rows.commits, self.rows.dirty
        self.load, self.load_many = self.rows.load, self.rows.load_many
        self.time_of, self.times_of = self.rows.time_of, self.rows.times_of
        self.advance = self.times.advance
        #: Expired chunks are looked for once this time is out of the history.
        self._look = EVER

    @property
    def cache(self) -> dict[Any, Any]:
        """Rows by cache key, as of ``CachedStore``."""
        return self.rows.cache

    @property
    def shown_from(self) -> int:
        """The earliest time of which the store can tell all, ms."""
        observed = self.progress.observed
        return EVER if observed == NO_TIME else observed - self.layout.history_ms

    # The hot way: heads are rows of the cache, by the cache keys that ``ckeys`` gives.

    def ckeys(self, keys: list[Any]) -> list[Any]:
        """The cache keys of the heads of decoded record keys."""
        return [(HEAD, ckey) for ckey in self._keys.ckeys(keys)]

    def newest(self, head: Place) -> Any | None:
        """The newest value of a key, by the cache key of its head; None: there is none."""
        row = self.load(head)
        return None if row is None else row[1][-1][1]

    def put_version(self, head: Place, value: Any | None, time: int) -> int:
        """Put a version; the time at which the next one begins, ``NEWEST`` or ``NOT_PUT``.

        A version of the same time is replaced.

        Raises:
            SerdeError: it cannot be written, in a store that checks its entries.
        """
        if isinstance(self.rows.cache, CheckedCache):  # before any of several rows is written
            self.rows.cache.check(head, ([], [(time, value)]))
        if time > self.progress.observed:
            self.advance(time, time)
        elif time < self.shown_from:
            return NOT_PUT
        row, headers = self.load(head), self.commits.parts
        bounds, versions = ([], []) if row is None else row
        version: Any = (time, value) if headers is None else headers.on((time, value))
        if not versions or time > versions[-1][0]:
            self._put_head(head, bounds, [*versions, version])
            return NEWEST
        if time == versions[-1][0]:
            self._put_head(head, bounds, [*versions[:-1], version])
            return NEWEST
        return self._put_behind(head, (bounds, versions), version)

    def as_of(self, head: Place, time: int) -> VersionedRecord[Any] | None:
        """The version of a key that was valid at a time, by the cache key of its head.

        None: there was none, or the time is out of the history and the newest version began later.
        """
        row = self.load(head)
        if row is None:
            return None
        bounds, versions = row
        if time >= versions[-1][0]:
            began, value = versions[-1]
            return None if value is None else VersionedRecord(value, began)
        if time < self.shown_from:
            return None
        if time >= versions[0][0] or not bounds or time >= bounds[-1]:
            return _found(versions, time, NEWEST)
        end = bounds[bisect_right(bounds, time)]
        chunk = self.load((end, head[1]))
        return None if chunk is None else _found(chunk[1], time, end)

    # Rows.

    def _put_head(self, head: Place, bounds: list[int], versions: list[Version]) -> None:
        """Write a head; what is too much of it goes to a chunk, and so does what was deleted."""
        oldest, shown = 0, self.shown_from
        while oldest < len(versions) - 1 and versions[oldest + 1][0] <= shown:
            oldest += 1
        if oldest:
            versions = versions[oldest:]
        if bounds and bounds[0] <= shown:
            bounds = bounds[bisect_right(bounds, shown) :]
        began, value = versions[-1]
        deleted = value is None and (not bounds or bounds[-1] < began)
        if deleted or len(versions) > ROW_VERSIONS:
            cut = len(versions) - 1 if deleted else len(versions) // 2
            end = versions[cut][0]
            self._write((end, head[1]), [], versions[:cut])
            bounds, versions = [*bounds, end], versions[cut:]
        self._write(head, bounds, versions)
        if value is not None:
            self.dirty[head] = began
            self.commits.reached(began)

    def _put_behind(self, head: Place, row: VersionRow, version: Version) -> int:
        """Put a version that is not the newest one; when the next one begins."""
        bounds, versions = row
        if not bounds or version[0] >= bounds[-1]:
            versions, end = _inserted(versions, version, NEWEST)
            self._put_head(head, bounds, versions)
            return end
        at = bisect_right(bounds, version[0])
        place = bounds[at], head[1]
        chunk = self.load(place)
        older, end = _inserted([] if chunk is None else chunk[1], version, bounds[at])
        if len(older) > ROW_VERSIONS:
            cut = len(older) // 2
            middle = older[cut][0]
            self._write((middle, head[1]), [], older[:cut])
            self._write(head, [*bounds[:at], middle, *bounds[at:]], versions)
            older = older[cut:]
            began, value = versions[-1]
            self.dirty[head] = NO_TIME if value is None else began
        self._write(place, [], older)
        return end

    def _write(self, place: Place, bounds: list[int], versions: list[Version]) -> None:
        cache, row = self.rows.cache, (bounds, versions)
        if self.commits.parts is not None and isinstance(cache, CheckedCache):
            row = fitting(cache.check, place, row, (bounds, bare_parts(versions)))
        cache[place] = row
        self.dirty[place] = NO_TIME

    # What expires.

    def _expire(self) -> None:
        """Delete some of the chunks that are out of the history, and heads that end with them."""
        shown = self.shown_from
        if shown < self._look:
            return
        front = self.commits.scan(FIRST_KEY, time_bytes(shown + 1))
        places = [place for place, _, _ in islice(front, EXPIRE_ROWS)]
        heads = dict.fromkeys((HEAD, ckey) for _, ckey in places)
        self.load_many([*places, *heads])
        for place in places:
            self.rows.erase(place)
        for head in heads:
            row = self.rows.cache[head]
            if row is not None:
                self._shorten(head, row, shown)
        all_done = len(places) < EXPIRE_ROWS
        self._look = shown + max(1, self.layout.history_ms // _PARTS) if all_done else shown

    def _shorten(self, head: Place, row: VersionRow, shown: int) -> None:
        """Delete a head that has nothing but a deletion out of the history, or write it shorter."""
        bounds, versions = row
        began, value = versions[-1]
        if value is None and began <= shown:
            self.rows.erase(head)
        elif bounds and bounds[0] <= shown:
            self._put_head(head, bounds, versions)

    # The way for all stores.

    def get(self, key: Any, as_of: int | None = None) -> VersionedRecord[Any] | None:
        """The newest version of a key, or the one that was valid at a time, ms.

        None if the key had no value then, or the time is out of the history: further back from the
        latest time that was put, while the newest version began later.

        Raises:
            SerdeError: the key is of a wrong type.
            StateError: the key is None, or the stored value cannot be decoded.
        """
        return self.as_of(self._head(key), HEAD if as_of is None else as_of)

    def put(self, key: Any, value: Any | None, time_ms: int = NO_TIME) -> None:
        """Put a value that is valid from a time on, until the next one begins; None deletes.

        One that is older than the history is left out.

        Raises:
            SerdeError: the key is of a wrong type.
            StateError: the key is None, or there is no time.
        """
        if time_ms < 0:
            raise StateError(f"store {self.name}: a version begins at a time, put(key, value, ms)")
        self.put_version(self._head(key), value, time_ms)

    def timestamp(self, key: Any) -> int | None:
        """The time at which the newest version of a key began, ms; None if there is none."""
        found = self.get(key)
        return None if found is None else found.timestamp

    def headers(self, key: Any, as_of: int | None = None) -> Headers:
        """The headers of the record that put the newest version, or the one of a time, ms.

        None where there is no such version; errors as of ``get``.
        """
        row = self.load(head := self._head(key))
        if row is None:
            return ()
        (bounds, versions), time = row, HEAD if as_of is None else as_of
        if time < versions[0][0] and bounds and time < bounds[-1]:
            chunk = self.load((bounds[bisect_right(bounds, time)], head[1]))
            versions = [] if chunk is None else chunk[1]
        at = bisect_right(versions, time, key=_begin_of)
        if not at or versions[at - 1][1] is None:
            return ()
        with rows_of_store(self.name):
            return headers_of_part(versions[at - 1])

    def between(self, key: Any, low: int, high: int) -> list[VersionedRecord[Any]]:
        """The versions of a key that were valid at some time from ``low`` to ``high``, ascending.

        Times out of the history count for the newest version only; errors as of ``get``.
        """
        row = self.load(head := self._head(key))
        if row is None:
            return []
        low = max(low, self.shown_from)
        ends = [end for end in row[0] if end > low]
        chunks = [(self.load((end, head[1])), end) for end in ends]
        found = [one for chunk, end in chunks if chunk for one in _records(chunk[1], end)]
        found += _records(row[1], NEWEST)
        return [
            one
            for one in found
            if one.timestamp <= high
            and (one.valid_to is None or (one.valid_to > low and low <= high))
        ]

    def range(self, low: Any | None = None, high: Any | None = None) -> Iterator[tuple[Any, Any]]:
        """Newest values of keys from ``low`` to ``high``, both inclusive, in the order of bytes."""
        head = time_bytes(HEAD)
        first = head if low is None else head + self._raw_key(low)
        return self._newest(first, None if high is None else head + self._raw_key(high) + b"\x00")

    def prefix(
        self, prefix: Any, serde: Serde[Any] | None = None, *, backward: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        """Newest values of keys whose bytes begin with those of ``prefix``, in order."""
        raw = self._raw_key(prefix) if serde is None else serde.encode(prefix)
        first = time_bytes(HEAD) + raw
        return self._newest(first, end_of_prefix(first), backward=backward)

    def _newest(
        self, first: bytes, last: bytes | None, *, backward: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        for (_, ckey), (_, versions), _ in self.commits.scan(first, last, backward=backward):
            if versions[-1][1] is not None:
                yield self._keys.record_key(ckey), versions[-1][1]

    def _head(self, key: Any) -> Place:
        if key is None:
            raise StateError(f"store {self.name}: a key cannot be None")
        (head,) = self.ckeys([key])
        return head  # type: ignore[no-any-return]

    def _raw_key(self, key: Any) -> bytes:
        return self.layout.key.encode(key)

    # Commits.

    def _forgotten(self) -> None:
        self._look = EVER

    def _check_invariants(self) -> None:
        rows = {place: row for place, row, _ in self.commits.scan(FIRST_KEY, None)}
        for (time, ckey), (bounds, versions) in rows.items():
            begins = [began for began, _ in versions]
            assert begins == sorted(set(begins)), "versions are not in order"
            assert bounds == sorted(set(bounds)), "the ends of chunks are not in order"
            if time != HEAD:
                assert all(began < time for began in begins), "a version is behind its chunk's end"
                continue
            assert versions, "a head without a version"
            assert not bounds or bounds[-1] <= begins[0], "a chunk ends behind a version of a head"
            live = [end for end in bounds if end > self.shown_from]
            assert all((end, ckey) in rows for end in live), "a chunk is missing"


def _found(versions: list[Version], time: int, end: int) -> VersionedRecord[Any] | None:
    """The version that was valid at a time; ``end`` is when the last one ended."""
    at = bisect_right(versions, time, key=_begin_of)
    if not at or versions[at - 1][1] is None:
        return None
    began, value = versions[at - 1]
    valid_to = versions[at][0] if at < len(versions) else end
    return VersionedRecord(value, began, None if valid_to == NEWEST else valid_to)


def _records(versions: list[Version], end: int) -> list[VersionedRecord[Any]]:
    """The versions that are no deletions; ``end`` is when the last one ended."""
    ends = [*(began for began, _ in versions[1:]), end][: len(versions)]  # a chunk may be empty
    return [
        VersionedRecord(value, began, None if valid_to == NEWEST else valid_to)
        for (began, value), valid_to in zip(versions, ends, strict=True)
        if value is not None
    ]


def _inserted(versions: list[Version], version: Version, end: int) -> tuple[list[Version], int]:
    """Versions with one more, or another one of the same time; when the next one begins."""
    at = bisect_left(versions, version[0], key=_begin_of)
    behind = at + 1 if at < len(versions) and versions[at][0] == version[0] else at
    valid_to = versions[behind][0] if behind < len(versions) else end
    return [*versions[:at], version, *versions[behind:]], valid_to


def _begin_of(version: Version) -> int:
    return version[0]
