"""Packed records that are damaged are refused: Arrow would read beyond them."""

from __future__ import annotations

import pytest

from streamlet.errors import StateError
from streamlet.spark.rows.blobs import Records, pack, unpack

_COUNT = 6
PLAIN = Records(
    [b"key" if number % 3 else None for number in range(_COUNT)],
    [b"%d" % number for number in range(_COUNT)],
    list(range(_COUNT)),
    first=7,
)
WHOLE = Records(
    PLAIN.keys,
    PLAIN.values,
    PLAIN.timestamps,
    None,
    list(range(0, 2 * _COUNT, 2)),
    [1] * _COUNT,
    [[("a", b"x"), ("é", None)] if number % 2 else None for number in range(_COUNT)],
)


@pytest.mark.parametrize("records", [PLAIN, WHOLE])
def test_any_flipped_bit_gives_records_or_a_named_error(records: Records) -> None:
    packed = pack(records)
    assert unpack(packed) == records
    refused = 0
    for bit in range(0, len(packed) * 8, 3):
        damaged = bytearray(packed)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            assert len(unpack(bytes(damaged)).keys) == _COUNT
        except StateError as error:
            refused += "bytes of records between two stages of the query are damaged" in str(error)
    assert refused > 100


def test_a_part_of_them_is_refused() -> None:
    packed = pack(WHOLE)
    for size in range(0, len(packed) - 16, 7):
        with pytest.raises(StateError, match="are damaged"):
            unpack(packed[:size])
