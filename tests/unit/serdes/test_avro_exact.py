"""Values that Avro would write as others are refused, and all that it writes as they are is not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

import streamlet as sl
from streamlet.errors import SerdeError
from streamlet.serdes import ColumnError, avro
from streamlet.testing import TopologyTestDriver


def record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    named = [{"name": field, "type": of} for field, of in fields]
    return {"type": "record", "name": name, "fields": named}


TIMESTAMP = {"type": "long", "logicalType": "timestamp-millis"}
#: A schema, values that it has, and others that fastavro writes as if it had them.
KINDS: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "null": ("null", [None], [0, "", False]),
    "boolean": ("boolean", [True, False], [0, 1, 1.0, "no", b"", [], object()]),
    "int": ("int", [0, -(2**31), 2**31 - 1], [True, 1.5, 2.0, Decimal(1), 2**31, -(2**31) - 1]),
    "long": ("long", [0, 2**63 - 1, -(2**63)], [False, 1.5, 2.0, Decimal("0.1"), float("nan")]),
    "float": ("float", [0.5, 2, float("inf")], [True, Decimal("0.1"), 1e39, -1e300]),
    "double": ("double", [0.1, 2**53], [True, Decimal("0.1"), 2**53 + 1]),
    "date": (
        {"type": "int", "logicalType": "date"},
        [date(2024, 2, 29)],
        [True, 1.5, datetime.now(UTC)],
    ),
    "time": (
        {"type": "long", "logicalType": "timestamp-micros"},
        [datetime(2024, 2, 29, tzinfo=UTC)],
        [True, 1.5, Decimal(1), datetime(2024, 2, 29)],  # noqa: DTZ001
    ),
    "perhaps a time": (
        ["null", {"type": "long", "logicalType": "timestamp-millis"}],
        [datetime(2024, 2, 29, tzinfo=UTC)],
        [datetime(2024, 2, 29)],  # noqa: DTZ001
    ),
    "time of day": (
        {"type": "long", "logicalType": "time-micros"},
        [time(1, 2, 3)],
        [True, 1.5, time(1, tzinfo=UTC)],
    ),
    "local time": (
        {"type": "long", "logicalType": "local-timestamp-micros"},
        [datetime(2024, 2, 29)],  # noqa: DTZ001
        [True, 1.5, datetime(2024, 2, 29, tzinfo=UTC)],
    ),
    "a day or a time": (
        ["null", {"type": "int", "logicalType": "date"}, TIMESTAMP],
        [date(2024, 2, 29)],
        [datetime(2024, 2, 29, tzinfo=UTC)],
    ),
    "a time or a day": (
        [TIMESTAMP, {"type": "int", "logicalType": "date"}],
        [date(2024, 2, 29), datetime(2024, 2, 29, tzinfo=UTC)],
        [datetime(2024, 2, 29)],  # noqa: DTZ001
    ),
    "a day or a number": (
        [{"type": "int", "logicalType": "date"}, "long"],
        [date(2024, 2, 29)],
        [5, 1.5],
    ),
    "a number or a day": (["int", {"type": "long", "logicalType": "time-micros"}], [5], [1.5]),
    "a moment that Python has not": (TIMESTAMP, [], [10**17, -(10**17)]),
    "a day that Python has not": ({"type": "int", "logicalType": "date"}, [], [10**7]),
    "a time of no day": ({"type": "int", "logicalType": "time-millis"}, [], [-1, 86_400_000]),
    "uuid": ({"type": "string", "logicalType": "uuid"}, [UUID(int=5)], ["x", ""]),
    "perhaps a uuid": (["null", {"type": "string", "logicalType": "uuid"}], [UUID(int=5)], ["x"]),
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        [Decimal("1.10")],
        [Decimal("NaN"), Decimal("Infinity"), 1, 1.5, "1.10"],
    ),
    "array": ({"type": "array", "items": "long"}, [[], [1]], [{1}, {1: 2}, b"ab", bytearray(b"a")]),
}
#: Where a value of a kind may stand, and what a value looks like then.
Place = Callable[[Any], Any]
PLACES: dict[str, tuple[Place, Place, str]] = {
    "alone": (lambda of: of, lambda value: value, ""),
    "a field": (lambda of: record("R", ("f", of)), lambda value: {"f": value}, "f: "),
    "items": (lambda of: {"type": "array", "items": of}, lambda value: [value], ""),
    "values": (lambda of: {"type": "map", "values": of}, lambda value: {"k": value}, ""),
    "deep": (
        lambda of: record("R", ("a", {"type": "array", "items": ["null", record("S", ("f", of))]})),
        lambda value: {"a": [None, {"f": value}]},
        "a.f: ",
    ),
    "in itself": (
        lambda of: record("R", ("f", of), ("next", ["null", "R"])),
        lambda value: {"f": value, "next": {"f": value, "next": None}},
        "f: ",
    ),
    "of a record by name": (
        lambda of: [record("R", ("f", of)), record("S", ("f", of))],
        lambda value: ("S", {"f": value}),
        "f: ",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
def test_a_value_is_carried_whole_or_refused(kind: str, place: str) -> None:
    of, good, bad = KINDS[kind]
    schema, value, where = PLACES[place]
    serde = avro(schema(of))
    whole = [value(one) for one in good]
    for column in (whole, whole[:1]) if whole != [None] else ():  # columns keep None as it is
        assert serde.decode_column(serde.encode_column(column)) == column
        assert serde.encode_column(column) == [serde.encode(one) for one in column]
    for one in bad:
        with pytest.raises(SerdeError, match=f"(?i){where}expected|do not match|cannot encode"):
            serde.encode(value(one))
        with pytest.raises(ColumnError) as caught:
            serde.encode_column([*whole, value(one), *whole])
        assert caught.value.index == len(whole)


@pytest.mark.parametrize(
    ("union", "good", "bad"),
    [
        (["int", "double"], [2**31, 2**53, 0.5], 2**53 + 1),
        (["double", "long"], [5, 2**53], 2**53 + 1),
        (["long", "double"], [2**53 + 1, 0.5], True),
        (["null", "float", "string"], [None, 2, "a"], 2**53 + 1),
    ],
)
def test_whole_numbers_of_a_union_stay_what_they_are(union: Any, good: list[Any], bad: Any) -> None:
    serde = avro(union)
    assert serde.decode_column(serde.encode_column(good)) == good
    with pytest.raises(SerdeError):
        serde.encode(bad)


def test_a_record_that_has_lists_of_its_own_kind_is_written() -> None:
    """Looks at the items of no list never ended."""
    tree = avro(record("Tree", ("v", "int"), ("kids", {"type": "array", "items": "Tree"})))
    value = {"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3, "kids": [{"v": 4, "kids": []}]}]}
    assert tree.decode(tree.encode(value)) == value
    with pytest.raises(SerdeError, match=r"kids\.v: expected a whole number, got str 'x'"):
        tree.encode({"v": 1, "kids": [{"v": "x", "kids": []}]})


def test_what_is_no_record_is_named() -> None:
    with pytest.raises(SerdeError, match="expected a dict of a record's fields, got str 'x'"):
        avro(record("R", ("n", "long"))).encode("x")


@pytest.mark.parametrize("fold", ["store", "topic"])
def test_the_record_is_named_and_a_policy_leaves_it_out(fold: str) -> None:
    serde = avro(record("Sum", ("n", "long")))
    app = sl.App("a", on_error="skip")
    sums = app.stream("in", key=str, value=float).map_values(lambda v: {"n": v}, value=serde)
    if fold == "store":
        sums = sums.to_table(store="latest").to_stream()
    sums.to("out")
    with TopologyTestDriver(app) as driver:
        for value in (1.0, 1.5):
            driver.pipe_input("in", "k", value)
        assert driver.read_output("out") == []
        assert driver.skipped() == 2
