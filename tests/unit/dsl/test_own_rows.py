"""What a store holds is as it was when it was stored, and a function gets rows of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import streamlet as sl
from streamlet.testing import TopologyTestDriver
from tests.unit.inside import inside

Document = dict[str, Any]
Build = Callable[[sl.App], Any]
OF: Any = {"key": str, "value": dict}
R: Document = {"n": 1}
VERSIONS = sl.Materialized("t", history="1h")


def add(left: Document, row: Document | None) -> Document:
    """Changes both, and returns one."""
    row = {} if row is None else row
    row["n"] = row.get("n", 0) + left["n"]
    left["n"] = -1
    return row


def add_to_left(left: Document, row: Document | None) -> Document:
    return add(row or {"n": 0}, left)


def touch(value: Document) -> Document:
    value["n"] += 1
    return value


def given_row(left: Document, row: Document) -> Document:
    return row


def s(app: sl.App) -> Any:
    return app.stream("s", **OF)


def t(app: sl.App) -> Any:
    return app.table("t", **OF, store="t")


def globally(app: sl.App, joiner: Any) -> Any:
    rows = app.global_table("t", **OF, store="t")
    return s(app).join(rows, joiner, on=lambda k, v: k, value=dict)


def versioned(app: sl.App) -> Any:
    return app.stream("t", **OF).to_table(store=VERSIONS)


def processed(app: sl.App) -> Any:
    t(app)

    def enrich(record: Any, context: Any) -> Any:
        return add(record.value, context.store("t").get(record.key).value)

    return s(app).process_values(enrich, stores=["t"], value=dict)


def kept_by_processor(app: sl.App) -> Any:
    def enrich(record: Any, context: Any) -> Any:
        rows = context.store("kept")
        row = rows.get("a") or {"n": 1}
        rows.put("a", row)
        return add(record.value, row)

    app.table("t", **OF)
    store = sl.key_value_store("kept", key=str, value=dict)
    return s(app).process_values(enrich, stores=[store], value=dict)


def aggregate(app: sl.App) -> Any:
    grouped = app.stream("t", **OF).group_by_key()
    return grouped.reduce(lambda a, b: {"n": a["n"] + b["n"]}, store="t")


WITHIN: Any = {"within": sl.join_windows("1h"), "value": dict}
FOREIGN: Any = {"foreign_key": lambda row: "a", "value": dict}

#: Joins whose function changes a row, which meets two records.
JOINS: dict[str, Build] = {
    "table": lambda app: s(app).join(t(app), add, value=dict),
    "left, table": lambda app: s(app).left_join(t(app), add, value=dict),
    "mapped table": lambda app: (
        s(app)
        .join(t(app).map_values(lambda row: {**row, "m": 0}, value=dict), add, value=dict)
        .map_values(lambda row: {"n": row["n"]}, value=dict)
    ),
    "filtered table": lambda app: s(app).join(t(app).filter(lambda k, v: True), add, value=dict),
    "suppressed table": lambda app: s(app).join(
        t(app).suppress(sl.until_time_limit(0)), add, value=dict
    ),
    "aggregate": lambda app: s(app).join(aggregate(app), add, value=dict),
    "global table": lambda app: globally(app, add),
    "versioned table": lambda app: s(app).join(versioned(app), add, value=dict),
    "newest version": lambda app: (
        app.table("s", **OF).join(versioned(app), add, value=dict).to_stream()
    ),
    "versioned table, grace": lambda app: s(app).join(versioned(app), add, value=dict, grace="0ms"),
    "tables": lambda app: app.table("s", **OF).join(t(app), add, value=dict).to_stream(),
    "tables, outer": lambda app: (
        app.table("s", **OF)
        .outer_join(t(app), lambda left, row: add(left or {"n": 0}, row), value=dict)
        .to_stream()
        .filter(lambda k, v: v["n"] > 1)
    ),
    "tables, grouped": lambda app: (
        app.table("s", **OF)
        .join(t(app), add, value=dict, store="j")
        .group_by(lambda k, v: (k, v), **OF)
        .reduce(lambda a, b: b, lambda a, b: a)
        .to_stream()
    ),
    "foreign key, right row": lambda app: (
        app.table("s", **OF).join(t(app), add, **FOREIGN).to_stream()
    ),
    "foreign key, left row": lambda app: (
        t(app).join(app.table("s", **OF), add_to_left, **FOREIGN).to_stream()
    ),
    "streams": lambda app: s(app).join(app.stream("t", **OF), add, **WITHIN),
    "streams, left": lambda app: s(app).left_join(app.stream("t", **OF), add, **WITHIN),
    "processor, table": processed,
    "processor, its own store": kept_by_processor,
}


@pytest.mark.parametrize("name", JOINS)
def test_a_function_that_changes_the_row_it_meets_leaves_the_table_as_it_is(name: str) -> None:
    app = sl.App("a")
    JOINS[name](app).to("out", **OF)
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("t", "a", R, 0)
        for _ in range(2):
            driver.pipe_input("s", "a", {"n": 10}, 1)
        assert [one.value for one in driver.read_output("out")][-2:] == [{"n": 11}] * 2
        driver.pipe_inputs("s", [("a", {"n": 10}), ("a", {"n": 10})], 1)
        assert [one.value for one in driver.read_output("out")][-1:] == [{"n": 11}]


LATER: dict[str, Build] = {
    "table": lambda app: s(app).join(t(app), given_row, value=dict),
    "in a list": lambda app: (
        s(app)
        .join(t(app), lambda left, row: [row], value=list)
        .map_values(lambda rows: rows[0], value=dict)
    ),
    "global table": lambda app: globally(app, given_row),
    "versioned table": lambda app: s(app).join(versioned(app), given_row, value=dict),
    "tables": lambda app: app.table("s", **OF).join(t(app), given_row, value=dict).to_stream(),
    "tables, with a store": lambda app: (
        app.table("s", **OF).join(t(app), given_row, value=dict, store="j").to_stream()
    ),
    "streams": lambda app: s(app).join(app.stream("t", **OF), given_row, **WITHIN),
}


@pytest.mark.parametrize("name", LATER)
def test_a_row_that_is_passed_on_may_be_changed_further_down(name: str) -> None:
    app = sl.App("a")
    LATER[name](app).map_values(touch, value=dict).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("t", "a", R, 0)
        for _ in range(2):
            driver.pipe_input("s", "a", {"n": 10}, 1)
        assert [one.value for one in driver.read_output("out")] == [{"n": 2}] * 2


def rows(app: sl.App) -> Any:
    return app.stream("s", **OF).group_by_key()


def collected(key: str, value: Document, so_far: Any) -> Any:
    """A record's value inside an aggregate; the aggregate and the value are changed."""
    so_far.append(value)
    value["n"] += 100
    return so_far


