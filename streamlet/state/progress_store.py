"""A store whose row keys begin with a time, and which keeps times of its own with its rows.

It is a ``CachedStore`` whose cache keys are pairs ``(time, cache key of the record key)``. The
stream time of its operator and the latest time that was put (``WindowProgress``) are a row of the
store, written with every commit that changed them: so they go wherever the rows go.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import compress, filterfalse
from operator import itemgetter
from typing import Any

from streamlet.serdes import Serde
from streamlet.state.backing import Backing
from streamlet.state.progress_row import ProgressRow
from streamlet.state.rows import NO_TIME
from streamlet.state.store import CachedStore
from streamlet.state.window_rows import FIRST_KEY, WindowProgress, row_keys

_MISSING = object()
#: Below all times.
EVER = -(1 << 63)


class ProgressStore(CachedStore):
    """A store of rows by time and key, with its progress.

    Args:
        name: of the store.
        key: serde of the record keys.
        value: serde of the rows' values.
        backing: where the bytes are.
    """

    def __init__(self, name: str, key: Serde[Any], value: Serde[Any], backing: Backing) -> None:
        super().__init__(name, row_keys(key), value, backing)
        self._record_key = key
        self._progress = ProgressRow(name, backing, self._begun)
        self._beside = self._progress
        #: Rows above this time are in the cache, all there are.
        self._complete_above = EVER

    @property
    def progress(self) -> WindowProgress:
        """The times that the store has come to."""
        return self._progress.now or self._progress.read()

    def _begun(self, now: WindowProgress) -> None:
        """Take note that all rows above the latest time were written by this store."""
        self._complete_above = now.highest

    def advance(self, observed: int, highest: int = NO_TIME, emitted: bytes | None = None) -> None:
        """Raise the stream time and the latest time that was put, and note what was emitted."""
        now = self.progress
        self._progress.now = WindowProgress(
            max(now.observed, observed),
            max(now.highest, highest),
            now.emitted if emitted is None else emitted,
        )

    def observed(self, stream: int) -> int:
        """The stream time of one of the streams whose operators share the store."""
        if not stream:
            return self.progress.observed
        times = _times(self.progress.emitted)
        return times[stream - 1] if stream <= len(times) else NO_TIME

    def observe(self, stream: int, observed: int, highest: int) -> None:
        """Raise the stream time of one stream, and the latest time that was put."""
        if not stream:
            self.advance(observed, highest)
            return
        times = _times(self.progress.emitted)
        times += [NO_TIME] * (stream - len(times))
        times[stream - 1] = max(times[stream - 1], observed)
        self.advance(NO_TIME, highest, struct.pack(f">{len(times)}q", *times))

    # The hot way.

    def ckeys(self, keys: list[Any]) -> list[Any]:
        """Cache keys of decoded record keys; the list itself where keys are exact."""
        if self._record_key.exact is not None:
            return keys
        return self._record_key.encode_column(keys)

    def load(self, ckey: Any) -> Any | None:
        """The value of a row by its cache key, or None; it is in the cache afterwards."""
        value = self.cache.get(ckey, _MISSING)
        if value is _MISSING:
            if self._is_new(ckey[0]):
                value = None
                (self._keep or self.cache.__setitem__)(ckey, None)
            else:
                value = super().load(ckey)
            self._index([ckey])
        return value

    def load_many(self, ckeys: Iterable[Any]) -> None:
        """Fetch what is not in the cache; one call to the medium for all."""
        wanted = list(dict.fromkeys(filterfalse(self.cache.__contains__, ckeys)))
        if not wanted:
            return
        times = list(map(itemgetter(0), wanted))
        new = set(filter(self._is_new, set(times)))
        if new:
            keep = self._keep or self.cache.__setitem__
            for ckey in compress(wanted, map(new.__contains__, times)):
                keep(ckey, None)
        super().load_many(wanted)
        self._index(wanted)

    def load_old(self, ckeys: Iterable[Any]) -> None:
        """Fetch those rows that may be on the medium only; one call to the medium for all.

        ``load`` finds out about the others without the medium.
        """
        old = self._complete_above
        self.load_many([ckey for ckey in ckeys if ckey[0] <= old])

    def _is_new(self, time: int) -> bool:
        """True if rows of the time are in the cache, if there are any."""
        return self._progress.now is not None and time > self._complete_above

    def _left_cache(self, ckeys: Iterable[Any]) -> None:
        """Take note of rows that are no longer in the cache."""
        latest = max(map(itemgetter(0), ckeys), default=EVER)
        self._complete_above = max(self._complete_above, latest)

    def _index(self, ckeys: Iterable[Any]) -> None:
        """Take note of rows that came into the cache."""

    def record_key(self, ckey: Any) -> Any:
        """The record key of the second part of a cache key."""
        return ckey if self._record_key.exact is not None else self._record_key.decode(ckey)

    def _evicted(self, ckeys: list[Any]) -> None:
        self._left_cache(ckeys)

    def _raw_rows(
        self, low: bytes | None, high: bytes | None, *, backward: bool
    ) -> Iterator[tuple[bytes, Any, bytes | None]]:
        first = FIRST_KEY if low is None else low
        return super()._raw_rows(first, high, backward=backward)


def _times(noted: bytes) -> list[int]:
    """The stream times of all streams but the first."""
    return list(struct.unpack(f">{len(noted) // 8}q", noted))
