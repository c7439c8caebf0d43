"""The rows of a store of windows, read by times and record keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from streamlet.serdes.windowed import Windowed, windowed_of
from streamlet.state.record_keys import RecordKeys
from streamlet.state.store_commits import StoreCommits
from streamlet.state.store_parts import TimedRow
from streamlet.state.store_times import EVER
from streamlet.state.window_rows import time_bytes
from streamlet.state.window_times import WindowTimes

#: The bytes of the first and the last record key of a range, both inclusive; None: an open end.
KeyRange: TypeAlias = tuple[bytes | None, bytes | None]
ALL_KEYS: KeyRange = (None, None)


class WindowReads:
    """Reads of windows.

    Args:
        commits: of the store.
        times: of the windows.
    """

    def __init__(self, commits: StoreCommits, times: WindowTimes) -> None:
        self._commits, self._times, self._key = commits, times, times.layout.key
        keys = RecordKeys(self._key)
        self.ckeys, self.record_key = keys.ckeys, keys.record_key

    # Keys.

    def key_bytes(self, key: Any) -> bytes:
        """The bytes of a record key; raises ``SerdeError`` if it is of a wrong type."""
        return self._key.encode(key)

    def row(self, key: Any, time: int) -> tuple[int, Any]:
        """The cache key of the row that a key's window is in."""
        (ckey,) = self.ckeys([key])
        return self._times.row_time(time), ckey

    def keys_of(self, ckeys: list[Any]) -> list[Windowed[Any]]:
        """The windows of cache keys."""
        end, record_key = self._times.end, self.record_key
        return [windowed_of((record_key(ckey), start, end(start))) for start, ckey in ckeys]

    def row_ids(self, keys: list[Windowed[Any]]) -> list[Any]:
        """Keys of a dict that tell windows apart, for their keys."""
        ckeys = self.ckeys([key.key for key in keys])
        return [(ckey, key.start, key.end) for ckey, key in zip(ckeys, keys, strict=True)]

    # Rows.

    def timed(
        self,
        low: int | None,
        high: int | None,
        keys: KeyRange = ALL_KEYS,
        *,
        backward: bool = False,
        first: int | None = None,
    ) -> Iterator[tuple[Windowed[Any], Any, int]]:
        """Windows from one start to another (ms, both inclusive), with the times of their rows.

        In the order of their starts, then of the bytes of their keys; ``backward``: the last one
        first. Only those that are shown, unless ``first`` is given, the time of the first one.
        """
        if first is None:
            first = max(self._times.shown_from, EVER if low is None else low)
        last = None if high is None else time_bytes(high + 1)
        end = self._times.end
        for (start, ckey), value, time in self.rows(time_bytes(first), last, keys, backward):
            yield windowed_of((self.record_key(ckey), start, end(start))), value, time

    def rows(
        self, first: bytes, last: bytes | None, keys: KeyRange, backward: bool
    ) -> Iterator[TimedRow]:
        """Rows of these keys, from one time to another, with the times of the rows."""
        scan = self._commits.scan
        if keys == ALL_KEYS:
            yield from scan(first, last, backward=backward)
            return
        while (found := next(scan(first, last, backward=backward), None)) is not None:
            (time, _), _, _ = found
            low, high = rows_between(time, keys)
            yield from scan(low, high, backward=backward)
            if backward:
                last = time_bytes(time)
            else:
                first = time_bytes(time + 1)


def rows_between(time: int, keys: KeyRange) -> tuple[bytes, bytes]:
    """The bytes of the row keys of one time and a range of record keys."""
    head, (low, high) = time_bytes(time), keys
    return head + (low or b""), time_bytes(time + 1) if high is None else head + high + b"\0"
