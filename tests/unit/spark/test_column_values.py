"""Columns with the values of each type, there and back, as Spark's workers make them."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import streamlet as sl
from streamlet.errors import SerdeError
from streamlet.serdes import avro, serde, time_windowed
from streamlet.spark.sql.column_types import column_type
from streamlet.spark.sql.typed_columns import _decoded, encoder
from tests.unit.serdes import test_avro, test_types
from tests.unit.serdes.test_types import WHOLE, Frozen, Made, Pair, Row

#: Types of ``WHOLE`` that no column can hold: their bytes are one.
BYTES = (
    list[Made | test_types.Gone],
    Made | test_types.Gone,
    test_types.Page[int],
    test_types.Page,
    set[int | str],
    dict[int, int],
    dict[test_types.Kind, set[str]],
    int | str,
    tuple[int, str],
)


def there_and_back(one: Any, values: list[Any]) -> list[Any]:
    """The values once they were columns of their type."""
    column = _decoded(pa.array(one.encode_column(values), pa.binary()), one, "out: value")
    assert column.type == column_type(one)
    return one.decode_column(encoder(one, "in: column value")(column))  # type: ignore[no-any-return]


@pytest.mark.parametrize(("of", "value"), WHOLE)
def test_a_column_has_each_value_whole(of: Any, value: Any) -> None:
    one = serde(of)
    if any(of == known for known in BYTES):
        assert column_type(one) is None
        return
    (read, none) = there_and_back(one, [value, None])
    assert none is None
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=dt.UTC)  # a TIMESTAMP is a moment
    assert read == value
    assert type(read) is type(value)


def test_a_null_is_no_default_as_in_a_document() -> None:
    one = serde(Frozen)
    assert one.decode('{"länge":1,"weight":null}'.encode()) == Frozen(1)
    with pytest.raises(SerdeError, match=r"got `null` - at `\$.region`"):
        one.decode('{"länge":1,"region":null}'.encode())
    rows: Any = [{"länge": 1, "region": None}]
    with pytest.raises(SerdeError, match=r"got `null` - at `\$\[0\].region`; .* \| None, fill"):
        encoder(one, "in: column value")(pa.array(rows, type=column_type(one)))
    with pytest.raises(SerdeError, match=r"got `null` - at `\$\[0\].länge`$"):
        encoder(one, "in: column value")(pa.array([{"länge": None}], type=column_type(one)))
    rows = [{"länge": 1, "region": "eu", "weight": None}]
    (raw,) = encoder(one, "in: column value")(pa.array(rows, type=column_type(one)))
    assert raw is not None
    assert one.decode(raw) == Frozen(1)


def schema(*types: Any) -> dict[str, Any]:
    fields = [{"name": f"f{at}", "type": of} for at, of in enumerate(types)]
    return {"type": "record", "name": "R", "fields": fields}


AVRO = schema(
    {"type": "string", "logicalType": "uuid"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]},
    ["null", "Address"],
    {"type": "array", "items": "Address"},
    {"type": "map", "values": {"type": "enum", "name": "E", "symbols": ["A"]}},
    {"type": "string", "logicalType": "of-our-own"},
)
VALUES = (
    uuid.UUID(int=5),
    dt.time(1, 2, 3),
    dt.time(1, 2, 3, 4),
    dt.datetime(2024, 1, 1),  # noqa: DTZ001 - a local time
    dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
    Decimal("1.10"),
    {"city": "x"},
    {"city": "y"},
    [{"city": "z"}],
    {"a": "A"},
    "text",
)


def test_avro_records_are_structs_of_what_their_fields_are() -> None:
    one, value = avro(AVRO), {f"f{at}": one for at, one in enumerate(VALUES)}
    assert there_and_back(one, [value, None, {**value, "f7": None}]) == [
        value,
        None,
        {**value, "f7": None},
    ]
    wide = pa.array([{"f0": Decimal("1.10").quantize(Decimal(10) ** -18)}])
    money = avro(schema(AVRO["fields"][5]["type"]))
    assert money.decode_column(encoder(money, "in")(wide)) == [{"f0": Decimal("1.10")}]
    more = pa.array([{"f0": Decimal("1.105")}])
    with pytest.raises(SerdeError, match=r"in: .*decimal"):
        encoder(money, "in")(more)


@pytest.mark.parametrize(("of", "default", "read"), test_avro.DEFAULTS)
def test_an_avro_field_without_a_column_has_its_default(of: Any, default: Any, read: Any) -> None:
    fields = [{"name": "id", "type": "int"}, {"name": "a", "type": of, "default": default}]
    one = avro({"type": "record", "name": "R", "fields": fields})
    assert one.decode_column(encoder(one, "in")(pa.array([{"id": 1}]))) == [{"id": 1, "a": read}]


MOMENT = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


@dataclass
class Stay:
    a: int
    at: dt.datetime


@dataclass
class Nullable:
    rows: list[Stay | None]
    named: dict[str, Stay | None]


@dataclass
class Whole:
    rows: list[Stay]
    named: dict[str, Stay | None]


def test_a_column_that_is_left_out_gives_keys_of_the_one_form() -> None:
    for of, row, key in (
        (Frozen, {"länge": 1}, Frozen(1)),
        (Pair, {"a": 1}, Pair(1)),
        (Row, {"a": 1}, Row(1)),
    ):
        one: Any = serde(of)
        assert encoder(one, "in")(pa.array([row])) == [one.encode(key)]
    with pytest.raises(SerdeError, match=r"in: .*missing required field `a`"):
        encoder(serde(Pair), "in")(pa.array([{"b": "x"}]))


def test_moments_are_the_same_bytes_in_every_time_zone() -> None:
    columns = (
        pa.array([{"a": MOMENT}], pa.struct([("a", pa.timestamp("us", zone))]))
        for zone in ("UTC", "Asia/Tokyo")
    )
    one = serde(dict[str, dt.datetime])
    assert {bytes(encoder(one, "in")(column)[0] or b"") for column in columns} == {
        b'{"a":"2024-01-01T00:00:00Z"}'
    }


def test_windowed_keys_have_their_keys_whole() -> None:
    one = time_windowed(Pair, 5)
    (found,) = _decoded(pa.array([one.encode(sl.Windowed(Pair(1), 0, 5))]), one, "").to_pylist()
    assert found == {"key": {"a": 1, "b": "x"}, "start": 0, "end": 5}


def test_a_dict_of_aggregates_is_a_struct() -> None:
    app = sl.App("a")
    app.stream("in", key=str, value=Frozen).group_by_key().aggregate(
        {"n": sl.count(), "heaviest": sl.max_(sl.col("weight")), "mean": sl.mean(sl.col("länge"))}
    ).to_stream().to("out")
    (sink,) = (sink for part in app.topology().subtopologies for sink in part.sinks)
    assert column_type(sink.value) == pa.struct(
        [("n", pa.int64()), ("heaviest", pa.float64()), ("mean", pa.float64())]
    )


def test_a_column_with_a_name_beyond_ascii_is_read_in_a_new_process() -> None:
    # Python keeps names: one that was written once is known.
    code = """
