"""The prefix of values in a repartition topic whose records wait for their writer's commit.

40 bytes before the value, five numbers of 64 bits::

    mark | writer | period | number << 8 | flags || sequence

The last one has its highest byte first: that of records in a row differs in one byte. The others
have their lowest byte first.

``writer`` is the task that wrote the record (subtopology << 32 | partition), ``period`` which of
its active periods (``period_of``), ``number`` the commit of that period that contains what caused
the record. Where a commit was under way when it was written (``UNDER_WAY``), the last one known to
be accepted is ``number`` - 2, else ``number`` - 1. ``sequence`` rises within a period by two or
more; its lowest bit says that the value is null. The first four numbers are the *head*: the same
for all that a task writes between two commits.

A *marker* (``MARKER``) stands for no record: its head tells what was accepted, and two more numbers
its *base*: period and number of the last accepted commit before its own period. A record without a
key has one marker, or those of several tasks one behind the other.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile
from operator import itemgetter

import attrs

from streamlet.types import TaskId

HEAD_BYTES = 32
PREFIX_BYTES, MARKER_BYTES = 40, 56
#: No value begins like this by accident.
MARK = b"\xf5\x93streaN"
#: Flags: a commit was under way, so that it is not known to be accepted; and no record at all.
UNDER_WAY = 1
MARKER = 2

_HEAD = struct.Struct("<8sQQQ")
_SEQUENCE = struct.Struct(">Q")
_BASE = struct.Struct("<QQ")
_FLAG_BITS = 8
_LOW = (1 << 32) - 1
_BYTES = [bytes((byte,)) for byte in range(256)]
_EVEN = bytes(range(0, 256, 2))
_SEQUENCE_OF = itemgetter(slice(HEAD_BYTES, PREFIX_BYTES))
_BODY_OF = itemgetter(slice(PREFIX_BYTES, None))


@attrs.frozen
class Head:
    """The facts that one head tells."""

    writer: int
    period: int
    number: int
    accepted: int
    marker: bool


def writer_of(task: TaskId) -> int:
    """The number of a writer."""
    return task.subtopology << 32 | task.partition


def task_of(writer: int) -> TaskId:
    """The task of that number."""
    return TaskId(writer >> 32, writer & _LOW)


def period_of(born: int, epoch: int) -> int:
    """The number of an active period; those of a task rise.

    ``born``: s since the epoch when its epochs began to count, which they do again where no commit
    is left.
    """
    return born << 32 | epoch


def pack_head(writer: int, period: int, number: int, flags: int = 0) -> bytes:
    """A head."""
    return _HEAD.pack(MARK, writer, period, number << _FLAG_BITS | flags)


@lru_cache(4_096)
def read_head(data: bytes) -> Head:
    """The facts of these 32 bytes, which begin with the mark."""
    _, writer, period, last = _HEAD.unpack(data)
    number, flags = last >> _FLAG_BITS, last & (1 << _FLAG_BITS) - 1
    accepted = number - 2 if flags & UNDER_WAY else number - 1
    return Head(writer, period, number, accepted, bool(flags & MARKER))


def pack(head: bytes, values: Sequence[bytes | None], first: int) -> list[bytes]:
    """The values with this head and sequences from ``first`` on in front."""
    bits: Sequence[bool] = ()
    if None in values:
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
        rows = zip(ends, values[done:after], strict=False)
        packed += [start + end + value for end, value in rows]  # type: ignore[operator]
        sequence += 2 * (after - done)
        done = after
    return packed


def pack_marker(head: bytes, sequence: int, base: tuple[int, int]) -> bytes:
    """A marker; ``head`` with its flag."""
    return head + _SEQUENCE.pack(sequence << 1) + _BASE.pack(*base)


def split_markers(value: bytes) -> list[bytes]:
    """The markers of a record that begins with one; the last may be cut off."""
    parts = [value[at : at + MARKER_BYTES] for at in range(0, len(value), MARKER_BYTES)]
    heads = takewhile(lambda part: part.startswith(MARK) and len(part) >= HEAD_BYTES, parts)
    return [part for part in heads if read_head(part[:HEAD_BYTES]).marker]


def read_base(marker: bytes) -> tuple[int, int]:
    """Period and number that a marker goes on from; both 0 where it is cut off."""
    data = marker[PREFIX_BYTES : PREFIX_BYTES + _BASE.size]
    return _BASE.unpack(data) if len(data) == _BASE.size else (0, 0)


def unpack(values: Sequence[bytes]) -> tuple[list[int], list[bytes | None]] | None:
    """Sequences and values without the prefix; None if one is too short to have one."""
    block = b"".join(map(_SEQUENCE_OF, values))
    if len(block) != 8 * len(values):
        return None
    sequences = [*struct.unpack(f">{len(values)}Q", block)]
    bodies: list[bytes | None] = [*map(_BODY_OF, values)]
    if block[7::8].translate(None, _EVEN):
        bodies = [None if one & 1 else body for one, body in zip(sequences, bodies, strict=True)]
    return sequences, bodies
