"""Records as one value of a row: Arrow's own bytes, which cost next to nothing to make and to read.

Spark's cost is per row and grows with the columns: of each row that it writes to Python it asks
each column's size, and a list column answers in time that grows with the batch. So records go
packed.

Columns ``key``, ``value`` and ``timestamp`` are always there; ``offset``, ``partition`` and
``headers`` only where they say something. Arrow trusts the places that its bytes name, and a single
damaged one has it read beyond them: so all of them are checked before anything is read. Reading
takes no memory beyond the bytes: Arrow unpacks compressed columns to whatever length they name (10
kB became 300 MiB), so these, and dictionaries, which no stage writes, are refused unread.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import attrs
import pyarrow as pa

from streamlet.errors import StateError
from streamlet.kafka.ports import Headers

#: Numbers of fields in the tables of which the metadata of Arrow consists.
_HEADER = 2
_COMPRESSION = 3


def rows_in(packed: bytes, types: dict[str, pa.DataType]) -> pa.RecordBatch:
    """The first rows of a stream, which lie in ``packed`` itself, with columns of these types.

    Raises:
        ValueError: the columns are others, they are compressed, or there is something else.
        ArrowException, OSError, StopIteration: Arrow cannot read them.
    """
    messages = pa.ipc.MessageReader.open_stream(pa.py_buffer(packed))
    first = messages.read_next_message()
    if first.type != "schema":  # Arrow ends the process on some others
        raise ValueError(f"expected the schema of the rows first, got a {first.type}")
    schema = pa.ipc.read_schema(first)
    if any(types.get(field.name) != field.type for field in schema):
        raise ValueError(f"their columns are {dict(zip(schema.names, schema.types, strict=True))}")
    message = messages.read_next_message()
    if message.type != "record batch":
        raise ValueError(f"a {message.type} is where the rows should be")
    if is_compressed(message.metadata.to_pybytes()):
        raise ValueError("their columns are compressed")
    return pa.ipc.read_record_batch(message, schema)


def is_compressed(metadata: bytes) -> bool:
    """True if the metadata of rows tells of compressed columns.

    Raises:
        ValueError: they are cut off.
    """
    try:
        (message,) = struct.unpack_from("<I", metadata, 0)
        header = _field(metadata, message, _HEADER)
        if header is None:
            raise ValueError("rows without a header")
        (length,) = struct.unpack_from("<I", metadata, header)
        return _field(metadata, header + length, _COMPRESSION) is not None
    except struct.error as error:
        raise ValueError(f"their metadata is cut off: {error}") from error


def _field(raw: bytes, table: int, number: int) -> int | None:
    """The place of a field in a table of flatbuffers; None: the table is without it."""
    (back,) = struct.unpack_from("<i", raw, table)
    names = table - back
    (size,) = struct.unpack_from("<H", raw, names)
    entry = 4 + 2 * number
    if entry + 2 > size:
        return None
    (distance,) = struct.unpack_from("<H", raw, names + entry)
    return table + distance if distance else None


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

_FIRST = b"first"
_ALWAYS = frozenset({"key", "value", "timestamp"})
_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "timestamp": pa.int64(),
    "offset": pa.int64(),
    "partition": pa.int32(),
    "headers": HEADERS,
}


@attrs.define
class Records:
    """Columns of records; offsets only where they came from a topic."""

    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: list[int]
    #: Offset of the first, if they have offsets and these have no holes.
    first: int | None = None
    offsets: Sequence[int] | None = None
    partitions: list[int] | None = None
    headers: list[Headers | None] | None = None


def blob(rows: pa.RecordBatch, first: int | None = None) -> bytes:
    """Rows with some of the columns above as bytes."""
    metadata = None if first is None else {_FIRST: b"%d" % first}
    rows = rows.replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def rows_of(packed: bytes) -> pa.RecordBatch:
    """The packed rows, without a copy.

    Raises:
        StateError: the bytes are damaged.
    """
    try:
        rows = rows_in(packed, _TYPES)
        rows.validate(full=True)
        _first_of(rows)
    except (pa.ArrowException, OSError, StopIteration, ValueError) as error:
        raise _damaged(packed, str(error) or "they end too early") from error
    if _ALWAYS - set(rows.schema.names):
        raise _damaged(packed, f"their columns are {rows.schema.names}")
    return rows


def _first_of(rows: pa.RecordBatch) -> int | None:
    """The offset of the first record, if it is noted."""
    noted = (rows.schema.metadata or {}).get(_FIRST)
    return None if noted is None else int(noted)


def _damaged(packed: bytes, reason: str) -> StateError:
    return StateError(
        f"{len(packed)} bytes of records between two stages of the query are damaged: {reason}; "
        "nothing of them was processed, and the batch can be run again"
    )


def pack(records: Records) -> bytes:
    """The bytes of records, for a row between two stages."""
    columns: dict[str, Any] = {
        "key": records.keys,
        "value": records.values,
        "timestamp": records.timestamps,
        "offset": None if records.offsets is None else list(records.offsets),
        "partition": records.partitions,
        "headers": None if records.headers is None else list(map(as_structs, records.headers)),
    }
    there = {name: column for name, column in columns.items() if column is not None}
    arrays = [pa.array(column, _TYPES[name]) for name, column in there.items()]
    return blob(pa.RecordBatch.from_arrays(arrays, names=list(there)), records.first)


def unpack(packed: bytes) -> Records:
    """The columns that were packed.

    Raises:
        StateError: the bytes are damaged.
    """
    rows = rows_of(packed)
    columns = {name: rows[name].to_pylist() for name in rows.schema.names}
    headers = columns.get("headers")
    return Records(
        columns["key"],
        columns["value"],
        columns["timestamp"],
        _first_of(rows),
        columns.get("offset"),
        columns.get("partition"),
        None if headers is None else list(map(_as_pairs, headers)),
    )


def as_structs(one: Headers | None) -> list[dict[str, Any]] | None:
    """The headers of a record as Spark has them."""
    return None if one is None else [{"key": name, "value": value} for name, value in one]


def _as_pairs(one: list[dict[str, Any]] | None) -> Headers | None:
    return None if one is None else [(header["key"], header["value"]) for header in one]
