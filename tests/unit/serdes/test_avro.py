"""Avro without a registry."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from streamlet.errors import SerdeError
from streamlet.serdes import ColumnError, avro
from streamlet.serdes.marks import former_name

FLIGHT = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "delay", "type": ["null", "int"], "default": None},
    ],
}


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    file = tmp_path / "flight.avsc"
    file.write_text(json.dumps(FLIGHT))
    flight = {"carrier": "AA", "delay": 3}
    for schema in (FLIGHT, json.dumps(FLIGHT), file):
        one = avro(schema)
        assert former_name(one.name) == "avro(Flight)"
        assert one.encode(flight) == b"\x04AA\x02\x06"
        assert one.decode_column([b"\x04AA\x02\x06", None]) == [flight, None]
        assert one.copy(flight) == flight
        assert one.copy(flight) is not flight


def test_a_primitive_schema_is_its_name() -> None:
    assert avro("long").decode(avro("long").encode(5)) == 5


def test_bytes_of_an_older_schema_are_read_into_the_newer() -> None:
    newer = {**FLIGHT, "fields": [*FLIGHT["fields"], {"name": "x", "type": "int", "default": 7}]}
    one = avro(newer, writer=FLIGHT)
    assert one.decode(b"\x04AA\x00") == {"carrier": "AA", "delay": None, "x": 7}


def test_leftover_and_missing_bytes_are_refused() -> None:
    one = avro(FLIGHT)
    with pytest.raises(SerdeError, match=r"avro\(Flight\): cannot decode .*1 bytes are left over"):
        one.decode(b"\x04AA\x00\x00")
    with pytest.raises(SerdeError, match="cannot decode"):
        one.decode(b"\x04A")


def test_a_value_that_does_not_fit_is_found_in_its_column() -> None:
    with pytest.raises(ColumnError, match="cannot encode") as caught:
        avro(FLIGHT).encode_column([{"carrier": "AA", "delay": 1}, None, {"carrier": 3}])
    assert caught.value.index == 2


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "nonsense"}, "nonsense"),
        ('{"type": ', "cannot read the schema"),
        (Path("nowhere.avsc"), "No such file.*nowhere.avsc"),
        ("nowhere.avsc", "No such file.*nowhere.avsc.*the path of an .avsc file"),
        ("strnig", "the path of an .avsc file"),
        (None, "expected a schema, its JSON text or the path of an .avsc file, got None"),
        ({}, "expected a schema, its JSON text .* got {}"),
        (5, "expected a schema, its JSON text .* got 5"),
        ([], "a union of nothing"),
        ({"type": "array", "items": []}, "a union of nothing"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "Nope"}]}, "Nope"),
    ],
)
def test_a_bad_schema_is_refused(schema: Any, message: str) -> None:
    with pytest.raises(SerdeError, match=f"avro: .*{message}"):
        avro(schema)


def record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


ID = {"name": "id", "type": "int"}
INNER = record("Inner", {"name": "x", "type": "int", "default": 3}, {**ID, "default": 4})
DEFAULTS: list[tuple[Any, Any, Any]] = [
    (["null", "string"], None, None),
    ("bytes", "\u00ff", b"\xff"),
    (["bytes", "null"], "x", b"x"),
    ({"type": "array", "items": "bytes"}, ["a"], [b"a"]),
    ({"type": "map", "values": "int"}, {"a": 1}, {"a": 1}),
    (INNER, {"x": 1}, {"x": 1, "id": 4}),
    ({"type": "fixed", "name": "F", "size": 2}, "\u0000\u0001", b"\x00\x01"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
        "\u0001",
        Decimal("0.01"),
    ),
    ({"type": "string", "logicalType": "uuid"}, str(UUID(int=3)), UUID(int=3)),
    ({"type": "int", "logicalType": "date"}, 1, date(1970, 1, 2)),
    ({"type": "int", "logicalType": "time-millis"}, 1, time(0, 0, 0, 1000)),
    ({"type": "long", "logicalType": "timestamp-millis"}, 0, datetime(1970, 1, 1, tzinfo=UTC)),
]


@pytest.mark.parametrize("named", ["strin", {"type": "strin"}])
def test_a_type_that_there_is_not_is_named(named: Any) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": named}]}
    with pytest.raises(SerdeError, match=r"^avro: not a valid schema: there is no type .*strin"):
        avro(schema)


@pytest.mark.parametrize(("of", "default", "read"), DEFAULTS)
def test_a_field_that_is_left_out_has_its_default(of: Any, default: Any, read: Any) -> None:
    schema = record("R", {"name": "a", "type": of, "default": default}, {**ID, "default": 0})
    one = avro(schema)
    assert one.decode(one.encode({"id": 5})) == {"a": read, "id": 5}
    assert one.encode({}) == one.encode({"id": 0, "a": read})
    assert schema["fields"][0]["default"] == default, "the caller's schema is as it was"
    older = avro(schema, writer=record("R", ID))
    first, second = older.decode(b"\x0a"), older.decode(b"\x0a")
    assert first == second == {"a": read, "id": 5}
    assert not isinstance(read, list | dict) or first["a"] is not second["a"]


def test_a_field_without_a_default_and_one_that_is_unknown_are_refused() -> None:
    one = avro(FLIGHT)
    for value in ({"delay": 1}, {"carrier": "AA", "dealy": 1}):
        with pytest.raises(SerdeError, match="cannot encode"):
            one.encode(value)


def test_the_path_of_a_file_is_a_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = record("Order", {"name": "to", "type": "Address"}, {"name": "bill", "type": "Address"})
    (tmp_path / "orders.avsc").write_text(json.dumps(order))
    (tmp_path / "Address.avsc").write_text(json.dumps(record("Address", ID)))
    (tmp_path / "any.avsc").write_text(json.dumps(["long", record("Address", ID)]))
    monkeypatch.chdir(tmp_path)
    value: Any = {"to": {"id": 1}, "bill": {"id": 2}}
    for schema in ("orders.avsc", str(tmp_path / "orders.avsc"), Path("orders.avsc")):
        assert avro(schema).decode(avro(schema).encode(value)) == value
    assert [avro("any.avsc").decode(avro("any.avsc").encode(v)) for v in (5, {"id": 1})] == [
        5,
        {"id": 1},
    ]


def test_a_union_may_be_the_schema() -> None:
    union = ["string", record("Made", ID), record("Sold", {"name": "price", "type": "double"})]
    for schema in (union, json.dumps(union)):
        one = avro(schema)
        assert former_name(one.name) == "avro(string | Made | Sold)"
        for value in ("a", {"id": 1}, {"price": 1.5}):
            assert one.decode(one.encode(value)) == value
        with pytest.raises(SerdeError, match="do not match"):
            one.encode(5)


def test_records_of_a_union_that_are_alike_go_with_their_names() -> None:
    union = [record("Made", ID), record("Gone", ID)]
    one = avro(union)
    for name in ("Made", "Gone"):
        assert one.decode(one.encode((name, {"id": 1}))) == (name, {"id": 1})
    inside = avro(record("List", {"name": "all", "type": {"type": "array", "items": union}}))
    events = {"all": [("Gone", {"id": 1}), ("Made", {"id": 2})]}
    assert inside.decode(inside.encode(events)) == events
    for serde, value in ((one, {"id": 1}), (inside, {"all": [("Made", {"id": 1}), {"id": 1}]})):
        with pytest.raises(SerdeError, match="give a pair of the name and the record"):
            serde.encode(value)


def test_a_schema_may_contain_itself() -> None:
    one = avro(record("Node", ID, {"name": "next", "type": ["null", "Node"], "default": None}))
    assert one.decode(one.encode({"id": 1, "next": {"id": 2}})) == {
        "id": 1,
        "next": {"id": 2, "next": None},
    }


def test_equal_keys_have_one_form() -> None:
    one = avro(record("Key", ID, {"name": "tags", "type": {"type": "map", "values": "int"}}))
    first: Any = {"id": 1, "tags": {"b": 1, "a": 2}}
    second: Any = {"tags": {"a": 2, "b": 1}, "id": 1}
    assert one.encode(first) == one.encode(second)
    value = one.as_value
    assert value is not None
    assert list(value.decode(value.encode(first))["tags"]) == ["b", "a"]
