"""Passes over whole columns: by the extension where it was built, else in Python.

A column is a list that does not change meanwhile. Either way gives the same results, and refuses
the same entries, though maybe with another exception: callers then look at them one by one. The
extension takes a few nanoseconds for a record where Python takes some tens.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import chain, compress, count, islice, repeat
from operator import add, gt, itemgetter
from types import ModuleType, NoneType
from typing import Any, TypeVar

from streamlet.kafka.native.sources import digest

F = TypeVar("F", bound=Callable[..., Any])


def _extension() -> ModuleType | None:
    """The extension, if it was built of the sources that are here."""
    try:
        from streamlet.kafka.native import _native  # type: ignore[attr-defined]
    except ImportError:
        return None
    module: ModuleType = _native
    return module if digest() in ("", getattr(module, "SOURCES", None)) else None


_found = _extension()
#: The passes in Python of those that the extension may have, by name.
PLAIN: dict[str, Callable[..., Any]] = {}


def _by_extension(plain: F) -> F:
    """The pass of the extension that is called as this one, which is taken where there is none."""
    PLAIN[plain.__name__] = plain
    found: F = getattr(_found, plain.__name__, plain)
    return found


@_by_extension
def all_of(column: list[Any], kind: type) -> bool:
    """True if each entry is of exactly this type; true of an empty column."""
    return set(map(type, column)) <= {kind}


@_by_extension
def encode_texts(column: list[str]) -> list[bytes]:
    """The UTF-8 of texts, without lone surrogates."""
    return list(map(str.encode, column))


@_by_extension
def decode_texts(column: list[bytes]) -> list[str]:
    """The texts out of their UTF-8, which has to be strict."""
    return list(map(bytes.decode, column))


_HEAD = struct.Struct("8s")
#: Types of what is in a flat dict.
FLAT = frozenset({str, int, float, bool, NoneType})


@_by_extension
def all_flat(column: list[Any]) -> bool:
    """True if each entry is a text, a number or None, or a dict of these whose keys are texts.

    Such entries cannot change but for the dicts themselves, and JSON has a form for all of them.
    """
    kinds = set(map(type, column))
    dicts = column if kinds == {dict} else [one for one in column if type(one) is dict]
    values = chain.from_iterable(map(dict.values, dicts))
    keys = chain.from_iterable(dicts)
    return (
        kinds - FLAT <= {dict}
        and FLAT.issuperset(map(type, values))
        and set(map(type, keys)) <= {str}
    )


@_by_extension
def blake2b_column(column: list[bytes | None], size: int) -> list[bytes | None]:
    """Digests of so many bytes; None stays None."""
    return [None if raw is None else blake2b(raw, digest_size=size).digest() for raw in column]


@_by_extension
def put_values(rows: dict[Any, Any], keys: list[Any], values: list[Any]) -> None:
    """Put the value of each key into a dict, which is of exactly this type."""
    rows.update(zip(keys, values, strict=True))


@_by_extension
def swap_values(rows: dict[Any, Any], keys: list[Any], values: list[Any]) -> list[Any]:
    """Put the value of each key, which all are there, into a dict; the value before each."""
    if len(set(keys)) == len(keys):
        before = list(map(rows.__getitem__, keys))
        put_values(rows, keys, values)
        return before
    before = []
    for key, value in zip(keys, values, strict=True):
        before.append(rows[key])
        rows[key] = value
    return before


@_by_extension
def put_times(rows: dict[Any, int], keys: list[Any], times: list[int]) -> None:
    """Put a copy of the time of each key into a dict, which is of exactly this type."""
    rows.update(zip(keys, map(add, times, repeat(0)), strict=True))


@_by_extension
def late_places(times: list[int], latest: int) -> list[int]:
    """The indices of times that are lower than an earlier one, or lower than ``latest``.

    Times rise for the most part, so only what follows a drop is compared one by one.
    """
    found: list[int] = []
    at = 0
    drops = compress(count(1), map(gt, times, islice(times, 1, None)))
    for start in chain((0,), drops):
        if start < at:
            continue
        if start:
            latest = max(latest, times[start - 1])
        at = start
        while at < len(times) and times[at] < latest:
            found.append(at)
            at += 1
    return found


@_by_extension
def later_times(times: list[int], others: list[int]) -> list[int]:
    """The later one of each two times; both columns are of one length."""
    return list(map(max, times, others))


@_by_extension
def moved_times(times: list[int], by_ms: int) -> list[int]:
    """Times so much later, none below 0."""
    moved = [time + by_ms for time in times]
    return moved if min(moved, default=0) >= 0 else [max(0, time) for time in moved]


@_by_extension
def spread(column: list[Any], counts: list[int]) -> list[Any]:
    """Each entry repeated its count of times."""
    return list(chain.from_iterable(map(repeat, column, counts)))


@_by_extension
def timed_values(values: list[bytes | None], times: list[int], plus: int) -> list[bytes | None]:
    """The values behind eight bytes of their times and a number; None stays None."""
    heads = _HEAD.iter_unpack(struct.pack(f">{len(times)}Q", *[time + plus for time in times]))
    pairs = zip(heads, values, strict=True)
    return [None if value is None else head + value for (head,), value in pairs]


@_by_extension
def sorted_rows(keys: list[bytes], values: list[Any]) -> tuple[list[bytes], list[Any]]:
    """Both columns in the order of the keys."""
    rows = sorted(zip(keys, values, strict=True), key=itemgetter(0))
    return [key for key, _ in rows], [value for _, value in rows]


@_by_extension
def put_items(items: Any, keys: list[Any], values: list[Any], first: int, end: int) -> None:
    """Set items from one place of the columns up to another; those of None are deleted."""
    for key, value in zip(keys[first:end], values[first:end], strict=True):
        if value is None:
            del items[key]
        else:
            items[key] = value


#: The highest of times, of which there is one at least.
highest_time: Callable[[list[int]], int] = getattr(_found, "highest_time", max)

# These there are only in the extension; None: a caller has its own way in Python.

#: Eight bytes of each number, the most significant first; all are exactly of the type.
pack_ints: Callable[[list[int]], list[bytes]] | None = getattr(_found, "pack_ints", None)
pack_floats: Callable[[list[float]], list[bytes]] | None = getattr(_found, "pack_floats", None)
#: The numbers out of these bytes; an entry of another length is refused.
unpack_ints: Callable[[list[bytes]], list[int]] | None = getattr(_found, "unpack_ints", None)
unpack_floats: Callable[[list[bytes]], list[float]] | None = getattr(_found, "unpack_floats", None)
#: A column that is ``all_flat`` with a copy of each dict; None of another one.
flat_copies: Callable[[list[Any]], list[Any] | None] | None = getattr(_found, "flat_copies", None)
#: Deep copies of a column of JSON documents that are exactly of a type, and None; None of a column
#: with an entry that may return from its bytes as another one.
document_copies: Callable[[list[Any], type], list[Any] | None] | None = getattr(
    _found, "document_copies", None
)
#: The input of each next record of several, by their times and a spread or None
#: (``processing.merged_batch``).
merge_order: Callable[[list[list[int]], int | None], list[int]] | None = getattr(
    _found, "merge_order", None
)
#: Pairs of an input and the indexes of its records, for each round, by the inputs of all records
#: and the keys of each input.
merge_rounds: Callable[[list[int], list[list[Any]]], list[tuple[int, list[int]]]] | None = getattr(
    _found, "merge_rounds", None
)
#: The places in an order of the records of each of so many inputs.
merge_places: Callable[[list[int], int], list[list[int]]] | None = getattr(
    _found, "merge_places", None
)
#: The entries of a column at numbers, each less a first one.
entries_at: Callable[[list[Any], list[int], int], list[Any]] | None = getattr(
    _found, "entries_at", None
)
#: The indexes of numbers in the order of these, equal ones as they come; None if these are far
#: apart.
order_of: Callable[[list[int]], list[int] | None] | None = getattr(_found, "order_of", None)
#: Passes over rows of joins of streams (``state.join_rows``).
join_add: Any = getattr(_found, "join_add", None)
join_find: Any = getattr(_found, "join_find", None)
join_pack: Any = getattr(_found, "join_pack", None)
#: Counts in the rows of windows, and the bytes of windowed keys (``state.window_counts``,
#: ``serdes.windowed``).
count_windows: Any = getattr(_found, "count_windows", None)
window_keys: Any = getattr(_found, "window_keys", None)
#: The partitions of keys, which are all bytes, among so many, as Java's producer chooses them.
partitions_of: Callable[[list[bytes], int], list[int]] | None = getattr(
    _found, "partitions_of", None
)
#: Whether each of a column of bytes surely is a JSON document that begins with one of the letters;
#: False of documents that only a decoder can tell of.
are_documents: Callable[[list[bytes], str], bool] | None = getattr(_found, "are_documents", None)
#: Values behind a head and sequences from a first one on (``processing.edges.held_columns``).
pack_prefixes: Callable[[bytes, Sequence[bytes | None], int], list[bytes]] | None = getattr(
    _found, "pack_prefixes", None
)
#: The runs of values with the same head, by mark and the lengths of head and prefix.
prefix_runs: (
    Callable[[Sequence[bytes | None], bytes, int, int], list[tuple[int, int, bool, bool, bool]]]
    | None
) = getattr(_found, "prefix_runs", None)
#: The values from a start to an end without prefixes of that length, and their sequences.
cut_prefixes: (
    Callable[[Sequence[bytes | None], int, int, int], tuple[list[bytes | None], bytes]] | None
) = getattr(_found, "cut_prefixes", None)
#: Values of one edge with prefixes that say their origins (``processing.edges.records``): values,
#: offsets, partitions, a chain, mark, edge; the index of one that has no origin instead.
pack_origins: (
    Callable[
        [Sequence[bytes | None], Sequence[int], Sequence[int], list[int], int, int],
        list[bytes] | int,
    ]
    | None
) = getattr(_found, "pack_origins", None)
#: The runs of values that all bear that mark, and the values behind; None of others.
cut_origins: (
    Callable[
        [Sequence[bytes | None], int],
        tuple[list[tuple[int, int, int, int, int, int, bool]], list[bytes | None]] | None,
    ]
    | None
) = getattr(_found, "cut_origins", None)
#: Passes over messages of joins by foreign keys (``dsl.foreign_keys.wire_columns``); None of a
#: column with an entry that is not as usual.
foreign_digests: Any = getattr(_found, "foreign_digests", None)
foreign_subscriptions: Any = getattr(_found, "foreign_subscriptions", None)
foreign_kept: Any = getattr(_found, "foreign_kept", None)
foreign_answers: Any = getattr(_found, "foreign_answers", None)
foreign_answered: Any = getattr(_found, "foreign_answered", None)
foreign_partitions: Any = getattr(_found, "foreign_partitions", None)
