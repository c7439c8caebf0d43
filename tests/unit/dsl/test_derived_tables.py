"""Tables made of another one row by row, with a store of their own or without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet.app import App
from streamlet.dsl.graph.materialized import Materialized
from streamlet.dsl.table import KTable
from streamlet.errors import TopologyError
from streamlet.testing.driver import TopologyTestDriver
from tests.unit.dsl.facts import facts

Records = list[tuple[Any, Any]]
Table = KTable[str, int]
Derive = Callable[[Table, Any], Table]

#: Operator -> a table made by it, with a store of this name; rows below 0 fail.
DERIVED: dict[str, Derive] = {
    "filter": lambda table, store: table.filter(lambda k, v: 10 // (v + 1) > 1, store=store),
    "filter_not": lambda table, store: table.filter_not(lambda k, v: v > 10, store=store),
    "map_values": lambda table, store: table.map_values(
        lambda k, v: None if v > 10 else 10 // (v + 1), value=int, store=store
    ),
    "transform_values": lambda table, store: table.transform_values(
        lambda v: 99 if v is None else None if v > 10 else 10 // (v + 1), value=int, store=store
    ),
}

RECORDS = st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(-1, 20)), max_size=12)


def played(derive: Derive, records: Records, store: Any, together: bool) -> tuple[Records, Any]:
    """What is sent with its time, behind a reader of old values too, and the rows."""
    app = App("a", on_error="skip")
    table = derive(app.table("t", key=str, value=int, store="rows"), store)
    table.to_stream().to("out")
    table.group_by(lambda k, v: (v, v), key=int, value=int).count().to_stream().to("counts")
    with TopologyTestDriver(app) as driver:
        for batch in [records] if together else [[record] for record in records]:
            driver.pipe_inputs("t", batch)
        sent = [
            (record.key, record.value, record.timestamp)
            for topic in ("out", "counts")
            for record in driver.read_output(topic)
        ]
        return sent, list(driver.store(store).range()) if store else None


@pytest.mark.parametrize("name", DERIVED)
@given(records=RECORDS)
def test_a_batch_gives_what_its_records_give_one_by_one(name: str, records: Records) -> None:
    derive = DERIVED[name]
    assert played(derive, records, "kept", True) == played(derive, records, "kept", False)


@pytest.mark.parametrize("name", ["filter", "filter_not", "map_values"])
@given(records=RECORDS)
def test_a_store_changes_nothing_that_is_sent_unless_a_function_fails(
    name: str, records: Records
) -> None:
    records = [(key, value) for key, value in records if value != -1]
    derive = DERIVED[name]
    sent, rows = played(derive, records, "kept", True)
    assert sent == played(derive, records, None, True)[0]
    newest: dict[str, Any] = {}
    for key, value in records:
        if value is not None and name == "map_values":
            value = None if value > 10 else 10 // (value + 1)
        elif value is not None:
            passes = 10 // (value + 1) > 1 if name == "filter" else value <= 10
            value = value if passes else None
        newest[key] = value
    assert rows == sorted((key, value) for key, value in newest.items() if value is not None)


def test_a_derived_table_is_read_by_joins_from_its_own_store() -> None:
    app = App("a")
    calls: list[int] = []
    table = app.table("t", key=str, value=int)
    kept = table.map_values(lambda v: calls.append(v) or v * 2, value=int, store="kept")
    app.stream("in", key=str, value=int).join(kept, lambda v, row: v + row, value=int).to("out")
    assert kept.store == "kept"
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("t", "a", 4)
        driver.pipe_inputs("in", [("a", 1), ("a", 2), ("b", 3)])
        assert [record.value for record in driver.read_output("out")] == [9, 10]
    assert calls == [4]


def test_a_function_of_transform_values_is_asked_for_rows_that_are_not_there() -> None:
    app = App("a")
    table = app.table("t", key=str, value=int)
    all_ = table.transform_values(lambda k, v: -1 if v is None else v, value=int)
    app.stream("in", key=str, value=int).join(all_, lambda v, row: v + row, value=int).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("t", "a", 4)
        driver.pipe_inputs("in", [("a", 1), ("b", 1)])
        assert [record.value for record in driver.read_output("out")] == [5, 0]
    assert facts(KTable.transform_values)["nulls"] == (
        "the function gets a tombstone as None. A result None deletes the row."
    )


def test_rows_that_are_changed_in_place_behind_the_store_stay_as_they_were() -> None:
    app = App("a")
    table = app.table("t", key=str, value=int)
    kept = table.map_values(lambda v: [v], value=list[int], store="kept")
    kept.map_values(lambda row: row.append(0) or row, value=list[int]).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("t", "a", 4)
        assert driver.read_output("out")[0].value == [4, 0]
        assert driver.store("kept").get("a") == [4]


def test_a_value_that_the_store_cannot_keep_fails_on_its_record() -> None:
    app = App("a", on_error="skip")
    table = app.table("t", key=str, value=int)
    wrong: Any = lambda v: "text" if v == 2 else v  # noqa: E731
    table.map_values(wrong, value=int, store="kept").to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("t", [("a", 1), ("a", 2), ("b", 3)])
        assert [record.value for record in driver.read_output("out")] == [1, 3]
        assert list(driver.store("kept").range()) == [("a", 1), ("b", 3)]
        assert driver.skipped() == 1


def test_a_filter_with_a_store_of_a_table_without_one_sends_each_tombstone() -> None:
    app = App("a")
    app.table("t", key=str, value=int).filter(lambda k, v: v > 9, store="kept").to_stream().to(
        "out"
    )
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("t", [("a", 1), ("a", 10), ("a", None), ("a", 2)])
        assert [record.value for record in driver.read_output("out")] == [None, 10, None, None]


def test_a_store_without_a_name_gets_one_of_the_form_that_kafka_streams_gives() -> None:
    app = App("a")
    table = app.table("t", key=str, value=int, store="rows")
    kept = table.filter(lambda k, v: True, store=Materialized(persistent=False))
    assert kept.store == "KTABLE-FILTER-STATE-STORE-0000000002"


def test_a_stored_table_needs_the_type_of_its_values() -> None:
    table = App("a").table("t", key=str, value=int)
    with pytest.raises(TopologyError, match=r"^map_values\(\) writes values, but their type"):
        table.map_values(lambda v: (v, v)[0], store="kept")
    with pytest.raises(TopologyError, match=r"^transform_values\(\) has no RecordContext|takes"):
        table.transform_values(lambda: 1, store="kept")  # type: ignore[call-overload]


def test_to_stream_takes_new_keys_of_the_changes() -> None:
    app = App("a")
    table = app.table("t", key=str, value=int)
    table.to_stream(lambda k, v: (k, v), key=tuple[str, int | None]).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("t", [("a", 1), ("a", None)])
        sent = [(tuple(record.key), record.value) for record in driver.read_output("out")]
    assert sent == [(("a", 1), 1), (("a", None), None)]
