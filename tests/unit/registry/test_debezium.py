"""Debezium's topics as streams of changes and as tables, in all forms of its converters."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pydantic
import pytest

import streamlet as sl
from streamlet.errors import ProcessingError
from streamlet.testing import TopologyTestDriver
from tests.registry_server import RegistryServer

TOPIC = "shop.public.customers"


@dataclass
class Customer:
    id: int
    name: str


@dataclass(frozen=True)
class Key:
    id: int
    region: str


#: Writes a key and a value as one of Debezium's converters does.
Form = Callable[[Any, Any], tuple[bytes, bytes | None]]


def plain(key: Any, value: Any) -> tuple[bytes, bytes | None]:
    return json.dumps(key).encode(), None if value is None else json.dumps(value).encode()


def with_schema(key: Any, value: Any) -> tuple[bytes, bytes | None]:
    raw_key, raw = (
        json.dumps({"schema": {"type": "struct"}, "payload": one}) for one in (key, value)
    )
    return raw_key.encode(), None if value is None else raw.encode()


def in_avro(server: RegistryServer) -> Form:
    row = {
        "type": "record",
        "name": "Value",
        "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}],
    }
    envelope = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", row]},
            {"name": "after", "type": ["null", "Value"]},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"]},
        ],
    }
    key = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
    registry = sl.registry.Registry(server.url)
    keys, values = (sl.registry.avro(one, registry=registry) for one in (key, envelope))

    def write(key: Any, value: Any) -> tuple[bytes, bytes | None]:
        known = None
        if value is not None:
            known = {name: value.get(name) for name in ("before", "after", "op", "ts_ms")}
        return keys.encode(key), None if known is None else values.encode(known)

    return write


def event(op: str, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {
        "op": op,
        "before": before,
        "after": after,
        "ts_ms": 7,
        "source": {"table": "customers"},
    }


@pytest.fixture(params=["plain", "with a schema", "Avro"])
def form(request: pytest.FixtureRequest, server: RegistryServer) -> Form:
    if request.param == "Avro":
        return in_avro(server)
    return plain if request.param == "plain" else with_schema


def application(server: RegistryServer, **further: Any) -> sl.App:
    app = sl.App("shop", **further)
    customers = sl.debezium(int, Customer, registry=sl.registry.Registry(server.url))
    customers.table(app, TOPIC, store="customers").to_stream().to("rows")
    return app


LIFE = [
    event("r", after={"id": 1, "name": "a"}),
    event("u", {"id": 1, "name": None}, {"id": 1, "name": "b"}),
    event("d", {"id": 1, "name": "b"}, {"id": 1, "name": "b"}),  # gone, whatever is behind it
    None,
    event("c", after={"id": 1, "name": "c"}),
]


def test_the_table_has_the_rows_as_they_are(server: RegistryServer, form: Form) -> None:
    with TopologyTestDriver(application(server)) as driver:
        seen = []
        for one in LIFE:
            driver.pipe_bytes(TOPIC, *form({"id": 1}, one))
            seen.append(driver.store("customers").get(1))
        a, b, c = (Customer(1, name) for name in "abc")
        assert seen == [a, b, None, None, c]
        assert [r.value for r in driver.read_output("rows") if r.value is not None] == [a, b, c]


def test_the_stream_has_each_change_and_no_tombstone(server: RegistryServer, form: Form) -> None:
    app = sl.App("shop")
    customers = sl.debezium(int, Customer, registry=sl.registry.Registry(server.url))
    customers.stream(app, TOPIC).to("changes")
    with TopologyTestDriver(app) as driver:
        for one in LIFE:
            driver.pipe_bytes(TOPIC, *form({"id": 1}, one))
        found = driver.read_output("changes")
    assert [record.key for record in found] == [1] * 4
    a, b, c = (Customer(1, name) for name in "abc")
    assert [(r.value.operation, r.value.before, r.value.after) for r in found] == [
        ("read", None, a),
        ("update", None, b),  # a row before that lacks columns is none
        ("delete", b, b),
        ("create", None, c),
    ]
    assert {record.value.at_ms for record in found} == {7}


def test_the_stream_has_truncations_and_messages_which_are_about_no_row() -> None:
    app = sl.App("shop")
    sl.debezium(str, Customer).stream(app, TOPIC).to("changes")
    said = {"prefix": "deploy", "content": "dg=="}
    with TopologyTestDriver(app) as driver:
        driver.pipe_bytes(TOPIC, None, with_schema(None, event("t"))[1])
        about = {"op": "m", "ts_ms": 7, "source": {"lsn": 1}, "message": said}
        driver.pipe_bytes(TOPIC, *with_schema({"prefix": "deploy"}, about))
        truncated, message = driver.read_output("changes")
    assert (truncated.key, truncated.value.operation) == (None, "truncate")
    assert (message.key, message.value.operation) == ("deploy", "message")
    assert (message.value.message, message.value.source) == (said, {"lsn": 1})


def test_keys_of_several_columns_are_a_class(server: RegistryServer) -> None:
    app = sl.App("shop")
    sl.debezium(Key, Customer).table(app, TOPIC, store="customers")
    with TopologyTestDriver(app) as driver:
        driver.pipe_bytes(TOPIC, *plain({"region": "eu", "id": 1}, LIFE[0]))
        assert driver.store("customers").get(Key(1, "eu")) == Customer(1, "a")


class Model(pydantic.BaseModel):
    id: int
    at: datetime
    names: dict[int, str] = {}


@dataclass
class Row:
    id: int
    at: datetime
    names: dict[int, str]


@pytest.mark.parametrize("of", [Model, Row])
@pytest.mark.parametrize(("key", "written"), [(UUID(int=1), str(UUID(int=1))), (7, 7)])
def test_rows_are_of_any_class_and_keys_of_one_column_of_any_type(
    of: Any, key: Any, written: Any
) -> None:
    app = sl.App("shop")
    sl.debezium(type(key), of).table(app, TOPIC, store="rows").to_stream().to("rows")
    row = {"id": 1, "at": "2026-01-02T03:04:05Z", "names": {"1": "a"}, "more": 1}
    with TopologyTestDriver(app) as driver:
        driver.pipe_bytes(TOPIC, *plain({"id": written}, event("u", {"id": 1}, row)))
        found = of(id=1, at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), names={1: "a"})
        assert driver.store("rows").get(key) == found
        (record,) = driver.read_output("rows")
        assert (record.key, record.value) == (key, found)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ({"id": 1, "region": "eu"}, LIFE[0], "a key of one column, got id, region"),
        ({"id": "x"}, LIFE[0], "Expected `int`"),
        ({"id": 1}, {"id": 1, "name": "a"}, "it has no field op; were events unwrapped"),
        ({"id": 1}, [1], "it has no field op"),
        ({"id": 1}, event("x"), "unknown operation 'x'"),
        ({"id": 1}, event("c", after={"id": 1}), "missing required field `name`"),
        ({"id": 1}, event("t"), "the table was truncated"),
        ({"id": 1}, event("u", {"id": 1, "name": "a"}), "has no row after it"),
        ({"id": 1}, event("c"), "has no row after it"),
    ],
)
def test_what_is_no_change_is_an_error_of_its_record(
    server: RegistryServer, key: Any, value: Any, says: str
) -> None:
    with (
        TopologyTestDriver(application(server)) as driver,
        pytest.raises(ProcessingError, match=says),
    ):
        driver.pipe_bytes(TOPIC, *plain(key, value))
    with TopologyTestDriver(application(server, on_error="skip")) as driver:
        driver.pipe_bytes(TOPIC, *plain({"id": 1}, LIFE[0]))
        driver.pipe_bytes(TOPIC, *plain(key, value))
        assert driver.store("customers").get(1) == Customer(1, "a")