from dataclasses import dataclass
import pyarrow as pa
from streamlet.serdes import serde
from streamlet.spark.sql.typed_columns import encoder
@dataclass
class A: größe: float; n: int = 0
rows = pa.array([{"größe": 1.5, "n": 1}])
assert encoder(serde(A), "in")(rows) == ['{"größe":1.5,"n":1}'.encode()]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
def test_what_spark_says_is_never_null_may_be_in_lists_and_maps(zone: str | None) -> None:
    """The fields of a struct are never null, and arrays of such structs have nulls."""
    at = pa.field("at", pa.timestamp("us", zone), nullable=False)
    row = pa.struct([pa.field("a", pa.int32(), nullable=False), at])
    rows = pa.field("rows", pa.list_(pa.field("element", row, nullable=False)), nullable=False)
    column = pa.array(
        [{"rows": [None, {"a": 1, "at": MOMENT}], "named": [("x", None)]}],
        pa.struct([rows, pa.field("named", pa.map_(pa.string(), row), nullable=False)]),
    )
    one = serde(Nullable)
    [found] = one.decode_column(encoder(one, "in")(column))
    assert [each and each.a for each in found.rows] == [None, 1]
    assert found.named == {"x": None}
    with pytest.raises(SerdeError, match=r"in: .*`object`, got `null` - at `\$\[0\]\.rows\[0\]`"):
        encoder(serde(Whole), "in")(column)
