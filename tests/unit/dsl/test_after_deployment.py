"""What a new version of a program makes of the state of the one before it.

Its value type has a field more, a field less, or a wider one, or a function in front of an operator
makes another value. State goes on, and rows follow what they depend on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

import streamlet as sl
from streamlet.dsl import foreign_wire as wire
from streamlet.serdes.resolve import serde
from streamlet.state.task_state import TaskState
from streamlet.testing import TopologyTestDriver
from streamlet.testing import driver as driver_module

RAW = b'{"customer":"ann","item":"lamp","note":"x","pieces":7}'


def order_type(*more: tuple[str, Any, Any], slots: bool = False) -> type:
    fields = [("customer", str), ("item", str), *more]
    return make_dataclass("Order", fields, slots=slots)


#: Types of the value before and after.
TYPES: dict[str, tuple[type, type]] = {
    "the same": (order_type(), order_type()),
    "a field more": (order_type(), order_type(("gift", bool, False))),
    "a field more, with slots": (
        order_type(slots=True),
        order_type(("gift", bool, False), slots=True),
    ),
    "a field less": (order_type(("note", str, "")), order_type()),
    "a wider field": (order_type(("pieces", int, 1)), order_type(("pieces", float, 1))),
    "a struct with a field more": (
        msgspec.defstruct("Order", [("customer", str), ("item", str)]),
        msgspec.defstruct("Order", [("customer", str), ("item", str), ("gift", bool, False)]),
    ),
}

Program = Callable[[sl.App, type, int], Any]


def orders(app: sl.App, order: type) -> sl.KTable[str, Any]:
    return app.table("orders", key=str, value=order, store="orders")


def moved(app: sl.App) -> sl.KTable[str, str]:
    return app.table("users", key=str, value=str, store="users")


def shown(order: Any, user: str | None) -> str:
    return f"{order.item} to {user}"


def foreign(app: sl.App, order: type, _version: int, left: bool = False) -> Any:
    table = orders(app, order)
    join: Any = table.left_join if left else table.join
    of_customer = lambda o: o.customer  # noqa: E731
    return join(moved(app), shown, foreign_key=of_customer, value=str, store="placed").to_stream()


def left_foreign(app: sl.App, order: type, version: int) -> Any:
    return foreign(app, order, version, left=True)


def foreign_of_mapped(app: sl.App, order: type, version: int) -> Any:
    """The function in front of the join makes another value in the second version."""
    extra: dict[str, Any] = {} if version == 1 else {"v": 2}
    made = orders(app, order).map_values(
        lambda o: {"customer": o.customer, "item": o.item, **extra}, value=dict
    )
    show = lambda o, user: f"{o['item']} to {user}"  # noqa: E731
    customer = lambda o: o["customer"]  # noqa: E731
    return made.join(moved(app), show, foreign_key=customer, value=str, store="p").to_stream()


def joined_tables(app: sl.App, order: type, _version: int) -> Any:
    return orders(app, order).join(moved(app), shown, value=str).to_stream()


def stream_with_table(app: sl.App, order: type, _version: int) -> Any:
    stream = app.stream("users", key=str, value=str)
    return stream.join(orders(app, order), lambda user, o: shown(o, user), value=str)


def stream_with_versions(app: sl.App, order: type, _version: int) -> Any:
    how = sl.Materialized("orders", history="1h")
    table = app.table("orders", key=str, value=order, store=how)
    stream = app.stream("users", key=str, value=str)
    return stream.join(table, lambda user, o: shown(o, user), value=str)


def streams(app: sl.App, order: type, _version: int) -> Any:
    left = app.stream("orders", key=str, value=order)
    right = app.stream("users", key=str, value=str)
    return left.join(right, shown, within=sl.join_windows("1h"), value=str, store="j")


def kept_values(app: sl.App, order: type, _version: int) -> Any:
    last = app.stream("orders", key=str, value=order).to_table(store="last")
    stream = app.stream("users", key=str, value=str)
    return stream.join(last, lambda user, o: shown(o, user), value=str)


def reduced(app: sl.App, order: type, _version: int) -> Any:
    first = app.stream("orders", key=str, value=order).group_by_key()
    table = first.reduce(lambda one, other: one, store="first")
    stream = app.stream("users", key=str, value=str)
    return stream.join(table, lambda user, o: shown(o, user), value=str)


def stored_filter(app: sl.App, order: type, _version: int) -> Any:
    table = orders(app, order).filter(lambda _, o: o.item != "", store="some")
    stream = app.stream("users", key=str, value=str)
    return stream.join(table, lambda user, o: shown(o, user), value=str)


#: Programs over a row of "orders", which a record of "users" meets; with the key that this has.
OPERATORS: dict[str, tuple[Program, str]] = {
    "join by foreign keys": (foreign, "ann"),
    "left join by foreign keys": (left_foreign, "ann"),
    "join by foreign keys behind a function": (foreign_of_mapped, "ann"),
    "join of tables": (joined_tables, "o1"),
    "join of a stream with a table": (stream_with_table, "o1"),
    "join of a stream with a versioned table": (stream_with_versions, "o1"),
    "join of streams": (streams, "o1"),
    "to_table": (kept_values, "o1"),
    "reduce": (reduced, "o1"),
    "filter with a store": (stored_filter, "o1"),
}


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tasks of the driver keep their stores in folders, as instances do."""

    class OnDisk:
        @staticmethod
        def open(folder: Any, specs: Any, cache: int, changelogs: Any = None) -> TaskState:
            if specs:
                folder = tmp_path / "-".join(sorted(spec.name for spec in specs))
                folder.mkdir(exist_ok=True)
            return TaskState.open(folder, specs, cache, changelogs)

    monkeypatch.setattr(driver_module, "TaskState", OnDisk)