def first_of(table: Any) -> Any:
    """Changes of a table of lists, which a function changes further down."""

    def read(key: Any, found: Any) -> Any:
        return None if found is None else [one["n"] for one in found] + [len(found.pop())]

    return table.to_stream().map(lambda k, v: ("a", read(k, v)), key=str, value=list)


AGG: Any = {"value": list, "store": "kept"}
FOLDS: dict[str, Build] = {
    "aggregate": lambda app: rows(app).aggregate(list, collected, **AGG),
    "cogroup": lambda app: rows(app).cogroup(collected).aggregate(list, **AGG),
    "hopping": lambda app: (
        rows(app).windowed_by(sl.hopping(10, 5)).aggregate(list, collected, **AGG)
    ),
    "sliding": lambda app: rows(app).windowed_by(sl.sliding(10)).aggregate(list, collected, **AGG),
    "session": lambda app: (
        rows(app)
        .windowed_by(sl.session(10))
        .aggregate(list, collected, lambda k, a, b: b + a, **AGG)
    ),
    "on commit": lambda app: rows(app).aggregate(list, collected, emit="on_commit", **AGG),
    "final": lambda app: (
        rows(app).windowed_by(sl.hopping(10, 5), emit="final").aggregate(list, collected, **AGG)
    ),
}


@pytest.mark.parametrize("name", FOLDS)
def test_a_value_inside_an_aggregate_stays_as_it_was(name: str) -> None:
    """Two branches change the value behind the fold, and one the results; batches do not matter."""

    def kept(batches: int) -> Any:
        app = sl.App("a")
        first_of(FOLDS[name](app)).to("read")
        s(app).map_values(touch, value=dict).to("out")
        s(app).map_values(touch, value=dict).to("out-2")
        fed = [("a", {"n": n}) for n in (1, 2, 3)]
        with TopologyTestDriver(app) as driver:
            for start in range(0, 3, 3 // batches):
                driver.pipe_inputs("s", fed[start : start + 3 // batches], 7)
            changed = [one.value["n"] for one in driver.read_output("out")]
            assert changed == [one.value["n"] for one in driver.read_output("out-2")] == [2, 3, 4]
            found = [value for _, value in inside(driver, "kept").range()]
        return found

    assert kept(1) == kept(3)
    assert all(one["n"] > 100 for row in kept(1) for one in _documents(row)), kept(1)
    assert {one["n"] for row in kept(1) for one in _documents(row)} == {101, 102, 103}


def _documents(row: Any) -> Iterator[Document]:
    """All documents in a row, whatever else is in it."""
    if isinstance(row, dict):
        yield row
    elif isinstance(row, list | tuple):
        for one in row:
            yield from _documents(one)


def test_a_stream_that_is_joined_with_itself_meets_its_records_as_they_came() -> None:
    found = []
    for optimization in ("none", "single.store.self.join"):
        app = sl.App("a", config={"topology.optimization": optimization})
        s(app).join(s(app), add, **WITHIN).to("out", **OF)
        with TopologyTestDriver(app) as driver:
            for n in (1, 10, 100):
                driver.pipe_input("s", "a", {"n": n}, n)
            found.append([one.value["n"] for one in driver.read_output("out")])
    assert found[0] == found[1] == [2, 11, 11, 20, 101, 110, 101, 110, 200]


def test_a_group_that_a_function_fails_on_takes_back_what_was_there() -> None:
    """The functions change the values of which a note is made."""

    def take(so_far: Document, value: Document) -> Document:
        n, value["n"] = value["n"], 0
        if n == 5:
            raise ValueError("five")
        return {"n": so_far["n"] + n}

    def give(so_far: Document, value: Document) -> Document:
        n, value["n"] = value["n"], 0
        return {"n": so_far["n"] - n}

    app = sl.App("a", on_error="skip")
    grouped = app.table("t", **OF).group_by(lambda k, v: ("all", v), **OF)
    grouped.reduce(take, give).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        for key, n in (("a", 1), ("b", 2), ("b", 5), ("b", 3), ("a", 4)):
            driver.pipe_input("t", key, {"n": n})
        assert driver.read_output("out")[-1].value == {"n": 7}
