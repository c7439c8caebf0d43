"""The store of one side of a join of two streams: its records, by time and key.

Records of one key and a span of time, the *bucket*, are in rows of a few records each, in the order
in which they came. Row number ``n`` of a bucket that begins at ``t`` has the time ``t + n`` in its
key, so it expires with the bucket. A record is added to the last row, and the others stay as they
are: what a commit writes grows with what came, not with what is there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

from streamlet.serdes import Serde
from streamlet.serdes.serde import build
from streamlet.serdes.windowed import Windowed, windowed_of
from streamlet.state.backing import Backing
from streamlet.state.rows import NO_TIME
from streamlet.state.span_rows import SpanRows
from streamlet.state.store_times import EVER
from streamlet.state.window_rows import WindowLayout, WindowProgress, time_bytes

#: A record: its time and its value.
Kept: TypeAlias = tuple[int, Any]

#: Records in a row that takes no more, unless it is the last one that the bucket has room for.
ROW_RECORDS = 8

_HEAD = struct.Struct(">qI")
_time_of = itemgetter(0)


def kept_rows(value: Serde[Any]) -> Serde[list[Kept]]:
    """The serde of rows whose records have values of a serde."""

    def encode(row: list[Kept]) -> bytes:
        (raw,) = encode_all([row])
        return raw

    def encode_all(rows: list[list[Kept]]) -> list[bytes]:
        raws: Iterator[Any] = iter(value.encode_rows([one for row in rows for _, one in row]))
        pack = _HEAD.pack
        return [
            b"".join([pack(time, len(raw)) + raw for (time, _), raw in zip(row, raws)])  # noqa: B905
            for row in rows
        ]

    def decode(raw: bytes) -> list[Kept]:
        at, row = 0, []
        while at < len(raw):
            time, length = _HEAD.unpack_from(raw, at)
            at += _HEAD.size
            row.append((time, value.decode(raw[at : at + length])))
            at += length
        return row

    name = f"records of {value.name}"
    return build(name, encode, decode, accepts=frozenset({list}), encode_all=encode_all)


class JoinStore:
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

    def __init__(
        self, name: str, layout: WindowLayout, value: Serde[Any], backing: Backing
    ) -> None:
        self.name, self.layout = name, layout
        self._span = span = SpanRows(name, layout, value, backing)
        self.rows, self.times = span.rows, span.times
        self.commits, self.dirty, self.load = self.rows.commits, self.rows.dirty, self.rows.load
        self.advance, self.observe = self.times.advance, self.times.observe
        self.ckeys, self._record_key = span.reads.ckeys, span.reads.record_key

    @property
    def progress(self) -> WindowProgress:
        """The stream times that the store has reached."""
        return self.times.row.progress

    @property
    def shown_from(self) -> int:
        """The earliest time of a record that may be shown, ms; all earlier ones have expired."""
        return self.times.shown_from

    def add(
        self, ckeys: Sequence[Any], times: Sequence[int], values: Sequence[Any]
    ) -> tuple[int, BaseException | None]:
        """Add records; how many were added, and what the next one failed on.

        Those that have expired when all are there are left out.
        """
        self.shown_before = self.shown_from
        latest = max(times, default=NO_TIME)
        self.advance(NO_TIME, latest)
        self.commits.reached(latest)
        shown, bucket, cache = self.shown_from, self.layout.bucket_ms, self.rows.cache
        pairs = [(time - time % bucket, ckey) for time, ckey in zip(times, ckeys, strict=True)]
        self._span.load_old(
            [pair for pair, time in zip(pairs, times, strict=True) if time >= shown]
        )
        new: list[tuple[int, Any]] = []
        done = 0
        try:
            for pair, time, value in zip(pairs, times, values, strict=True):
                if time >= shown:
                    row = cache.get(pair)
                    if row is None:
                        known = pair in cache
                        cache[pair] = [(time, value)]
                        if not known:
                            new.append(pair)
                    else:
                        if len(row) >= ROW_RECORDS:
                            pair, row = self._last(pair)
                        cache[pair] = [*row, (time, value)]
                    self.dirty[pair] = time
                done += 1
        except KeyboardInterrupt:
            raise
        except BaseException as failure:  # a cache that takes no large rows
            return done, failure
        finally:
            self._span.index(new)
        return done, None

    def found(
        self,
        ckeys: Sequence[Any],
        lows: Sequence[int],
        highs: Sequence[int],
        shown: int | None = None,
    ) -> list[list[Kept]]:
        """The records of each key from one time to another (both inclusive).

        In the order of their times, then as they came. None is before ``shown``, without which it
        is the earliest time that has not expired.
        """
        shown, bucket = self.shown_from if shown is None else shown, self.layout.bucket_ms
        firsts = [low if low > shown else shown for low in lows]
        if min(firsts, default=shown) // bucket * bucket <= self.times.row.complete_above:
            spans = map(range, [low - low % bucket for low in firsts], [h + 1 for h in highs])
            rows = zip(ckeys, spans, strict=True)
            self._span.load_old([(s, ckey) for ckey, span in rows for s in span[::bucket]])
        get, out = self.rows.cache.get, []
        for ckey, low, high in zip(ckeys, firsts, highs, strict=True):
            some: list[Kept] = []
            start = low - low % bucket
            while start <= high:
                row = get((start, ckey))
                if row:
                    if len(row) >= ROW_RECORDS:
                        row = self._whole((start, ckey))
                    some += [one for one in row if low <= one[0] <= high]
                start += bucket
            if len(some) > 1:
                some.sort(key=_time_of)
            out.append(some)
        return out

    # Rows of one bucket and key.

    def _is_full(self, row: list[Kept] | None, number: int) -> bool:
        """True if there may be a row behind this one."""
        return row is not None and len(row) >= ROW_RECORDS and number + 1 < self.layout.bucket_ms

    def _whole(self, pair: tuple[int, Any]) -> list[Kept]:
        """All records of a bucket and key, as they came."""
        start, ckey = pair
        some: list[Kept] = []
        for number in range(self.layout.bucket_ms):
            row = self.load((start + number, ckey))
            some += row or ()
            if not self._is_full(row, number):
                break
        return some

    def _last(self, pair: tuple[int, Any]) -> tuple[tuple[int, Any], list[Kept]]:
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
        self, low: int | None = None, high: int | None = None
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
