"""What operators that fold or hold records make of the state of the program before.

Its value type has a field more, a field less, or a wider one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import streamlet as sl
from streamlet.testing import TopologyTestDriver
from tests.unit.dsl.deployments import (
    RAW,
    SOME_TYPES,
    TYPES,
    MemoryDriver,
    Program,
    keep_on_disk,
    orders,
)


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tasks of the driver keep their stores in folders, as instances do."""
    keep_on_disk(monkeypatch, tmp_path)


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


def reduced_in(windows: Any) -> Program:
    """The items of the orders of a window; the first one is in its row."""

    def program(app: sl.App, order: type, _version: int) -> Any:
        windowed = app.stream("orders", key=str, value=order).group_by_key().windowed_by(windows)
        table = windowed.reduce(lambda one, other: one, store="first")
        stream = table.to_stream(lambda window, _: window.key, key=str)
        return stream.map_values(lambda o: o and o.item, value=str)

    return program


def collected(app: sl.App, order: type, _version: int) -> Any:
    grouped = app.stream("orders", key=str, value=order).group_by_key()
    add = lambda _k, o, so_far: [*so_far, o]  # noqa: E731
    table = grouped.aggregate(list, add, value=list[order], store="all")  # type: ignore[valid-type]
    return table.to_stream().map_values(lambda found: len(found), value=int)


#: Operators that fold records.
FOLDS: dict[str, Program] = {
    "count": counted(),
    "aggregate": collected,
    "count of tumbling windows": counted(sl.tumbling("1h")),
    "count of hopping windows": counted(sl.hopping("1h", "1h")),
    "count of sliding windows": counted(sl.sliding("1h")),
    "count of sessions": counted(sl.session("1h")),
    "reduce of tumbling windows": reduced_in(sl.tumbling("1h")),
    "reduce of hopping windows": reduced_in(sl.hopping("1h", "30m")),
    "reduce of sliding windows": reduced_in(sl.sliding("1h")),
    "reduce of sessions": reduced_in(sl.session("1h")),
    "count of a grouped table": grouped_table,
    "deduplicate": deduplicated,
}


def fed(program: Program, kinds: list[tuple[int, type]], numbers: list[int]) -> list[Any]:
    """The results of orders of these numbers, each in a program of its own."""
    values: list[Any] = []
    for number, (version, order) in zip(numbers, kinds, strict=True):
        app = sl.App("shop")
        program(app, order, version).to("out")
        with TopologyTestDriver(app, start_ms=1_000 * number) as driver:
            driver.pipe_bytes("orders", b"o1", RAW)
            values += [record.value for record in driver.read_output("out")]
    return values


@pytest.mark.parametrize("types", SOME_TYPES)
@pytest.mark.parametrize("operator", FOLDS)
def test_folds_go_on(operator: str, types: str, on_disk: None) -> None:
    """Orders of several versions give what orders give of one program that goes on."""
    program, (before, after) = FOLDS[operator], TYPES[types]
    app = sl.App("shop")
    program(app, before, 1).to("out")
    with MemoryDriver(app) as driver:
        for number in (1, 2, 3):
            driver.pipe_bytes("orders", b"o1", RAW, 1_000 * number)
        expected = [record.value for record in driver.read_output("out")]
    assert len(expected) >= (1 if operator == "deduplicate" else 3)
    assert fed(program, [(1, before), (2, after), (2, after)], [1, 2, 3]) == expected


def windows_that_close(emit: str) -> Program:
    def program(app: sl.App, order: type, _version: int) -> Any:
        grouped = app.stream("orders", key=str, value=order).group_by_key()
        how: dict[str, Any] = {"emit": "final"} if emit == "final" else {}
        table = grouped.windowed_by(sl.tumbling(10), **how).reduce(lambda o, _: o, store="w")
        if emit == "suppress":
            table = table.suppress(sl.until_window_closes(), store="waits")
        stream = table.to_stream(lambda window, _: window.key, key=str)
        return stream.map_values(lambda o: o.item, value=str)

    return program


def unmatched(how: str) -> Program:
    def program(app: sl.App, order: type, _version: int) -> Any:
        join = getattr(app.stream("orders", key=str, value=order), how)
        right = app.stream("users", key=str, value=str)
        return join(right, lambda o, _: o.item, within=sl.join_windows(10), value=str, store="j")

    return program


def until_grace(app: sl.App, order: type, _version: int) -> Any:
    kept = sl.Materialized("users", history="1h")
    users = app.table("users", key=str, value=str, store=kept)
    stream = app.stream("orders", key=str, value=order)
    return stream.left_join(users, lambda o, _: o.item, grace=10, value=str)


def timers(app: sl.App, order: type, _version: int) -> Any:
    def hold(record: Any, state: Any) -> None:
        state["o"] = record.value
        state.timer(after=10)

    def send(timer: Any, state: Any) -> Any:
        return state["o"].item

    stream = app.stream("orders", key=str, value=order)
    return stream.process_values(
        hold, on_timer=send, state=dict[str, order], value=str, name="held"
    )


#: Operators of which an order is sent later.
WAITING: dict[str, Program] = {
    "suppress": suppressed,
    "suppress of windows": windows_that_close("suppress"),
    "final results": windows_that_close("final"),
    "left_join of streams": unmatched("left_join"),
    "outer_join of streams": unmatched("outer_join"),
    "left_join with grace": until_grace,
    "timers": timers,
}


@pytest.mark.parametrize("types", SOME_TYPES)
@pytest.mark.parametrize("operator", WAITING)
def test_what_waits_goes_out_in_the_next_version(operator: str, types: str, on_disk: None) -> None:
    before, after = TYPES[types]
    for number, order in enumerate((before, after), 1):
        app = sl.App("shop")
        WAITING[operator](app, order, number).to("out")
        with TopologyTestDriver(app, start_ms=100_000 * number) as driver:
            driver.pipe_bytes("orders", b"o%d" % number, RAW)
            found = [(record.key, record.value) for record in driver.read_output("out")]
    assert found == [("o1", "lamp")]
