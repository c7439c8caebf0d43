"""The store of sliding windows and sessions: the windows of one key and a span of time in one row.

Which windows a record touches is not known before they were looked at. In rows of their own they
would have to be found by a scan, amid writes; so the windows of a key whose times fall into one
*bucket* are one row, a list. A look-up is one or two gets, and rows still expire by their times.
"""

from __future__ import annotations

import struct
from bisect import insort
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

from streamlet.kafka.ports import Headers
from streamlet.serdes import Serde
from streamlet.serdes.serde import build
from streamlet.serdes.windowed import Windowed, windowed_of
from streamlet.state.backing import Backing
from streamlet.state.checked import CheckedCache
from streamlet.state.headed_parts import (
    HeadedPart,
    bare_parts,
    fitting,
    headers_of_part,
    read_block,
    with_block,
    written_block,
)
from streamlet.state.rows import NO_TIME
from streamlet.state.span_rows import SpanRows
from streamlet.state.store_specs import WindowSpec
from streamlet.state.unreadable import rows_of_store
from streamlet.state.window_reads import ALL_KEYS, KeyRange
from streamlet.state.window_rows import time_bytes
from streamlet.state.window_times import StoreOfWindows

#: A window: its time, which orders and expires it, a second time, its value. Of a sliding window
#: these are its start and the time of its youngest record, of a session its end and its start.
Item: TypeAlias = tuple[int, int, Any]

_HEAD = struct.Struct(">qqI")
#: In the length of a value: the headers of the window are behind it.
_HEADED = 1 << 31
_times_of = itemgetter(0, 1)


def bucket_rows(value: Serde[Any]) -> Serde[list[Item]]:
    """The serde of rows whose windows have values of a serde."""

    def encode(row: list[Item]) -> bytes:
        values = value.encode_rows([one for _, _, one in row])
        parts = []
        for item, raw in zip(row, values, strict=True):
            assert raw is not None, "a window without a value"
            if isinstance(item, HeadedPart):
                head = _HEAD.pack(item[0], item[1], len(raw) | _HEADED)
                parts += [head, raw, written_block(item)]
            else:
                parts += [_HEAD.pack(item[0], item[1], len(raw)), raw]
        return b"".join(parts)

    def decode(raw: bytes) -> list[Item]:
        at = 0
        row: list[Any] = []
        while at < len(raw):
            first, second, length = _HEAD.unpack_from(raw, at)
            at += _HEAD.size
            if length < _HEADED:
                row.append((first, second, value.decode(raw[at : at + length])))
                at += length
                continue
            end = at + length - _HEADED
            item = first, second, value.decode(raw[at:end])
            block, at = read_block(raw, end)
            row.append(with_block(item, block))
        return row

    return build(f"windows of {value.name}", encode, decode, accepts=frozenset({list}))


