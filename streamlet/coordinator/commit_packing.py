"""Origins applied and marks of writers in the text of a commit: packed bytes in base 85; pure.

For each edge four bytes of its source, lowest first, then as varints its incarnation, the offset of
the highest origin plus one, and the rest of that origin. The lowest bit of the rest says whether
the next record must follow on it. An edge of several entries leapt: each two of them are the ends
of a leap, and the last one is its highest origin.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import NamedTuple, TypeAlias

from streamlet.bounded import INT64_MAX
from streamlet.state.log_numbers import NAME_BITS, add_varint, varint

#: Of each edge the ends of steps between which no origin was applied.
Leaps: TypeAlias = Mapping[int, tuple[tuple[int, int], ...]]

#: Bits of an origin that are not its offset, the lowest of them for null values.
_REST_BITS = 20
_REST = (1 << _REST_BITS) - 1
_LOW = (1 << 32) - 1


class WriterMark(NamedTuple):
    """A writer whose records wait for its commits: how far they were processed.

    ``period`` is the highest one that had begun before the first record not processed. Of it were
    processed all records of commits before ``number``, and behind the position those of this one
    whose offset is below ``behind``. A ``number`` of 0 stands for all commits.
    """

    period: int
    number: int = 0
    behind: int = 0

    def processed(self, period: int, number: int, *, ordered: bool = False) -> int:
        """The offset below which records of a commit of that period were processed.

        ``ordered``: ``behind`` counts for records of later commits, too.
        """
        if period != self.period:
            return 0
        if number < self.number:
            return INT64_MAX
        return self.behind if ordered or self.number in (0, number) else 0


def pack_numbers(numbers: Iterable[int]) -> str:
    """Numbers of topics, four bytes each, in order."""
    found = b"".join(one.to_bytes(NAME_BITS // 8, "big") for one in sorted(numbers))
    return base64.b85encode(found).decode()


def unpack_numbers(text: str) -> frozenset[int]:
    """The numbers of topics.

    Raises:
        ValueError: the text is damaged.
    """
    data, size = base64.b85decode(text), NAME_BITS // 8
    if len(data) % size:
        raise ValueError(f"{len(data)} bytes are no numbers of topics")
    places = range(0, len(data), size)
    return frozenset(int.from_bytes(data[at : at + size], "big") for at in places)


def pack_applied(applied: Mapping[int, int], loose: frozenset[int], leaps: Leaps) -> str:
    """The highest origin applied of each edge, behind the ends of its leaps."""
    found = bytearray()
    for edge, high in sorted(applied.items()):
        for origin in (*chain.from_iterable(leaps.get(edge, ())), high):
            rest = (origin & _REST & ~1) | (edge not in loose)
            found += (edge >> 32).to_bytes(4, "little")
            for number in (edge & 0xFFFFFFFF, origin >> _REST_BITS, rest):
                add_varint(found, number)
    return base64.b85encode(bytes(found)).decode()


def unpack_applied(text: str) -> tuple[dict[int, int], frozenset[int], Leaps]:
    """The highest origin applied of each edge, the edges that are loose, and the leaps of edges.

    Raises:
        ValueError: the text is damaged, or a number of it cannot be.
    """
    data, at = base64.b85decode(text), 0
    entries: dict[int, list[int]] = {}
    loose = set()
    while at < len(data):
        source = int.from_bytes(data[at : at + 4], "little")
        incarnation, at = varint(data, at + 4, NAME_BITS)
        offset, at = varint(data, at, 64 - _REST_BITS)
        rest, at = varint(data, at, _REST_BITS)
        edge = source << 32 | incarnation
        entries.setdefault(edge, []).append(offset << _REST_BITS | rest | 1)
        if not rest & 1:
            loose.add(edge)
    leaps = {}
    for edge, origins in entries.items():
        if len(origins) % 2 == 0 or origins != sorted(origins):
            raise ValueError("the ends of leaps are not in order")
        if len(origins) > 1:
            leaps[edge] = tuple(zip(origins[:-1:2], origins[1::2], strict=True))
    return {edge: origins[-1] for edge, origins in entries.items()}, frozenset(loose), leaps


def pack_marks(marks: Mapping[int, WriterMark]) -> str:
    """The marks of writers: differences of their numbers, and their periods in two halves.

    The upper half, which is about the same for all, as what it is above the lowest one.
    """
    found = bytearray()
    lowest = min((period >> 32 for period, _, _ in marks.values()), default=0)
    add_varint(found, lowest)
    before = 0
    for writer, (period, *done) in sorted(marks.items()):
        halves = (period >> 32) - lowest, period & _LOW
        for number in (writer - before, *halves, *done):
            add_varint(found, number)
        before = writer
    return base64.b85encode(bytes(found)).decode()


def unpack_marks(text: str) -> dict[int, WriterMark]:
    """Read the packed text that the function above writes.

    Raises:
        ValueError: the text is damaged, or a number of it cannot be.
    """
    data = base64.b85decode(text)
    lowest, at = varint(data, 0, 32) if data else (0, 0)
    marks: dict[int, WriterMark] = {}
    writer = 0
    while at < len(data):
        step, at = varint(data, at, 63)
        born, at = varint(data, at, 32)
        epoch, at = varint(data, at, 32)
        number, at = varint(data, at, 63)
        behind, at = varint(data, at, 63)
        writer += step
        marks[writer] = WriterMark(lowest + born << 32 | epoch, number, behind)
    if writer >> 63 or any(period >> 64 for period, *_ in marks.values()):
        raise ValueError("the number of a packed mark is too large")
    return marks
