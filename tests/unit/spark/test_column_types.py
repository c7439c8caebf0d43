"""Types of columns follow from what serdes declare."""

from __future__ import annotations

import datetime
import enum
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pydantic
import pytest

import streamlet as sl
from streamlet import serdes
from streamlet.errors import SerdeError
from streamlet.serdes import time_windowed
from streamlet.spark.sql.column_types import column_type, is_document, misfit, required_fields
from streamlet.spark.sql.typed_columns import _decoded, encoder


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass
class Line:
    text: str
    size: Size


@dataclass
class Order:
    id: int
    price: float
    lines: list[Line]
    by: dict[str, int]
    at: datetime.datetime | None = None


@dataclass
class Tree:
    inner: list[Tree]


AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "n", "type": "int"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    ],
}
INSTANT = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("of", "wanted"),
    [
        (int, pa.int64()),
        (float, pa.float64()),
        (str, pa.string()),
        (bool, pa.bool_()),
        (bytes, pa.binary()),
        (uuid.UUID, pa.string()),
        (serdes.int16(), pa.int64()),
        (list[Decimal], pa.list_(pa.decimal128(38, 18))),
        (
            time_windowed(str, 5),
            pa.struct([("key", "string"), ("start", "int64"), ("end", "int64")]),
        ),
        (
            serdes.avro(AVRO),
            pa.struct([("n", "int64"), ("at", INSTANT), ("tags", pa.list_(pa.string()))]),
        ),
        (dict, None),
        (pydantic.create_model("Model", a=(int, ...)), None),
        (serdes.json(), None),
        (Tree, None),
        (list[int | str], None),
        ((str.encode, bytes.decode), None),
    ],
)
def test_a_type_has_its_column_or_none(of: Any, wanted: pa.DataType | None) -> None:
    assert column_type(serdes.serde(of)) == wanted


def test_a_dataclass_is_a_struct_of_its_fields() -> None:
    found = column_type(serdes.serde(Order))
    assert found is not None
    assert {field.name: str(field.type) for field in found} == {
        "id": "int64",
        "price": "double",
        "lines": "list<item: struct<text: string, size: string>>",
        "by": "map<string, int64>",
        "at": "timestamp[us, tz=UTC]",
    }
    assert required_fields(serdes.serde(Order)) == {"id", "price", "lines", "by"}
    assert required_fields(serdes.avro(AVRO)) == {"n", "at"}
    assert is_document(serdes.serde(dict))
    assert not is_document(serdes.serde((str.encode, bytes.decode)))
    assert not is_document(serdes.Serde("dict", str.encode, bytes.decode))  # a name of the user's


def test_the_first_field_that_does_not_fit_is_named() -> None:
    wanted = pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.float64())]))])
    assert (
        misfit(pa.struct([("a", pa.int32()), ("b", pa.struct([("c", "int64")]))]), wanted) is None
    )
    inner = pa.struct([("a", pa.int32()), ("b", pa.struct([("c", "string")]))])
    assert misfit(inner, wanted) == ".b.c is string, and double is needed"
    assert misfit(pa.struct([("b", "int8")]), wanted, {"a"}) == ".a is missing (there are b)"
    assert misfit(pa.float64(), pa.int64()) == " is double, and int64 is needed"
    assert misfit(pa.bool_(), pa.int64()) is not None
    by_name = pa.map_(pa.string(), pa.int64())
    assert misfit(pa.map_(pa.int32(), pa.int32()), by_name) is not None
    assert misfit(pa.map_(pa.string(), pa.int32()), by_name) is None


def test_rows_become_the_bytes_that_the_serde_writes() -> None:
    serde = serdes.serde(Order)
    at = datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)
    row = {"id": 1, "price": 2.0, "lines": [{"text": "x", "size": "s"}], "by": [("k", 1)], "at": at}
    column = pa.array([row, None], column_type(serde))
    order = Order(1, 2.0, [Line("x", Size.SMALL)], {"k": 1}, at)
    encoded = encoder(serde, "t: column v")(column)
    assert encoded == [serde.encode(order), None]
    with pytest.raises(SerdeError, match=r"t: column v: Expected `int`, got `null`"):
        encoder(serde, "t: column v")(pa.array([{**row, "id": None}], column_type(serde)))
    raw = encoder(sl.serdes.serde((str.encode, bytes.decode)), "")(pa.array([b"x", None]))
    assert raw == [b"x", None]


def test_a_class_of_pydantic_is_read_and_written_as_its_bytes() -> None:
    """What Arrow and msgspec know of types says nothing of such a class: it was an error."""
    model = serdes.serde(pydantic.create_model("Model", a=(int, ...)))
    assert encoder(model, "in: value")(pa.array([b'{"a":1}', None])) == [b'{"a":1}', None]
    (column,) = _decoded(pa.table({"v": [b'{"a":1}']})["v"], model, "out: value").to_pylist()
    assert column == b'{"a":1}'
