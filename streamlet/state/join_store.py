"""The store of one side of a join of two streams: its records, by time and key.

Records of one key and a span of time, the *bucket*, are in rows of a few records each, in the order
in which they came (``join_rows``). Row number ``n`` of a bucket that begins at ``t`` has the time
``t + n`` in its key, so it expires with the bucket. A record is added to the last row, and the
others stay as they are: what a commit writes grows with what came, not with what is there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from streamlet.serdes import Serde
from streamlet.serdes.windowed import Windowed, windowed_of
from streamlet.state import join_rows
from streamlet.state.backing import Backing
from streamlet.state.join_rows import ROW_RECORDS, Kept, Matches, RowPlace
from streamlet.state.rows import NO_TIME
from streamlet.state.span_rows import SpanRows
from streamlet.state.store_specs import WindowSpec
from streamlet.state.store_times import EVER
from streamlet.state.window_rows import time_bytes
from streamlet.state.window_times import StoreOfWindows


class JoinStore(StoreOfWindows):
    """A store of records, any number of which may have one key and time.

    A list that was read must not be changed, nor the values in it. ``shown_before`` is the earliest
    time that was shown before records were last added, ms.

    Args:
        name: of the store.
        layout: keys, retention and span of the rows.
        value: serde of the rows' values.
        backing: where the bytes are.
    """

    shown_before: int = EVER

    def __init__(self, name: str, layout: WindowSpec, value: Serde[Any], backing: Backing) -> None:
        self.name, self.layout = name, layout
        self._span = span = SpanRows(name, layout, value, backing)
        self.rows, self.times = span.rows, span.times
        self.commits, self.dirty, self.load = self.rows.commits, self.rows.dirty, self.rows.load
        self.advance, self.observe = self.times.advance, self.times.observe
        self.ckeys, self._record_key = span.reads.ckeys, span.reads.record_key

    def add(
        self, ckeys: list[Any], times: list[int], values: list[Any]
    ) -> tuple[int, BaseException | None]:
        """Add records; how many were added, and what the next one failed on.

        Those that have expired when all are there are left out.
        """
        self.shown_before = self.shown_from
        if not times:
            return 0, None
        latest = max(times)
        self.advance(NO_TIME, latest)
        self.commits.reached(latest)
        if self._may_be_old(min(times)):
            shown, bucket = self.shown_from, self.layout.bucket_ms
            pairs = zip(ckeys, times, strict=True)
            self._span.load_old([(t - t % bucket, ckey) for ckey, t in pairs if t >= shown])
        new: list[RowPlace] = []
        done = 0
        try:
            while done < len(ckeys):
                done, fresh = self._add_some(ckeys, times, values, done)
                new += fresh
        except KeyboardInterrupt:
            raise
        except BaseException as failure:  # a cache that takes no large rows
            return done, failure
        finally:
            self._span.index(new)
        return done, None

    def _add_some(
        self, ckeys: list[Any], times: list[int], values: list[Any], first: int
    ) -> tuple[int, list[RowPlace]]:
        """Add records from an index on; the index of the next one, and the places of new rows."""
        cache, end = self.rows.cache, len(ckeys)
        how = self.shown_from, self.layout.bucket_ms, ROW_RECORDS
        if type(cache) is dict:
            at, new = join_rows.add(cache, self.dirty, ckeys, times, values, *how, first)
        else:  # each entry is checked, so they come one at a time
            end = first + 1
            one = ckeys[first:end], times[first:end], values[first:end]
            at, new = join_rows.plain_add(cache, self.dirty, *one, *how, 0)
            at += first
        if at == end:
            return at, new
        place, row = self._last((times[at] - times[at] % self.layout.bucket_ms, ckeys[at]))
        cache[place] = [*row, (times[at], values[at])]
        self.dirty[place] = times[at]
        return at + 1, new

    def found(
        self, ckeys: list[Any], lows: list[int], highs: list[int], shown: int | None = None
    ) -> list[list[Kept]]:
        """The records of each key from one time to another (both inclusive).

        In the order of their times, then as they came. None is before ``shown``, without which it
        is the earliest time that has not expired.
        """
        shown = self.shown_from if shown is None else shown
        self._load(ckeys, lows, highs, shown)
        counts, times, values = self._find(ckeys, lows, highs, shown, 0, sys.maxsize)
        records = iter(zip(times, values, strict=True))
        return [list(islice(records, count)) for count in counts]

    def matches(
        self, ckeys: list[Any], lows: list[int], highs: list[int], most: int
    ) -> Iterator[Matches]:
        """The records of ``found`` in columns, in parts that end with the record that has ``most``.

        The store must not change before the last one.
        """
        shown, first = self.shown_from, 0
        self._load(ckeys, lows, highs, shown)
        while first < len(ckeys):
            part = self._find(ckeys, lows, highs, shown, first, most)
            yield part
            first += len(part[0])

    def _find(
        self,
        ckeys: list[Any],
        lows: list[int],
        highs: list[int],
        shown: int,
        first: int,
        most: int,
    ) -> Matches:
        """The records of keys from an index on, until there are so many."""
        span = shown, self.layout.bucket_ms, ROW_RECORDS
        found: Matches = join_rows.find(
            self.rows.cache, ckeys, lows, highs, *span, self._whole, first, most
        )
        return found

    def _may_be_old(self, time: int) -> bool:
        """True if rows of this time and later ones may be on the medium and not in memory."""
        time = max(time, self.shown_from)
        return time - time % self.layout.bucket_ms <= self.times.row.complete_above

    def _load(self, ckeys: list[Any], lows: list[int], highs: list[int], shown: int) -> None:
        """Bring rows into the cache, by one look at the medium."""
        bucket = self.layout.bucket_ms
        first = max(min(lows, default=shown), shown)
        if first // bucket * bucket <= self.times.row.complete_above:
            firsts = [max(low, shown) for low in lows]
            spans = map(range, [low - low % bucket for low in firsts], [h + 1 for h in highs])
            rows = zip(ckeys, spans, strict=True)
            self._span.load_old([(s, ckey) for ckey, span in rows for s in span[::bucket]])

    # Rows of one bucket and key.

    def _is_full(self, row: list[Kept] | None, number: int) -> bool:
        """True if there may be a row behind this one."""
        return row is not None and len(row) >= ROW_RECORDS and number + 1 < self.layout.bucket_ms

    def _whole(self, pair: RowPlace) -> list[Kept]:
        """All records of a bucket and key, as they came."""
        start, ckey = pair
        some: list[Kept] = []
        for number in range(self.layout.bucket_ms):
            row = self.load((start + number, ckey))
            some += row or ()
            if not self._is_full(row, number):
                break
        return some

    def _last(self, pair: RowPlace) -> tuple[RowPlace, list[Kept]]:
        """The row of a bucket and key that takes the next record, the first one being full."""
        start, ckey = pair
        last = self.layout.bucket_ms - 1
        full, ahead = 0, 1
        while self._is_full(self.load((start + min(ahead, last), ckey)), min(ahead, last)):
            full, ahead = ahead, 2 * ahead
        ahead = min(ahead, last)
        while ahead - full > 1:
            middle = (full + ahead) // 2
            if self._is_full(self.load((start + middle, ckey)), middle):
                full = middle
            else:
                ahead = middle
        return (start + ahead, ckey), self.load((start + ahead, ckey)) or []

    # The way for all stores.

    def fetch(self, key: Any, start_ms: int) -> Any | None:
        """The value of a key's last record of this time, or None.

        Raises:
            SerdeError: the key is of a wrong type.
            StateError: the stored value cannot be decoded.
        """
        (some,) = self.found(self.ckeys([key]), [start_ms], [start_ms])
        return some[-1][1] if some else None

    def get(self, key: Windowed[Any]) -> Any | None:
        """The value of the last record with the key and the time of a ``Windowed`` key, or None."""
        return self.fetch(key.key, key.start)

    def put(self, key: Any, value: Any | None, time_ms: int = NO_TIME) -> None:
        """Add a record with the key and the time of a ``Windowed`` key; None adds nothing.

        Raises:
            SerdeError: the key is of a wrong type.
        """
        if value is not None:
            _, error = self.add(self.ckeys([key.key]), [key.start], [value])
            if error is not None:
                raise error

    def timestamp(self, key: Any) -> int | None:
        """The time of the record, which is the start of its ``Windowed`` key; None: no record."""
        return None if self.fetch(key.key, key.start) is None else key.start

    def range(self, low: Any | None = None, high: Any | None = None) -> Iterator[tuple[Any, Any]]:
        """Records from one time to another (ms, both inclusive), each as a window and its value.

        In the order of their times, then of the bytes of their keys, then as they came.
        """
        return ((key, value) for key, value, _ in self.timed_range(low, high))

    def timed_range(
        self, low: int | None, high: int | None
    ) -> Iterator[tuple[Windowed[Any], Any, int]]:
        """The records of ``range``, each with its time, ms."""
        bucket = self.layout.bucket_ms
        first = self.shown_from if low is None else max(self.shown_from, low)
        last = None if high is None else time_bytes(self.times.row_time(high) + bucket)
        rows = self.commits.scan(time_bytes(self.times.row_time(first)), last)
        for _, some in groupby(rows, key=lambda row: self.times.row_time(row[0][0])):
            records = [
                (time, self.commits.key.encode((time, ckey)), ckey, value)
                for (_, ckey), row, _ in some
                for time, value in row
                if time >= first and (high is None or time <= high)
            ]
            for time, _, ckey, value in sorted(records, key=itemgetter(0, 1)):
                window = windowed_of((self._record_key(ckey), time, self.times.end(time)))
                yield window, value, time
