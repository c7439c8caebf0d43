"""Equal keys are one row in every operator, whatever the bytes that a producer wrote."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

import attrs
import msgspec
import pytest

import streamlet as sl
from streamlet.testing import TopologyTestDriver


@dataclass(frozen=True)
class Data:
    id: int
    region: str = "eu"


@dataclass(frozen=True, slots=True)
class Slots:
    id: int
    region: str = "eu"


@attrs.frozen(slots=False)
class Open:
    id: int
    region: str = "eu"


class Struct(msgspec.Struct, frozen=True):
    id: int
    region: str = "eu"


class Typed(TypedDict):
    region: str
    id: int


RECORDS = (b'{"id":1}', b'{ "region":"eu","id":1 }', b'{"id":1,"region":"eu"}')
DICTS = (b'{"a":1,"b":{"d":1,"c":2}}', b'{ "b":{"c":2,"d":1},"a":1}', b'{"b":{"d":1,"c":2},"a":1}')
MAPS = (b"\x04\x02a\x02\x02b\x02\x00", b"\x04\x02b\x02\x02a\x02\x00")
#: Types with three forms of the bytes of one key.
KEYS: list[tuple[Any, tuple[bytes, bytes, bytes]]] = [
    (Data, RECORDS),
    (Slots, RECORDS),
    (Open, RECORDS),
    (Struct, RECORDS),
    (Typed, (b'{"id":1,"region":"eu"}', *RECORDS[1:])),
    (dict, DICTS),
    (sl.json(), DICTS),
    (frozenset[str], (b'["a","b"]', b'["b","a"]', b'["b", "a", "a"]')),
    (list[float], (b"[1]", b"[1.0]", b"[ 1e0 ]")),
    (sl.avro({"type": "map", "values": "int"}), (MAPS[0], *MAPS)),
]


@attrs.frozen
class Inputs:
    """The topics ``one``, which has the first form, and ``two``, which has the others."""

    app: sl.App
    of: Any

    def stream(self, topic: str = "two") -> Any:
        return self.app.stream(topic, key=self.of, value=str)

    def table(self, topic: str = "one", **how: Any) -> Any:
        return self.app.table(topic, key=self.of, value=str, **how)

    def by_group(self) -> Any:
        """Rows whose values have the key within."""
        rows = self.stream().map(lambda key, value: (value, [key]), key=str, value=list[self.of])  # type: ignore[name-defined]
        return rows.to_table()


def _last(one: Any, other: Any) -> Any:
    return other


def _foreign(given: Inputs) -> Any:
    joined = given.by_group().join(given.table(), _last, foreign_key=lambda v: v[0], value=str)
    return joined.to_stream().filter(lambda key, row: row is not None)


def _processed(given: Inputs) -> Any:
    def counted(record: Any, context: Any) -> None:
        store = context.store("seen")
        store.put(record.key, (store.get(record.key) or 0) + 1)
        context.forward(record.with_value(store.get(record.key)))

    store = sl.key_value_store("seen", key=given.of, value=int)
    return given.stream().process(counted, stores=[store], key=given.of, value=int)


def _windowed(given: Inputs, windows: Any) -> Any:
    counts = given.stream().group_by_key().windowed_by(windows).count().to_stream()
    return counts.filter(lambda key, count: count is not None)


def _sliding(given: Inputs) -> Any:
    counts = _windowed(given, sl.sliding("1m", grace="1m"))
    return counts.filter(lambda key, count: key.end == TIMES[2])


def _rows(given: Inputs) -> Any:
    """The number of rows of a table."""
    rows = given.stream().to_table().group_by(lambda k, v: ("all", v), key=str, value=str)
    return rows.count().to_stream()


def _global(given: Inputs) -> Any:
    table = given.app.global_table("one", key=given.of, value=str)
    return given.stream().join(table, _last, on=lambda key, value: key, value=str)


def _grouped(given: Inputs) -> Any:
    groups = given.by_group().group_by(lambda k, v: (v[0], 1), key=given.of, value=int)
    return groups.count().to_stream()


TIMES = (100_000, 100_000, 100_001)
#: Operators, and the values that come out: of the second form, and of the third one.
OPERATORS: dict[str, tuple[Callable[[Inputs], Any], list[Any]]] = {
    "count": (lambda given: given.stream().group_by_key().count().to_stream(), [1, 2]),
    "to table": (_rows, [1, 1]),
    "tumbling": (lambda given: _windowed(given, sl.tumbling("1m")), [1, 2]),
    "sliding": (_sliding, [2]),
    "session": (lambda given: _windowed(given, sl.session("1m")), [1, 2]),
    "deduplicate": (lambda given: given.stream().deduplicate("1h"), ["x"]),
    "process": (_processed, [1, 2]),
    "stream-table": (lambda given: given.stream().join(given.table(), _last, value=str), ["w"] * 2),
    "versioned": (
        lambda given: given.stream().join(
            given.table(store=sl.Materialized(history="1h")), _last, value=str
        ),
        ["w", "w"],
    ),
    "global": (_global, ["w", "w"]),
    "stream-stream": (
        lambda given: given.stream().join(
            given.stream("one"), _last, within=sl.join_windows("1m"), value=str
        ),
        ["w", "w"],
    ),
    "table-table": (
        lambda given: given.table("two").join(given.table(), _last, value=str).to_stream(),
        ["w", "w"],
    ),
    "foreign": (_foreign, ["w", "w"]),
    "grouped table": (_grouped, [1, 2]),
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize(("of", "forms"), KEYS)
def test_the_forms_of_a_key_are_one_row(name: str, of: Any, forms: tuple[bytes, ...]) -> None:
    if name in ("foreign", "grouped table") and isinstance(of, sl.Serde):
        pytest.skip("a ready serde is no type of a list")
    build, wanted = OPERATORS[name]
    app = sl.App("a")
    build(Inputs(app, of)).to("out")
    with TopologyTestDriver(app) as driver:
        if name == "global" or "one" in app.topology().source_topics:
            driver.pipe_bytes("one", forms[0], b"w", timestamp_ms=TIMES[0])
        driver.pipe_bytes("two", forms[1], b"x", timestamp_ms=TIMES[1])
        driver.pipe_bytes("two", forms[2], b"y", timestamp_ms=TIMES[2])
        assert [record.value for record in driver.read_output("out")] == wanted
