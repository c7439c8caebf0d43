"""Records as one value of a row: Arrow's own bytes, which cost next to nothing to make and to read.

Spark's cost is per row and grows with the columns: of each row that it writes to Python it asks
each column's size, and a list column answers in time that grows with the batch. So records go
packed.

Columns ``key``, ``value`` and ``timestamp`` are always there; ``offset``, ``partition`` and
``headers`` only where they say something. Arrow trusts the places that its bytes name, and a single
damaged one has it read beyond them: so all of them are checked before anything is read. Reading
takes no memory beyond the bytes (``arrow_messages``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pyarrow as pa

from streamlet.errors import StateError
from streamlet.kafka.ports import Headers
from streamlet.spark.rows.arrow_messages import rows_in

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
    """Columns as bytes."""
    columns: dict[str, Any] = {
        "key": records.keys,
        "value": records.values,
        "timestamp": records.timestamps,
        "offset": None if records.offsets is None else list(records.offsets),
        "partition": records.partitions,
        "headers": None if records.headers is None else list(map(_as_structs, records.headers)),
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


def _as_structs(one: Headers | None) -> list[dict[str, Any]] | None:
    return None if one is None else [{"key": name, "value": value} for name, value in one]


def _as_pairs(one: list[dict[str, Any]] | None) -> Headers | None:
    return None if one is None else [(header["key"], header["value"]) for header in one]
