"""The rows of a join of two streams: how they lie in a cache, and their bytes.

A row is a list of records, each its time and its value, by the start of a *bucket* and a key. Rows
are not changed in place. Each pass over them is one of the extension's where that was built.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from operator import itemgetter
from typing import Any, TypeAlias

from streamlet.columnwise import join_add, join_find, join_pack
from streamlet.serdes import Serde
from streamlet.serdes.serde import build_rows

#: A record: its time and its value.
Kept: TypeAlias = tuple[int, Any]
#: The start of a bucket, and a cache key.
RowPlace: TypeAlias = tuple[int, Any]
#: How many records each key has, and the times and values of all of them.
Matches: TypeAlias = tuple[list[int], list[int], list[Any]]

#: Records in a row that takes no more, unless it is the last one that the bucket has room for.
ROW_RECORDS = 8

_HEAD = struct.Struct(">qI")
_time_of = itemgetter(0)


def plain_add(
    cache: dict[Any, Any],
    dirty: dict[Any, int],
    ckeys: list[Any],
    times: list[int],
    values: list[Any],
    shown: int,
    bucket: int,
    full: int,
    first: int,
) -> tuple[int, list[RowPlace]]:
    """Add records from an index on, up to one whose row is full; leave out those before ``shown``.

    Returns:
        The index of that record, or of the end; the places of rows that were not in the cache.
    """
    new: list[RowPlace] = []
    for at in range(first, len(ckeys)):
        time = times[at]
        if time < shown:
            continue
        place = time - time % bucket, ckeys[at]
        row = cache.get(place)
        if row is not None and len(row) >= full:
            return at, new
        known = row is not None or place in cache
        cache[place] = [*(row or ()), (time, values[at])]
        if not known:
            new.append(place)
        dirty[place] = time
    return max(first, len(ckeys)), new


def plain_find(
    cache: dict[Any, Any],
    ckeys: list[Any],
    lows: list[int],
    highs: list[int],
    shown: int,
    bucket: int,
    full: int,
    whole: Callable[[RowPlace], list[Kept]],
    first: int,
    most: int,
) -> Matches:
    """The records of each key between two times, both inclusive, and none before ``shown``.

    In the order of their times, then as they came. From an index on, until there are ``most``;
    ``whole`` gives the records of a full row and of all behind it.
    """
    counts: list[int] = []
    times: list[int] = []
    values: list[Any] = []
    for at in range(first, len(ckeys)):
        if len(times) >= most:
            break
        ckey, low, high = ckeys[at], max(lows[at], shown), highs[at]
        some: list[Kept] = []
        for start in range(low - low % bucket, high + 1, bucket):
            row = cache.get((start, ckey)) or ()
            row = row if len(row) < full else whole((start, ckey))
            some += [one for one in row if low <= one[0] <= high]
        some.sort(key=_time_of)
        counts.append(len(some))
        times += [time for time, _ in some]
        values += [value for _, value in some]
    return counts, times, values


def plain_pack(rows: list[list[Kept]], raws: list[bytes]) -> list[bytes]:
    """The bytes of rows, of which ``raws`` are those of all values."""
    pack, rest = _HEAD.pack, iter(raws)
    return [
        b"".join([pack(time, len(raw)) + raw for (time, _), raw in zip(row, rest)])  # noqa: B905
        for row in rows
    ]


add = join_add or plain_add
find = join_find or plain_find
_pack = join_pack or plain_pack


def kept_rows(value: Serde[Any]) -> Serde[list[Kept]]:
    """The serde of rows whose records have values of a serde."""

    def encode_all(rows: list[list[Kept]]) -> list[bytes]:
        raws: list[Any] = value.encode_rows([one for row in rows for _, one in row])
        return _pack(rows, raws)

    def decode(raw: bytes) -> list[Kept]:
        at, row = 0, []
        while at < len(raw):
            time, length = _HEAD.unpack_from(raw, at)
            at += _HEAD.size
            row.append((time, value.decode(raw[at : at + length])))
            at += length
        return row

    name = f"records of {value.name}"
    return build_rows(name, encode_all, decode, list)
