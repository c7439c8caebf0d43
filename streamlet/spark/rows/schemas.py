"""The columns of rows inside a query, with Spark's names of their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: What an application writes; ``partition`` is null where the key decides.
OUTPUT = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "timestamp": "bigint",
    "headers": "array<struct<key: string, value: binary>>",
}
OUTPUT_COLUMNS = tuple(OUTPUT)

#: Many records as one row, see ``packing.Packed``.
PACKED = {
    "group": "int",
    "sender": "string",
    "first": "bigint",
    "part": "int",
    "time": "bigint",
    "topic": "string",
    "partition": "int",
    "records": "binary",
    "until": "bigint",
}


def ddl(columns: Mapping[str, str]) -> str:
    """A schema as Spark takes it."""
    return ", ".join(f"{name} {of}" for name, of in columns.items())


def output_schema(columns: Sequence[str]) -> str:
    """The schema of rows with these columns of ``OUTPUT`` only."""
    return ddl({name: OUTPUT[name] for name in columns})


PACKED_SCHEMA = ddl(PACKED)

#: What our own source gives: of rows made of the same records the first says how many those
#: were; where nothing was made of them, the only row has no records.
READ_SCHEMA = f"{PACKED_SCHEMA}, read bigint"
