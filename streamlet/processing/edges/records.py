"""The prefix of values in an exact repartition topic, put on and taken off by the column.

32 bytes before the value, four numbers of 64 bits, lowest byte first::

    mark | source << 32 | incarnation | origin | previous

``source`` stands for the input partition that the record stems from, ``incarnation`` counts how
often positions of that were set back on purpose. ``origin`` is the place of the record among all
that stem from it: offset of the input record plus one, times 2^20, plus twice the index among the
records that it became in this partition. The lowest bit says that the value is null.
``previous`` is the origin before it from the same source in the same partition, plus one; 0 for the
first one of an active period.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from operator import itemgetter
from zlib import crc32

import attrs

from streamlet.types import TopicPartition

PREFIX_BYTES = 32
#: No value begins like this by accident.
MARK = int.from_bytes(b"\xf5\x93stream", "little")
#: Bits of an origin below the offset: the index, and whether the value is null.
INDEX_BITS = 20

_WORDS = 4
_PREFIX = struct.Struct(f"{PREFIX_BYTES}s")
_PREFIX_OF = itemgetter(slice(PREFIX_BYTES))
_BODY_OF = itemgetter(slice(PREFIX_BYTES, None))
_EVEN = bytes(range(0, 256, 2))


@attrs.frozen
class Prefixes:
    """The columns of records that all bear a prefix, and their values without it."""

    edges: Sequence[int]
    origins: Sequence[int]
    previous: Sequence[int]
    values: list[bytes | None]


def edge_of(partition: TopicPartition, topic_id: str = "", incarnation: int = 0) -> int:
    """The number of an edge: which input partition, and which incarnation of it."""
    return source_of(partition, topic_id) << 32 | incarnation


def source_of(partition: TopicPartition, topic_id: str = "") -> int:
    """The number that stands for an input partition; another one if its topic is made again."""
    return crc32(f"{partition.topic}/{partition.partition}/{topic_id}".encode())


def pack(
    values: Sequence[bytes | None],
    edges: Sequence[int],
    origins: Sequence[int],
    previous: Sequence[int],
) -> list[bytes]:
    """The values with their prefixes in front."""
    count = len(values)
    words = [MARK] * (_WORDS * count)
    words[1::_WORDS], words[2::_WORDS], words[3::_WORDS] = edges, origins, previous
    if None in values:
        nulls = [value is None for value in values]
        words[2::_WORDS] = [one | null for one, null in zip(origins, nulls, strict=True)]
        values = [value or b"" for value in values]
    block = struct.pack(f"<{len(words)}Q", *words)
    rows = zip(_PREFIX.iter_unpack(block), values, strict=True)
    return [prefix + value for (prefix,), value in rows]


def unpack(values: Sequence[bytes | None]) -> Prefixes | None:
    """Take the prefixes off; None if not all of these records bear one."""
    try:
        block = b"".join(map(_PREFIX_OF, values))  # type: ignore[arg-type]
    except TypeError:
        return None
    if len(block) != PREFIX_BYTES * len(values):
        return None
    words = struct.unpack(f"<{_WORDS * len(values)}Q", block)
    if words[::_WORDS].count(MARK) != len(values):
        return None
    origins = words[2::_WORDS]
    bodies: list[bytes | None] = [*map(_BODY_OF, values)]  # type: ignore[arg-type]
    if block[16::PREFIX_BYTES].translate(None, _EVEN):
        bodies = [None if o & 1 else body for o, body in zip(origins, bodies, strict=True)]
    return Prefixes(words[1::_WORDS], origins, words[3::_WORDS], bodies)