def run(
    program: Program, order: type, version: int, user: tuple[str, str], first: bool
) -> list[tuple[str, str]]:
    app = sl.App("shop")
    program(app, order, version).to("out")
    with TopologyTestDriver(app) as driver:
        if first:
            driver.pipe_bytes("orders", b"o1", RAW)
        driver.pipe_input("users", *user)
        return [(record.key, record.value) for record in driver.read_output("out")]


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_rows_of_the_version_before_are_there_and_follow(
    operator: str, types: str, on_disk: None
) -> None:
    program, key = OPERATORS[operator]
    before, after = TYPES[types]
    assert run(program, before, 1, (key, "Bern"), True)[-1] == ("o1", "lamp to Bern")
    assert run(program, before, 1, (key, "Basel"), False) == [("o1", "lamp to Basel")]
    assert run(program, after, 2, (key, "Chur"), False) == [("o1", "lamp to Chur")]
    assert run(program, before, 1, (key, "Davos"), False) == [("o1", "lamp to Davos")]


def counted(windows: Any = None, **how: Any) -> Program:
    def program(app: sl.App, order: type, _version: int) -> Any:
        grouped = app.stream("orders", key=str, value=order).group_by_key()
        if windows is None:
            return grouped.count(store="n", **how).to_stream()
        table = grouped.windowed_by(windows, **how).count(store="n")
        return table.to_stream(lambda window, _: window.key, key=str)

    return program


def grouped_table(app: sl.App, order: type, _version: int) -> Any:
    grouped = orders(app, order).group_by(lambda _, o: (o.customer, o), key=str, value=order)
    return grouped.count(store="n").to_stream()


def deduplicated(app: sl.App, order: type, _version: int) -> Any:
    stream = app.stream("orders", key=str, value=order)
    return stream.deduplicate(within="1h", store="seen").map_values(lambda o: 1, value=int)


def suppressed(app: sl.App, order: type, _version: int) -> Any:
    waiting = orders(app, order).suppress(sl.until_time_limit("1m"), store="waits")
    return waiting.to_stream().map_values(lambda o: o.item, value=str)


#: Operators that fold or hold records: what comes for the second and the third record of a key.
FOLDS: dict[str, tuple[Program, list[Any]]] = {
    "count": (counted(), [2, 3]),
    "count of tumbling windows": (counted(sl.tumbling("1h")), [2, 3]),
    "count of hopping windows": (counted(sl.hopping("1h", "1h")), [2, 3]),
    "count of sessions": (counted(sl.session("1h")), [None, 2, None, 3]),
    "count of a grouped table": (grouped_table, [1, 1]),
    "deduplicate": (deduplicated, []),
}


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("operator", FOLDS)
def test_folds_go_on(operator: str, types: str, on_disk: None) -> None:
    program, expected = FOLDS[operator]
    before, after = TYPES[types]
    values: list[Any] = []
    for number, order in enumerate((before, after, after), 1):
        app = sl.App("shop")
        program(app, order, number).to("out")
        with TopologyTestDriver(app, start_ms=1_000 * number) as driver:
            driver.pipe_bytes("orders", b"o1", RAW)
            found = [record.value for record in driver.read_output("out")]
        values += found if number > 1 else []
    assert values == expected


@pytest.mark.parametrize("types", TYPES)
def test_an_update_that_waits_goes_out_in_the_next_version(types: str, on_disk: None) -> None:
    before, after = TYPES[types]
    for number, order in enumerate((before, after), 1):
        app = sl.App("shop")
        suppressed(app, order, number).to("out")
        with TopologyTestDriver(app, start_ms=100_000 * number) as driver:
            driver.pipe_bytes("orders", b"o%d" % number, RAW)
            found = [record.key for record in driver.read_output("out")]
    assert found == ["o1"]


def test_answers_to_a_value_that_was_replaced_are_dropped() -> None:
    content = wire.digests(serde(dict))
    one, other = content([{"a": 1}, {"a": 2}])
    first, second = (wire.digest_of(digest, b"ann") for digest in (one, other))
    assert wire.is_digest_of(first, one, first)
    assert wire.is_digest_of(one, one, first)  # of an earlier version of streamlet
    assert not wire.is_digest_of(first, other, second)
    assert wire.names_the_same(first, second)
    assert not wire.names_the_same(first, wire.digest_of(one, b"bob"))
    assert not wire.names_the_same(None, first)
    assert wire.has_value_of(first, one)
    assert not wire.has_value_of(first, other)
