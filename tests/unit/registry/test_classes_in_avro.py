"""Avro schemas of classes: defaults of fields that came later, decimals, what Avro has not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import field, make_dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, NotRequired, TypedDict
from uuid import UUID

import pytest

import streamlet as sl
from streamlet.errors import SerdeError
from tests.registry_server import RegistryServer
from tests.unit.registry.test_records import Color, Line

#: Types of fields that came later, with their defaults.
LATER: dict[str, tuple[Any, Callable[[], Any]]] = {
    "a set": (set[str], lambda: {"a", "b"}),
    "an empty set": (set[str], set),
    "a frozenset": (frozenset[int], frozenset),
    "a tuple": (tuple[int, ...], tuple),
    "a filled list": (list[int], lambda: [1]),
    "a filled dict": (dict[str, bytes], lambda: {"x": b"\xff"}),
    "a date": (date, lambda: date(2026, 1, 2)),
    "an old date or none": (date | None, lambda: date(1926, 1, 2)),
    "a moment": (datetime, lambda: datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
    "a time": (time, lambda: time(3, 4, 5, 6)),
    "a uuid": (UUID, lambda: UUID(int=5)),
    "an enum or none": (Color | None, lambda: Color.BLUE),
    "a record": (Line, lambda: Line("a", 2)),
    "records": (list[Line], lambda: [Line("a")]),
    "the second of a union": (int | str, lambda: "x"),
}


@pytest.mark.parametrize("kind", LATER)
def test_a_field_that_came_later_has_its_default_in_older_records(
    server: RegistryServer, registry: sl.registry.Registry, kind: str
) -> None:
    of, default = LATER[kind]
    before = make_dataclass("Box", [("name", str)])
    after = make_dataclass("Box", [("name", str), ("later", of, field(default_factory=default))])
    raw = sl.registry.avro(before, registry=registry).encode(before("a"))
    own = sl.registry.avro(after, registry=registry)
    assert own.decode(raw) == after("a")
    assert own.decode(own.encode(after("b"))) == after("b")
    (found,) = json.loads(server.schemas[-1]["schema"])["fields"][1:]
    assert isinstance(found["default"], bool | int | str | list | dict)


def test_decimals_are_written_by_a_given_schema(registry: sl.registry.Registry) -> None:
    """They became text, which no decimal of Avro's takes."""
    of = make_dataclass(
        "Bill", [("due", Decimal | None), ("text", Decimal), ("all", list[Decimal])]
    )
    places = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    types = {"due": ["null", places], "text": "string", "all": {"type": "array", "items": places}}
    fields = [{"name": name, "type": one} for name, one in types.items()]
    schema = {"type": "record", "name": "Bill", "fields": fields}
    bills = sl.registry.avro(of, schema=schema, registry=registry)
    some = [of(Decimal("1.10"), Decimal("0.125"), [Decimal("2.00")]), of(None, Decimal(1), [])]
    assert bills.decode_column(bills.encode_column(some)) == some
    assert [bills.copy(one) for one in some] == some


class Partial(TypedDict):
    a: int
    b: NotRequired[str]


@pytest.mark.parametrize(
    ("of", "says"),
    [
        (make_dataclass("Two", [("a", datetime | int)]), "both long in Avro; give a schema in"),
        (Partial, "b may be left out: annotate it with"),
        (
            make_dataclass("Naive", [("at", datetime, datetime(2026, 1, 2))]),  # noqa: DTZ001
            "the default of at is a time without a zone",
        ),
    ],
)
def test_what_would_come_back_as_another_is_refused_with_the_way_out(of: Any, says: str) -> None:
    with pytest.raises(SerdeError, match=says):
        sl.registry.avro(of)