class BucketStore(StoreOfWindows):
    """A store whose rows are lists of windows, ordered by their times.

    A list that was read must not be changed, nor the values in it.

    Args:
        name: of the store.
        layout: keys, retention and span of the rows.
        value: serde of the rows' values.
        backing: where the bytes are.
    """

    def __init__(self, name: str, layout: WindowSpec, value: Serde[Any], backing: Backing) -> None:
        self.name, self.layout = name, layout
        self._span = span = SpanRows(name, layout, value, backing)
        self.rows, self.times, self.reads = span.rows, span.times, span.reads
        self.commits, self.dirty = self.rows.commits, self.rows.dirty
        self.load, self.load_many = self.rows.load, self.rows.load_many
        self.advance, self.observe = self.times.advance, self.times.observe
        self.observed = self.times.row.observed
        self.ckeys, self.record_key = self.reads.ckeys, self.reads.record_key
        self.row_ids = self.reads.row_ids

    def items(self, ckey: Any, low: int, high: int) -> list[Item]:
        """The windows of a key whose times are from ``low`` to ``high``, ascending.

        The caller leaves out those that have expired (``shown_from``).
        """
        found: list[Item] = []
        bucket, load, get = self.layout.bucket_ms, self.load, self.rows.cache.get
        for time in range(low - low % bucket, high + 1, bucket):
            pair = time, ckey
            row = get(pair) or load(pair)
            if row:
                found += [item for item in row if low <= item[0] <= high]
        return found

    def replace(self, ckey: Any, old: Iterable[Item], new: Iterable[Item], time_ms: int) -> None:
        """Take windows of a key out, and put others in, or in place of those with their times."""
        rows: dict[int, list[Item]] = {}
        headers = self.commits.parts
        for item in old:
            self._remove(self._row_of(rows, ckey, item[0]), item)
        for item in new:
            row = self._row_of(rows, ckey, item[0])
            self._remove(row, item)
            if item[2] is not None:
                insort(row, item if headers is None else headers.on(item), key=_times_of)
        kept_from, cache = self.times.items_from, self.rows.cache
        for time, row in rows.items():
            if row and row[0][0] < kept_from:
                rows[time] = [item for item in row if item[0] >= kept_from]
        if isinstance(cache, CheckedCache):  # all rows or none
            for time, row in rows.items():
                rows[time] = fitting(cache.check, (time, ckey), row or None, bare_parts(row)) or []
        for time, row in rows.items():
            cache[time, ckey] = row or None
            self.dirty[time, ckey] = time_ms

    def _row_of(self, rows: dict[int, list[Item]], ckey: Any, time: int) -> list[Item]:
        """The row to change, a copy of what is stored."""
        time = self.times.row_time(time)
        if time not in rows:
            rows[time] = list(self.load((time, ckey)) or ())
        return rows[time]

    @staticmethod
    def _remove(row: list[Item], item: Item) -> None:
        for index, one in enumerate(row):
            if one[0] == item[0] and one[1] == item[1]:
                del row[index]
                return

    # The way for all stores.

    def fetch(self, key: Any, start_ms: int) -> Any | None:
        """The value of a key's window that begins at this time, or None.

        Raises:
            SerdeError: the key is of a wrong type.
            StateError: the stored value cannot be decoded.
        """
        item = self._find(key, start_ms)
        return None if item is None else item[2]

    def get(self, key: Windowed[Any]) -> Any | None:
        """The value of a window, or None; errors as of ``fetch``."""
        return self.fetch(key.key, key.start)

    def put(self, key: Any, value: Any | None, time_ms: int = NO_TIME) -> None:
        """Set the value of a ``Windowed`` key, or delete it with None.

        Raises:
            SerdeError: the key is of a wrong type.
        """
        (ckey,) = self.ckeys([key.key])
        sessions = self.layout.size_ms is None
        item = (key.end, key.start, value) if sessions else (key.start, time_ms, value)
        there = self._find(key.key, key.start)
        self.replace(ckey, [] if there is None else [there], [item], time_ms)
        self.advance(NO_TIME, item[0])

    def timestamp(self, key: Any) -> int | None:
        """The time of the youngest record in a sliding window, ms; None of other windows."""
        item = self._find(key.key, key.start)
        if item is None or self.layout.size_ms is None or item[1] == NO_TIME:
            return None
        return item[1]

    def headers(self, item: Item | None) -> Headers:
        """The headers of the record that changed a window last; none of None.

        Raises:
            StateError: they cannot be what the store has written.
        """
        with rows_of_store(self.name):
            return headers_of_part(item)

    def range(
        self, low: int | None = None, high: int | None = None
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        """All ``windows`` from one time to another."""
        return self.windows(low, high, ALL_KEYS)

    def windows(
        self, low: int | None, high: int | None, keys: KeyRange, *, backward: bool = False
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        """Windows whose times are from ``low`` to ``high`` (ms, both inclusive) with their values.

        The time is the start of a sliding window and the end of a session. In the order of these
        times, then of the bytes of the keys.
        """
        first = self.shown_from if low is None else max(self.shown_from, low)
        for item, ckey in self._scan_windows(first, high, keys, backward=backward):
            key = self.record_key(ckey)
            yield self.window(key, item), item[2]

    def _scan_windows(
        self, low: int, high: int | None, keys: KeyRange, *, backward: bool
    ) -> Iterator[tuple[Item, Any]]:
        """Windows from one time to another (both inclusive), and their cache keys, in order."""
        found = self.unordered(low, high, keys, backward=backward)
        for _, bucket in groupby(found, key=lambda entry: self.times.row_time(entry[0][0])):
            # Keys are in order already, and stay so.
            yield from sorted(bucket, key=lambda entry: entry[0][0], reverse=backward)

    def unordered(
        self,
        low: int,
        high: int | None = None,
        keys: KeyRange = ALL_KEYS,
        *,
        backward: bool = False,
    ) -> Iterator[tuple[Item, Any]]:
        """The windows of ``range`` in the order of their buckets, then of their keys' bytes."""
        last = (
            None if high is None else time_bytes(self.times.row_time(high) + self.layout.bucket_ms)
        )
        for (_, ckey), row, _ in self.reads.rows(
            time_bytes(self.times.row_time(low)), last, keys, backward
        ):
            for item in reversed(row) if backward else row:
                if item[0] >= low and (high is None or item[0] <= high):
                    yield item, ckey

    def window(self, key: Any, item: Item) -> Windowed[Any]:
        """The windowed key of a key's window."""
        size = self.layout.size_ms
        first, second, _ = item
        return windowed_of((key, second, first) if size is None else (key, first, first + size))

    def _find(self, key: Any, start: int) -> Item | None:
        (ckey,) = self.ckeys([key])
        low = max(self.shown_from, start)
        items = self.items(ckey, low, self.progress.highest)
        return next((one for one in items if self.window(key, one).start == start), None)
