"""Messages of an Arrow stream whose rows take no memory beyond the bytes that they are in.

Arrow unpacks compressed columns as soon as it reads a message, to whatever length they name: 10 kB
became 300 MiB. No stage writes such columns, nor dictionaries, so both are refused unread.
"""

from __future__ import annotations

import struct

import pyarrow as pa

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
