"""Tables that are grouped by other keys: groups are what their rows make of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamlet as sl
from streamlet.dsl.folds.table_folds import changes_of
from streamlet.errors import SerdeError, TopologyError
from streamlet.serdes import serde
from streamlet.testing import TopologyTestDriver
from tests.shares import share_of

#: Batches of keys with values, whose first letter is the group, or tombstones.
histories = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), st.one_of(st.none(), st.sampled_from(["x1", "x2", "y3", "-"]))
        ),
        min_size=1,
        max_size=5,
    ),
    max_size=8,
)
History = list[list[tuple[str, str | None]]]


def grouped(emit: Any = "updates") -> sl.App:
    """Counts, sums and lists of the rows of each group; those of "-" are in none."""

    def place(key: str, value: str) -> tuple[str | None, str]:
        return None if value == "-" else value[0], value

    app = sl.App("a")
    rows = app.table("in", key=str, value=str).group_by(place, key=str, value=str)
    rows.count(store="counts", emit=emit).to_stream().to("counts")
    numbers = app.table("in", key=str, value=str).group_by(
        lambda key, value: (value[0], 0 if value == "-" else int(value[1])), key=str, value=int
    )
    sums = numbers.reduce(lambda a, b: a + b, lambda a, b: a - b, store="sums", emit=emit)
    sums.to_stream().to("sums")
    lists = rows.aggregate(
        list,
        lambda key, value, found: [*found, value],
        lambda key, value, found: [one for i, one in enumerate(found) if i != found.index(value)],
        value=list[str],
        store="lists",
        emit=emit,
    )
    lists.to_stream().to("lists")
    return app


@pytest.mark.parametrize("emit", ["updates", "on_commit"])
@settings(max_examples=share_of(40), deadline=None)
@given(history=histories)
def test_groups_are_what_their_rows_make_of_them(emit: str, history: History) -> None:
    rows: dict[str, str] = {}
    told: dict[str, dict[str, Any]] = {"counts": {}, "sums": {}, "lists": {}}
    with TopologyTestDriver(grouped(emit)) as driver:
        for batch in history:
            driver.pipe_inputs("in", batch)
            for key, value in batch:
                if value is None:
                    rows.pop(key, None)
                else:
                    rows[key] = value
            for topic, found in told.items():
                found |= {r.key: r.value for r in driver.read_output(topic)}
            placed = [value for value in rows.values() if value != "-"]
            for group in "xy":
                mine = sorted(value for value in placed if value[0] == group)
                assert told["counts"].get(group, 0) == len(mine)
                assert told["sums"].get(group, 0) == sum(int(value[1]) for value in mine)
                assert sorted(told["lists"].get(group, [])) == mine


def test_a_row_that_stays_in_its_group_is_one_change() -> None:
    """The old value first: a group never has both."""
    app = sl.App("a")
    rows = app.table("in", key=str, value=str).group_by(lambda k, v: (v[0], v), key=str, value=str)
    rows.aggregate(
        str, lambda k, v, text: f"{text}+{v}", lambda k, v, text: f"{text}-{v}", value=str
    ).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", "x1"), ("a", "x2"), ("a", "y3")])
        assert [(r.key, r.value) for r in driver.read_output("out")] == [
            ("x", "+x1"),
            ("x", "+x1-x1+x2"),
            ("x", "+x1-x1+x2-x2"),
            ("y", "+y3"),
        ]


def test_aggregates_that_change_in_place_are_copied() -> None:
    app = sl.App("a")

    def add(key: str, value: str, found: list[str]) -> list[str]:
        found.append(value)
        return found

    def subtract(key: str, value: str, found: list[str]) -> list[str]:
        found.remove(value)
        return found

    rows = app.table("in", key=str, value=str).group_by(lambda k, v: ("all", v), key=str, value=str)
    rows.aggregate(list, add, subtract, value=list[str]).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", "1"), ("b", "2"), ("a", None)])
        assert [r.value for r in driver.read_output("out")] == [["1"], ["1", "2"], ["2"]]


def test_functions_that_fail_take_out_one_change() -> None:
    app = sl.App("a", on_error="skip")
    rows = app.table("in", key=str, value=int).group_by(
        lambda key, value: (str(10 // value), value), key=str, value=int
    )
    rows.count().to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", 5), ("b", 0), ("c", 5)])
        assert [(r.key, r.value) for r in driver.read_output("out")] == [("2", 1), ("2", 2)]
        assert driver.skipped() == 1


@pytest.mark.parametrize("change", [("new", "old"), (None, "old"), ("new", None), ("", None)])
def test_a_change_is_as_it_was_behind_its_topic(change: Any) -> None:
    changes = changes_of(serde(str))
    assert changes.decode(changes.encode(change)) == change


def test_a_change_of_a_wrong_type_is_refused() -> None:
    with pytest.raises(SerdeError):
        changes_of(serde(str)).encode((1, None))


def test_types_that_are_not_known_are_asked_for() -> None:
    rows = sl.App("a").table("in", key=str, value=str)
    with pytest.raises(TopologyError, match=r"group_by\(\) writes keys, but their type"):
        rows.group_by(lambda k, v: (v, v)).count()


def test_groups_that_python_calls_equal_are_told_apart_by_their_bytes() -> None:
    for key, one, other in (
        (sl.json(), [1], [True]),
        (sl.json(), {"a": 1}, {"a": 1.0}),
        (sl.json(), 1, True),
        (float, 0.0, -0.0),
    ):
        app, places = sl.App("a"), {"one": one, "other": other}

        def place(row: str, where: str, places: dict[str, Any] = places) -> tuple[Any, str]:
            return places[where], row

        rows = app.table("in", key=str, value=str).group_by(place, key=key, value=str)
        rows.count(store="counts")
        with TopologyTestDriver(app) as driver:
            for row, where in (("x", "one"), ("y", "other"), ("x", "other")):
                driver.pipe_input("in", row, where)
            counts = driver.store("counts")
            assert (counts.get(one), counts.get(other)) == (0, 2), (one, other)


def test_dicts_with_the_same_fields_are_one_group_in_any_order() -> None:
    app, places = sl.App("a"), {"one": {"a": 1, "b": 2}, "other": {"b": 2, "a": 1}}
    rows = app.table("in", key=str, value=str)
    rows.group_by(lambda row, where: (places[where], row), key=dict, value=str).count(store="n")
    with TopologyTestDriver(app) as driver:
        for row, where in (("x", "one"), ("y", "other"), ("x", "other")):
            driver.pipe_input("in", row, where)
        assert list(driver.store("n").range()) == [({"a": 1, "b": 2}, 2)]
