"""Origins applied, in the text of a commit, packed into bytes and written in base 85; pure.

For each edge four bytes of its source, lowest first, then as varints its incarnation, the offset of
the highest origin plus one, and the rest of that origin. The lowest bit of the rest says whether
the next record must follow on it. An edge of several entries leapt: each two of them are the ends
of a leap, and the last one is its highest origin.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from itertools import chain
from typing import TypeAlias

from streamlet.state.log_numbers import NAME_BITS, add_varint, varint

#: Of each edge the ends of steps between which no origin was applied.
Leaps: TypeAlias = Mapping[int, tuple[tuple[int, int], ...]]

#: Bits of an origin that are not its offset, the lowest of them for null values.
_REST_BITS = 20
_REST = (1 << _REST_BITS) - 1


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
