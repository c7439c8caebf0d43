"""Puts on, recognizes and cuts off the prefixes of a column of values, a pass for each.

The extension does so where it is there (``columnwise``), else Python, with the same results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, islice, repeat
from operator import ge, itemgetter
from typing import Any, NamedTuple

from streamlet.columnwise import cut_prefixes, pack_prefixes, prefix_runs
from streamlet.processing.edges.held_records import HEAD_BYTES, MARK, PREFIX_BYTES, SEQUENCE_BYTES

_BYTES = [bytes((byte,)) for byte in range(256)]
_JOINED = b"".join


class ColumnRun(NamedTuple):
    """Values in a row, ``start`` to ``end``, that begin with the same head, or with none.

    ``rising``: each was written after the one before it, so that none is there twice. ``whole``:
    none is too short to have a prefix.
    """

    start: int
    end: int
    bears: bool
    rising: bool
    whole: bool


def pack(head: bytes, values: Sequence[bytes | None], first: int) -> list[bytes]:
    """The values with this head and sequences from ``first`` on in front."""
    return (pack_prefixes or pack_in_python)(head, values, first)


def runs_of(values: Sequence[bytes | None]) -> list[ColumnRun]:
    """The runs of a column."""
    found = (prefix_runs or runs_in_python)(values, MARK, HEAD_BYTES, PREFIX_BYTES)
    return [*map(ColumnRun._make, found)]


def cut(values: Sequence[bytes | None], start: int, end: int) -> tuple[list[bytes | None], bytes]:
    """``values[start:end]`` without their prefixes, which are whole, and their sequences.

    A sequence has ``SEQUENCE_BYTES``, and they compare as the numbers do.
    """
    return (cut_prefixes or cut_in_python)(values, start, end, PREFIX_BYTES)


# The same in Python.


def pack_in_python(head: bytes, values: Sequence[bytes | None], first: int) -> list[bytes]:
    """The result of ``pack``, without the extension."""
    bits: Sequence[bool] = ()
    if not all(values):
        bits = [value is None for value in values]
        values = [value or b"" for value in values]
    packed: list[bytes] = []
    sequence, done, count = 2 * first, 0, len(values)
    while done < count:
        low = sequence & 0xFF
        after = min(done + (256 - low) // 2, count)
        start = head + (sequence >> 8).to_bytes(7, "big")
        ends = _BYTES[low::2]
        if bits:
            ends = [_BYTES[low + 2 * at + bit] for at, bit in enumerate(bits[done:after])]
        rows = zip(repeat(start), ends, values[done:after], strict=False)
        packed += map(_JOINED, rows)  # type: ignore[arg-type]
        sequence += 2 * (after - done)
        done = after
    return packed


def runs_in_python(
    given: Sequence[bytes | None], mark: bytes, head: int, prefix: int
) -> list[tuple[int, int, bool, bool, bool]]:
    """The result of ``runs_of``, without the extension."""
    values = [value or b"" for value in given]
    parts = _alike(values, mark, head)
    return [
        (start, end, bears, rise(values[start:end]), min(map(len, values[start:end])) >= prefix)
        for start, end, bears in parts
    ]


def _alike(values: Sequence[bytes], mark: bytes, head: int) -> Iterator[tuple[int, int, bool]]:
    start = end = 0
    plain = False
    for data, run in groupby(map(itemgetter(slice(head)), values)):
        bears = data.startswith(mark) and len(data) >= head
        if end > start and (bears or not plain):
            yield start, end, not plain
            start = end
        end += len([*run])
        plain = not bears
    if end > start:
        yield start, end, not plain


def rise(values: Sequence[bytes]) -> bool:
    """True if values with one head rise, so that none of them is there twice."""
    return not any(map(ge, values, islice(values, 1, None)))


def cut_in_python(
    given: Sequence[Any], start: int, end: int, prefix: int
) -> tuple[list[bytes | None], bytes]:
    """The result of ``cut``, without the extension."""
    values = given[start:end]
    bodies: list[bytes | None] = [*map(itemgetter(slice(prefix, None)), values)]
    if not all(bodies):
        rows = zip(bodies, values, strict=True)
        bodies = [None if not body and value[prefix - 1] & 1 else body for body, value in rows]
    return bodies, b"".join(map(itemgetter(slice(prefix - SEQUENCE_BYTES, prefix)), values))
