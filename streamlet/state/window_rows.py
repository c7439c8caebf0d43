"""The keys of a window store's rows, and what is known of all of them.

A row's key is a time, eight bytes that sort as the times do, and then the bytes of the record key.
So windows of one time lie together, and those that have expired are all at the beginning.
"""

from __future__ import annotations

import struct
from operator import itemgetter
from typing import Any

import attrs

from streamlet.bounded import whole
from streamlet.columnwise import timed_values
from streamlet.serdes import Serde
from streamlet.serdes.serde import build
from streamlet.state.rows import NO_TIME, TIME_BYTES, rows_of

#: The key of the row that bears the store's ``WindowProgress``; before that of any window.
PROGRESS_KEY = b""
#: The least bytes that the key of a window can have.
FIRST_KEY = b"\x00"

_time_of, _ckey_of = itemgetter(0), itemgetter(1)
_UNSIGNED = struct.Struct(">Q")
_SIGN = 1 << 63
_TIMES = struct.Struct(">qq")
_TIME = struct.Struct(">q")
_TIMES_END = TIME_BYTES + _TIMES.size
#: The most that a time is from 0: a retention added to it, or taken off, has eight bytes, too.
_MOST = 1 << 62


@attrs.frozen
class WindowProgress:
    """The times that a window store has come to, ms; it moves with the rows.

    ``observed`` is the stream time of the aggregation, ``highest`` the latest window (of sessions:
    the latest end) that was ever put. ``emitted`` says how far final results were sent, in the
    words of who sends them; of cogrouped streams it has the stream times of all but the first.
    """

    observed: int = NO_TIME
    highest: int = NO_TIME
    emitted: bytes = b""

    @property
    def sent(self) -> int:
        """The time up to which the results of windows were sent, of a store with final results."""
        return int(_TIME.unpack_from(self.emitted)[0]) if self.emitted else NO_TIME

    def to_row(self) -> bytes:
        """The bytes of its row, which has no time of its own."""
        value = _TIMES.pack(self.observed, self.highest) + self.emitted
        (row,) = rows_of([value], [NO_TIME])
        assert row is not None
        return row

    @classmethod
    def from_row(cls, row: bytes | None) -> WindowProgress:
        """Read what ``to_row`` wrote; None: nothing was put yet.

        Raises:
            ValueError: it cannot have written that.
        """
        if row is None:
            return cls()
        emitted = row[_TIMES_END:]
        if len(row) < _TIMES_END or len(emitted) % _TIME.size:
            raise ValueError(f"progress of {len(row)} bytes")
        observed, highest = _TIMES.unpack_from(row, TIME_BYTES)
        return cls(whole(observed, -_MOST, _MOST), whole(highest, -_MOST, _MOST), emitted)


def sent_bytes(time_ms: int) -> bytes:
    """The bytes of ``WindowProgress.emitted`` for results that were sent up to a time."""
    return _TIME.pack(time_ms)


def time_bytes(time_ms: int) -> bytes:
    """Eight bytes that sort as times do."""
    return _UNSIGNED.pack(time_ms + _SIGN)


def time_of_key(key: bytes) -> int:
    """The time in the key of a window's row; ``struct.error`` for a key that is too short."""
    (time,) = _UNSIGNED.unpack_from(key)
    return int(time) - _SIGN


def row_keys(key: Serde[Any]) -> Serde[tuple[int, Any]]:
    """The serde of row keys ``(time, cache key)``, for record keys of a serde.

    The cache key is the record key itself where its serde is exact, else its bytes.
    """
    exact = key.exact is not None

    def encode(row: tuple[int, Any]) -> bytes:
        time, ckey = row
        return time_bytes(time) + (key.encode(ckey) if exact else ckey)

    def encode_all(column: list[tuple[int, Any]]) -> list[bytes]:
        ckeys = list(map(_ckey_of, column))
        tails = key.encode_column(ckeys) if exact else ckeys
        return timed_values(tails, list(map(_time_of, column)), _SIGN)  # type: ignore[return-value]

    def decode(raw: bytes) -> tuple[int, Any]:
        return time_of_key(raw), key.decode(raw[8:]) if exact else raw[8:]

    return build(
        f"windows of {key.name}",
        encode,
        decode,
        accepts=frozenset({tuple}),
        exact=tuple,
        immutable=True,
        encode_all=encode_all,
    )
