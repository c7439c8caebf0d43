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
from itertools import groupby, islice, repeat
from operator import eq, itemgetter, or_
from typing import NamedTuple
from zlib import crc32

import attrs

from streamlet.columnwise import cut_origins, pack_origins
from streamlet.types import TopicPartition

PREFIX_BYTES = 32
#: No value begins like this by accident.
MARK = int.from_bytes(b"\xf5\x93stream", "little")
#: Bits of an origin below the offset: the index, and whether the value is null.
INDEX_BITS = 20
#: Records at most that an input record becomes in one partition.
MOST_ORIGINS = 1 << INDEX_BITS - 1

_WORDS = 4
_PREFIX = struct.Struct(f"{PREFIX_BYTES}s")
_PREFIX_OF = itemgetter(slice(PREFIX_BYTES))
_BODY_OF = itemgetter(slice(PREFIX_BYTES, None))
_EVEN = bytes(range(0, 256, 2))


class OriginsExhausted(Exception):
    """The input record at ``offset`` became more records than one partition can tell apart."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


class OriginRun(NamedTuple):
    """Records in a row of one edge.

    Attributes:
        length: how many.
        edge: number of it.
        first: origin of the first record.
        last: that of the last one.
        step: from the origin before to the last one; 0 of one record, and if it is not higher.
        before: the previous origin of the first record.
        follow: whether each record goes on from the one before it.
    """

    length: int
    edge: int
    first: int
    last: int
    step: int
    before: int
    follow: bool


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


def number(
    offsets: Sequence[int], partitions: Sequence[int], chain: list[int]
) -> tuple[list[int], list[int]]:
    """The origins of records, and the one before each in its partition.

    Args:
        offsets: of the input records, of one input partition.
        partitions: of the records.
        chain: newest origin plus one of each partition, 0 before the first; it goes on.

    Raises:
        OriginsExhausted: ``chain`` is as it was.
    """
    own, previous = list(chain), []
    if isinstance(offsets, range) and offsets.step == 1:
        first = offsets.start + 1 << INDEX_BITS
        if max(chain) < first:  # one record of each, behind all before
            origins = [*range(first, offsets.stop + 1 << INDEX_BITS, 1 << INDEX_BITS)]
            for origin, partition in zip(origins, partitions, strict=True):
                previous.append(own[partition])
                own[partition] = origin + 1
            chain[:] = own
            return origins, previous
    origins = []
    for offset, partition in zip(offsets, partitions, strict=True):
        last = own[partition]
        origin = offset + 1 << INDEX_BITS
        if last > origin:  # another record of the same input record
            if last + 1 >= origin + (1 << INDEX_BITS):
                raise OriginsExhausted(offset)
            origin = last + 1
        origins.append(origin)
        previous.append(last)
        own[partition] = origin + 1
    chain[:] = own
    return origins, previous


def pack_next(
    values: Sequence[bytes | None],
    edge: int,
    offsets: Sequence[int],
    partitions: Sequence[int],
    chain: list[int],
) -> list[bytes]:
    """The values of records of one edge with their prefixes; the others are as of ``number``."""
    if pack_origins is None:
        return pack(values, [edge] * len(values), *number(offsets, partitions, chain))
    found = pack_origins(values, offsets, partitions, chain, MARK, edge)
    if isinstance(found, int):
        raise OriginsExhausted(offsets[found])
    return found


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


def cut(values: Sequence[bytes | None]) -> tuple[list[OriginRun], list[bytes | None]] | None:
    """The runs of records that all bear a prefix, and their values without it; else None."""
    if cut_origins is not None:
        found = cut_origins(values, MARK)
        return None if found is None else ([*map(OriginRun._make, found[0])], found[1])
    prefixes = unpack(values)
    return None if prefixes is None else (runs_of(prefixes), prefixes.values)


def runs_of(found: Prefixes) -> list[OriginRun]:
    """The runs of these records."""
    runs: list[OriginRun] = []
    start = 0
    for edge, run in groupby(found.edges):
        end = start + sum(1 for _ in run)
        origins, previous = found.origins[start:end], found.previous[start:end]
        step = max(0, origins[-1] - origins[-2]) if len(origins) > 1 else 0
        follow = all(map(eq, islice(previous, 1, None), map(or_, origins, repeat(1))))
        facts = edge, origins[0], origins[-1], step, previous[0], follow
        runs.append(OriginRun(end - start, *facts))
        start = end
    return runs
