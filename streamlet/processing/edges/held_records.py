"""The prefix of values in a repartition topic whose records wait for their writer's commit.

40 bytes before the value, five numbers of 64 bits::

    mark | writer | period | number << 8 | flags || sequence

The last one has its highest byte first: that of records in a row differs in one byte. The others
have their lowest byte first.

``writer`` is the task that wrote the record, ``period`` which of its active periods
(``period_of``), ``number`` the commit of that period that contains what caused the record. Where a
commit was under way when it was written (``UNDER_WAY``), the last one known to be accepted is
``number`` - 2, else ``number`` - 1. ``sequence`` rises within a period by two or more; its lowest
bit says that the value is null. The first four numbers are the *head*: the same for all that a task
writes between two commits.

A *marker* (``MARKER``) stands for no record: its head tells what was accepted, and two more numbers
its *base*: period and number of the last accepted commit before its own period. A record without a
key has one marker, or those of several tasks one behind the other.

Head and base are signed with the key that the commits of the writer bear, in the 44 bits that
writer and number leave free: 18 each are the subtopology and the partition, 40 the number. So who
may write to the topic, and may not read the commits of the group, tells nothing in a task's name.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from hashlib import blake2b
from itertools import takewhile

import attrs

from streamlet.types import TaskId

HEAD_BYTES, SEQUENCE_BYTES = 32, 8
PREFIX_BYTES, MARKER_BYTES = HEAD_BYTES + SEQUENCE_BYTES, 56
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
#: Bits of the numbers of a task, of a commit with its flags, and of what they leave of the two.
_TASK_BITS = 18
_WRITER_BITS = 2 * _TASK_BITS
_NUMBER_BITS = 48
_FREE_BITS = 64 - _NUMBER_BITS
_TASK = (1 << _TASK_BITS) - 1
_SIGNED = struct.Struct("<QQQQQ")
_SIGNATURE_BITS = 64 - _WRITER_BITS + _FREE_BITS
#: The base of a head that is no marker.
NO_BASE = (0, 0)


@attrs.frozen
class Head:
    """The facts that one head tells, and the signature of who wrote it."""

    writer: int
    period: int
    number: int
    accepted: int
    marker: bool
    flags: int
    signature: int

    def is_signed_with(self, key: bytes, base: tuple[int, int] = NO_BASE) -> bool:
        """True if who wrote this head, and this base of a marker, had the key."""
        last = self.number << _FLAG_BITS | self.flags
        return self.signature == _signature(key, self.writer, self.period, last, base)


def _signature(key: bytes, writer: int, period: int, last: int, base: tuple[int, int]) -> int:
    data = _SIGNED.pack(writer, period, last, *base)
    found = int.from_bytes(blake2b(data, digest_size=8, key=key).digest(), "little")
    return found >> 64 - _SIGNATURE_BITS


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


def pack_head(
    writer: int,
    period: int,
    number: int,
    flags: int = 0,
    *,
    key: bytes = b"",
    base: tuple[int, int] = NO_BASE,
) -> bytes:
    """A head, signed; ``base`` of a marker."""
    last = number << _FLAG_BITS | flags
    signature = _signature(key, writer, period, last, base)
    task = (writer >> 32) << _TASK_BITS | writer & _LOW
    above, below = signature >> _FREE_BITS, signature & (1 << _FREE_BITS) - 1
    return _HEAD.pack(MARK, above << _WRITER_BITS | task, period, below << _NUMBER_BITS | last)


@lru_cache(4_096)
def read_head(data: bytes) -> Head:
    """The facts of these 32 bytes, which begin with the mark."""
    _, task, period, last = _HEAD.unpack(data)
    above, below = task >> _WRITER_BITS, last >> _NUMBER_BITS
    writer = (task >> _TASK_BITS & _TASK) << 32 | task & _TASK
    last &= (1 << _NUMBER_BITS) - 1
    number, flags = last >> _FLAG_BITS, last & (1 << _FLAG_BITS) - 1
    accepted = number - 2 if flags & UNDER_WAY else number - 1
    signature = above << _FREE_BITS | below
    return Head(writer, period, number, accepted, bool(flags & MARKER), flags, signature)


def pack_marker(head: bytes, sequence: int, base: tuple[int, int]) -> bytes:
    """A marker; ``head`` with its flag, and signed with its base."""
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
