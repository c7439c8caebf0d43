"""Packed records that are damaged, or would unpack to more than they are, are refused."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from streamlet.errors import StateError
from streamlet.spark.rows.blobs import HEADERS, Records, pack, unpack

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


def test_a_message_of_no_kind_in_place_of_columns_is_refused_unread() -> None:
    """Arrow does not check what it finds in one, and ended the process at one of these."""
    packed = bytearray(pack(WHOLE))
    (table,) = struct.unpack_from("<I", packed, 8)
    (back,) = struct.unpack_from("<i", packed, 8 + table)
    packed[8 + table - back + 6] = 7  # its kind lies where there is a zero
    for place in range(8 + table + 4, packed.index(b"\xff\xff\xff\xff", 4)):
        damaged = packed[:place] + bytes([packed[place] + 8 & 255]) + packed[place + 1 :]
        with pytest.raises(StateError, match="are damaged"):
            unpack(bytes(damaged))


def test_a_part_of_them_is_refused() -> None:
    packed = pack(WHOLE)
    for size in range(0, len(packed) - 16, 7):
        with pytest.raises(StateError, match="are damaged"):
            unpack(packed[:size])


#: Columns with all kinds of buffers: validity, offsets, values, and those of lists and structs.
_LONG = 1_000_000
_ZEROS = pa.array([bytes(_LONG)], pa.binary())
_TIMES = pa.array([0], pa.int64())


def _written(columns: dict[str, pa.Array], codec: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    rows = pa.RecordBatch.from_pydict(columns)
    with pa.ipc.new_stream(
        sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=codec)
    ) as stream:
        stream.write_batch(rows)
    written: bytes = sink.getvalue().to_pybytes()
    return written


_OF_VALUES = {"key": _ZEROS, "value": _ZEROS, "timestamp": _TIMES}
_OF_OFFSETS = {
    "key": pa.nulls(_LONG, pa.binary()),
    "value": pa.array([b""] * _LONG, pa.binary()),
    "timestamp": pa.array([0] * _LONG, pa.int64()),
}
_OF_HEADERS = {
    **_OF_VALUES,
    "headers": pa.array([[{"key": "k" * _LONG, "value": bytes(_LONG)}]], HEADERS),
}


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@pytest.mark.parametrize("columns", [_OF_VALUES, _OF_OFFSETS, _OF_HEADERS])
def test_compressed_records_are_refused_before_they_are_unpacked(
    codec: str, columns: dict[str, pa.Array]
) -> None:
    assert unpack(_written(columns)).timestamps  # the same uncompressed
    packed = _written(columns, codec)
    assert len(packed) < _LONG / 10
    with _no_memory(), pytest.raises(StateError, match="are compressed; nothing of them was"):
        unpack(packed)


_DICTIONARY = _ZEROS.dictionary_encode()
_IN_HEADERS = pa.array(
    [[{"key": "a", "value": b"b"}]],
    pa.list_(pa.struct([("key", pa.dictionary(pa.int32(), pa.string())), ("value", pa.binary())])),
)


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
@pytest.mark.parametrize(
    "columns",
    [
        {**_OF_VALUES, "key": _DICTIONARY},
        {**_OF_VALUES, "headers": _IN_HEADERS},
        {**_OF_VALUES, "more": _DICTIONARY},
    ],
)
def test_dictionaries_are_refused_before_they_are_unpacked(
    codec: str | None, columns: dict[str, pa.Array]
) -> None:
    packed = _written(columns, codec)
    with _no_memory(), pytest.raises(StateError, match=r"their columns are .*dictionary"):
        unpack(packed)


@pytest.mark.parametrize("number", [1 << 24, 1 << 31, 1 << 40, (1 << 63) - 1, (1 << 64) - 1])
def test_no_length_that_is_forged_takes_memory(number: int) -> None:
    packed, refused = pack(WHOLE), 0
    with _no_memory():
        for at in range(0, len(packed) - 8, 4):
            forged = packed[:at] + struct.pack("<Q", number) + packed[at + 8 :]
            try:
                assert len(unpack(forged).keys) == _COUNT
            except StateError:
                refused += 1
    assert refused > 50
    assert unpack(packed) == WHOLE


@contextmanager
def _no_memory() -> Iterator[None]:
    """A block in which Arrow may take a few kB only."""
    usual = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counted)
    try:
        yield
    finally:
        pa.set_memory_pool(usual)
    assert counted.max_memory() < 10_000
