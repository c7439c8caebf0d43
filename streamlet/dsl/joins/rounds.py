"""Rounds in which records that wait are joined, and the keys by which they wait."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from streamlet.state.ordered_rows import Place

#: Records that come, and records that waited, in one round; then other tasks may go on.
PART = 1_000
#: Bytes behind those of a key that tell records of one key and time apart, in order of arrival.
NUMBER_BYTES = 4
#: Behind all numbers of records that wait.
ARRIVING = 1 << 8 * NUMBER_BYTES

#: A record to join: the index of the record that sends it, its order among those, and the record
#: itself: its index in the batch, or its place in the store.
Due: TypeAlias = tuple[int, tuple[int, int, bytes, int], int | Place]


@attrs.define
class JoinRound:
    """The records of one round, by their indexes in the batch.

    ``due`` are joined, in this order, and ``stay`` wait; ``left_out`` are neither. ``reached`` is
    the stream time behind each record. ``sends``: a record may send what waits.
    """

    start: int
    end: int
    reached: list[int] = attrs.field(factory=list)
    due: list[Due] = attrs.field(factory=list)
    stay: list[int] = attrs.field(factory=list)
    left_out: list[int] = attrs.field(factory=list)
    sends: bool = False


def numbered(raw: bytes, number: int) -> bytes:
    """The key of the record with a number among those of one key and time."""
    return raw + number.to_bytes(NUMBER_BYTES, "big")


def number_of(key: bytes) -> int:
    """The number in such a key."""
    return int.from_bytes(key[-NUMBER_BYTES:], "big")
