"""Records in the framing of a registry: written, read by other schemas, refused by name."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field, make_dataclass
from datetime import UTC, date, datetime, time
from typing import Any
from uuid import UUID

import attrs
import msgspec
import pytest

import streamlet as sl
from streamlet.errors import (
    ConfigError,
    ProcessingError,
    RegistryError,
    SerdeError,
    UnreachableRegistryError,
)
from streamlet.serdes.marks import former_name, is_noted_as, mark_of
from streamlet.testing import TopologyTestDriver
from tests.registry_server import RegistryServer


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@attrs.define
class Line:
    name: str
    count: int = 1


class Note(msgspec.Struct):
    text: str
    inner: Note | None = None


@dataclass
class Order:
    item: str
    total: float
    raw: bytes = b"\xff"
    color: Color = Color.BLUE
    comment: str | None = None
    given: str | None = "x"
    at: datetime | None = None
    day: date | None = None
    hour: time | None = None
    number: UUID | None = None
    lines: list[Line] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    note: Note | None = None


FULL = Order(
    "lamp",
    2.5,
    b"\0\xfe",
    Color.RED,
    "c",
    None,
    datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    date(2026, 1, 2),
    time(3, 4, 5),
    UUID(int=7),
    [Line("a"), Line("b", 2)],
    {"x": 1},
    Note("n", Note("m")),
)


@pytest.mark.parametrize("value", [Order("lamp", 1.0), FULL])
@pytest.mark.parametrize("make", [sl.registry.avro, sl.registry.json])
def test_a_class_goes_through_and_returns(
    registry: sl.registry.Registry, make: Any, value: Order
) -> None:
    serde = make(Order, registry=registry).of_topic("orders", "value")
    raw = serde.encode(value)
    assert raw[:5] == b"\0\0\0\0\1"
    assert serde.decode(raw) == value
    assert serde.encode_column([value, None]) == [raw, None]
    assert serde.decode_column([raw, None, raw]) == [value, None, value]
    assert serde.copy(value) == value
    assert serde.copy(value) is not value


@pytest.mark.parametrize("of", [Line, Note])
def test_attrs_classes_and_structs_are_records(registry: sl.registry.Registry, of: Any) -> None:
    value = of("n")
    serde = sl.registry.avro(of, registry=registry, namespace="shop")
    assert serde.decode(serde.encode(value)) == value


def test_the_schema_of_a_class_is_what_other_clients_would_write(
    server: RegistryServer, registry: sl.registry.Registry
) -> None:
    sl.registry.avro(Line, registry=registry, namespace="shop").of_topic("t", "key").encode(
        Line("")
    )
    assert json.loads(server.schemas[0]["schema"]) == {
        "type": "record",
        "name": "shop.Line",
        "fields": [
            {"name": "name", "type": "string"},
            {"name": "count", "type": "long", "default": 1},
        ],
    }
    sl.registry.json(Line, registry=registry).encode(Line(""))
    found = json.loads(server.schemas[1]["schema"])
    assert (found["title"], found["type"], found["required"]) == ("Line", "object", ["name"])


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("topic", "orders-value"),
        ("record", "shop.Line"),
        ("topic-record", "orders-shop.Line"),
        (lambda topic, role, name: f"{role}/{topic}/{name}", "value/orders/shop.Line"),
    ],
)
def test_subjects_are_named_by_the_strategy(
    server: RegistryServer, registry: sl.registry.Registry, subject: Any, expected: str
) -> None:
    serde = sl.registry.avro(Line, namespace="shop", registry=registry, subject=subject)
    serde.of_topic("orders", "value").encode(Line("a"))
    assert list(server.subjects) == [expected]


async def awaited(topic: str, role: str, name: str) -> str:
    return name


def test_a_strategy_that_is_none_is_refused(registry: sl.registry.Registry) -> None:
    wrong: Any
    for wrong in ("topics", ["topic"], None):
        with pytest.raises(ConfigError, match="expected 'topic', 'record', 'topic-record'"):
            sl.registry.avro(Line, registry=registry, subject=wrong)
    wrong = awaited
    with pytest.raises(ConfigError, match="registry='http://x': expected a Registry"):
        sl.registry.avro(Line, registry="http://x")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="subject: its calls do nothing by themselves"):
        sl.registry.avro(Line, registry=registry, subject=wrong)
    wrong = dict(a=1).get  # gives None for any topic
    nameless = sl.registry.avro(Line, registry=registry, subject=lambda topic, *_: wrong(topic))
    with pytest.raises(RegistryError, match="subject= returned None: expected a name"):
        nameless.of_topic("orders", "value").encode(Line("a"))


def test_records_of_older_and_newer_writers_are_read_as_ones_own(
    server: RegistryServer, registry: sl.registry.Registry
) -> None:
    fewer = make_dataclass("Line", [("name", str)])
    more = make_dataclass("Line", [("gone", float), ("count", int), ("name", str)])
    raws = [
        sl.registry.avro(Line, registry=registry).encode(Line("own", 3)),
        sl.registry.avro(fewer, registry=registry, subject="record").encode(fewer("old")),
        sl.registry.avro(more, registry=registry, subject="record").encode(more(1.5, 4, "new")),
    ]
    own = sl.registry.avro(Line, registry=registry)
    assert own.decode_column(raws) == [Line("own", 3), Line("old", 1), Line("new", 4)]
    as_written = sl.registry.avro(registry=registry)
    assert as_written.decode_column(raws)[2] == {"gone": 1.5, "count": 4, "name": "new"}
    with pytest.raises(SerdeError, match="it only reads"):
        as_written.encode({})


def test_a_writer_whose_schema_does_not_fit_is_an_error_of_its_records(
    server: RegistryServer, registry: sl.registry.Registry
) -> None:
    other = make_dataclass("Line", [("name", bytes)])
    raw = sl.registry.avro(other, registry=registry, subject="record").encode(other(b"\xff"))
    with pytest.raises(SerdeError, match="Line"):
        sl.registry.avro(Line, registry=registry).decode(raw)


def test_a_schema_that_uses_others_is_read_with_them(
    server: RegistryServer, registry: sl.registry.Registry
) -> None:
    line = {"type": "record", "name": "shop.Line", "fields": [{"name": "name", "type": "string"}]}
    order = {"type": "record", "name": "Two", "fields": [{"name": "a", "type": "shop.Line"}]}
    order["fields"] += [{"name": "b", "type": "shop.Line"}]  # type: ignore[operator]
    server.add(line, "lines")
    known = server.add(
        order, "two", references=[{"name": "shop.Line", "subject": "lines", "version": 1}]
    )
    raw = b"\0" + known.to_bytes(4, "big") + b"\2x\2y"
    found = sl.registry.avro(registry=registry).decode(raw)
    assert found == {"a": {"name": "x"}, "b": {"name": "y"}}


@pytest.mark.parametrize(
    "schema",
    [
        '{"type": "array", "items": "null"}',
        '{"type": "array", "items": {"type": "record", "name": "E", "fields": []}}',
        '{"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}',
        '{"type": "record", "name": "R", "fields": [{"name": "r", "type": "Missing"}]}',
        '{"type": "record"}',
        "{nope",
        "[" * 5_000,
        '{"type": "array", "items": ' * 80 + '"long"' + "}" * 80,
    ],
)
def test_a_hostile_schema_is_an_error_of_the_record(
    server: RegistryServer, registry: sl.registry.Registry, schema: str
) -> None:
    raw = b"\0" + server.add(schema).to_bytes(4, "big") + b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"
    for serde in (sl.registry.avro(registry=registry), sl.registry.avro(Line, registry=registry)):
        with pytest.raises(SerdeError):
            serde.decode(raw)


@pytest.mark.parametrize("sort", ["array", "record"])
def test_a_schema_of_values_without_end_and_bytes_is_refused(
    server: RegistryServer, registry: sl.registry.Registry, sort: str
) -> None:
    """Each record has the one before twice; the first has a null."""
    types: list[Any] = [
        {
            "type": "record",
            "name": f"R{n}",
            "fields": [{"name": name, "type": f"R{n - 1}" if n else "null"} for name in "ab"],
        }
        for n in range(40)
    ]
    if sort == "array":
        types.append({"type": "array", "items": "R39"})
    raw = b"\0" + server.add(types).to_bytes(4, "big") + b"\2"
    for serde in (sl.registry.avro(registry=registry), sl.registry.avro(Line, registry=registry)):
        with pytest.raises(SerdeError, match=r"takes? no bytes"):
            serde.decode(raw)


@pytest.mark.parametrize("raw", [b"", b"\0", b"\0\0\0\0", b"{}", b"\1" + bytes(15), b"\2" * 30])
def test_bytes_without_a_schema_id_are_named_as_such(
    registry: sl.registry.Registry, raw: bytes
) -> None:
    for serde in (sl.registry.avro(Line, registry=registry), sl.registry.json(registry=registry)):
        with pytest.raises(SerdeError, match="no schema id is in front of it"):
            serde.decode(raw)
        with pytest.raises(SerdeError, match="no schema id is in front of it"):
            serde.decode_column([raw])


def test_a_record_in_another_language_of_schemas_is_named(registry: sl.registry.Registry) -> None:
    raw = sl.registry.json(Line, registry=registry).encode(Line("a"))
    with pytest.raises(SerdeError, match=r"a schema of JSON: read it with sl\.registry\.json"):
        sl.registry.avro(Line, registry=registry).decode(raw)


OPTIONAL: dict[str, Any] = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "a", "type": ["null", "string"]}],
}


@pytest.mark.parametrize(
    "plain",
    [int, float, dict, list, Line, bool, UUID, sl.json(), sl.avro(OPTIONAL), sl.avro('"long"')],
)
def test_a_plain_serde_says_that_bytes_are_those_of_a_registry(
    registry: sl.registry.Registry, plain: Any
) -> None:
    raw = sl.registry.avro(Line, registry=registry).encode(Line("a lamp"))
    with pytest.raises(SerdeError, match=r"a schema registry do \(schema id 1\): read those with"):
        sl.serde(plain).decode(raw)


class Tagged(msgspec.Struct, tag=True):
    a: int


@pytest.mark.parametrize(
    "of",
    [
        tuple[int, str],
        dict[int, int],
        make_dataclass("Two", [("a", Line | Note)]),
        Tagged,
        make_dataclass("Named", [("a", enum.Enum("Odd", {"A": "a b"}))]),
    ],
)
def test_a_type_that_avro_has_nothing_for_is_refused(of: Any) -> None:
    says = r"give schema= beside the type|give a schema in place of the type|no JSON for Two"
    with pytest.raises(SerdeError, match=says):
        sl.registry.avro(of)


def test_stores_note_a_serde_with_a_registry_without_its_schema() -> None:
    newer = {
        **OPTIONAL,
        "fields": [*OPTIONAL["fields"], {"name": "b", "type": "int", "default": 1}],
    }
    names = [sl.registry.avro(schema).name for schema in (OPTIONAL, newer)]
    assert names == ["registry(avro(R))"] * 2
    assert is_noted_as(mark_of(names[0]), names[1])
    plain = sl.avro(OPTIONAL).name
    assert not is_noted_as(mark_of(names[0]), plain)
    assert not is_noted_as(mark_of(plain), names[0])
    assert not is_noted_as(former_name(plain), names[0])


def application(registry: sl.registry.Registry, **further: Any) -> sl.App:
    app = sl.App("shop", **further)
    lines = app.stream("lines", key=str, value=sl.registry.avro(Line, registry=registry))
    lines.to("copies")
    lines.group_by_key().reduce(
        lambda one, other: Line(one.name, one.count + other.count), store="sums"
    ).to_stream().to("sums")
    return app


def test_an_application_reads_keeps_and_writes_framed_records(
    server: RegistryServer, registry: sl.registry.Registry
) -> None:
    with TopologyTestDriver(application(registry)) as driver:
        driver.pipe_input("lines", key="a", value=Line("x", 2))
        driver.pipe_input("lines", key="a", value=Line("y", 3))
        found = [record.value for record in driver.read_output("sums")]
        assert found == [Line("x", 2), Line("x", 5)]
    assert set(server.subjects) >= {"lines-value", "copies-value", "sums-value"}


@pytest.mark.parametrize(
    "headers",
    [
        [("__value_schema_id", b"\0\0\0\0\1")],
        [("other", b""), ("__value_schema_id", b"\1" + UUID(int=5).bytes)],
    ],
)
def test_a_schema_id_in_a_header_is_read(
    server: RegistryServer, registry: sl.registry.Registry, headers: Any
) -> None:
    framed = sl.registry.avro(Line, registry=registry).of_topic("lines", "value").encode(Line("x"))
    server.guids[str(UUID(int=5))] = 1
    with TopologyTestDriver(application(registry)) as driver:
        driver.pipe_bytes("lines", key=b"a", value=framed[5:], headers=headers)
        driver.pipe_bytes("lines", key=b"a", value=None, headers=headers)
        assert [record.value for record in driver.read_output("copies")] == [Line("x"), None]


def test_an_unknown_id_is_for_the_error_policy_and_a_registry_that_is_away_is_not(
    server: RegistryServer, registry: sl.registry.Registry
) -> None:
    known = sl.registry.avro(Line, registry=registry).of_topic("lines", "value").encode(Line("x"))
    unknown = b"\0\0\0\0\x63" + known[5:]
    with TopologyTestDriver(application(registry, on_error="skip")) as driver:
        driver.pipe_bytes("lines", key=b"a", value=unknown)
        driver.pipe_bytes("lines", key=b"a", value=known)
        assert [record.value for record in driver.read_output("copies")] == [Line("x")]
    with (
        TopologyTestDriver(application(registry)) as driver,
        pytest.raises(ProcessingError, match="has no schema id 99"),
    ):
        driver.pipe_bytes("lines", key=b"a", value=unknown)
    fresh = sl.registry.Registry(server.url)
    fresh._connection.block = lambda ms: None
    server.bad = 503, b""
    with (
        TopologyTestDriver(application(fresh, on_error="skip")) as driver,
        pytest.raises(
            UnreachableRegistryError, match="until it is back, and then goes on where it was"
        ),
    ):
        driver.pipe_bytes("lines", key=b"a", value=known)


def test_a_registry_that_is_away_while_records_are_written_loses_none(
    server: RegistryServer, registry: sl.registry.Registry
) -> None:
    app = sl.App("shop", on_error="skip")
    app.stream("names", key=str, value=str).map_values(Line).to(
        "lines", value=sl.registry.avro(Line, registry=registry)
    )
    server.bad = 503, b""
    with TopologyTestDriver(app) as driver, pytest.raises(UnreachableRegistryError):
        driver.pipe_input("names", key="a", value="x")
