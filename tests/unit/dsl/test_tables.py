"""Tables: tombstones, filters that take rows away again, mapped values, joins with streams."""

from __future__ import annotations

from typing import Any

import pytest

from streamlet.app import App
from streamlet.errors import TopologyError
from streamlet.testing.driver import TopologyTestDriver

Records = list[tuple[Any, Any]]


def run(app: App, records: Records, topic: str = "t") -> Records:
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs(topic, records)
        return [(record.key, record.value) for record in driver.read_output("out")]


def test_a_tombstone_deletes_the_row_and_is_sent_on() -> None:
    app = App("a")
    app.table("t", key=str, value=int, store="rows").to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("t", [("a", 1), ("a", None), ("b", 2), (None, 3)])
        assert driver.store("rows").get("a") is None
        assert list(driver.store("rows").range()) == [("b", 2)]
        assert [r.value for r in driver.read_output("out")] == [1, None, 2]
        assert driver.dropped() == 1


def test_a_row_that_passes_no_more_becomes_a_tombstone() -> None:
    app = App("a")
    table = app.table("t", key=str, value=int, store="rows")
    table.filter(lambda k, v: v > 10).to_stream().to("out")
    records: Records = [("a", 20), ("a", 5), ("a", 6), ("b", 1), ("b", 30), ("b", None)]
    assert run(app, records) == [("a", 20), ("a", None), ("b", 30), ("b", None)]


def test_filter_not_is_the_other_half() -> None:
    app = App("a")
    table = app.table("t", key=str, value=int, store="rows")
    table.filter_not(lambda k, v: v > 10).to_stream().to("out")
    assert run(app, [("a", 20), ("a", 5), ("a", 20)]) == [("a", 5), ("a", None)]


@pytest.mark.parametrize("made", ["table", "to_table"])
def test_a_table_without_a_store_of_its_name_sends_a_tombstone_for_each_row_that_fails(
    made: str,
) -> None:
    app = App("a")
    if made == "table":
        table = app.table("t", key=str, value=int)
    else:
        table = app.stream("t", key=str, value=int).to_table()
    table.map_values(lambda v: v * 2, value=int).filter(lambda k, v: v > 10).to_stream().to("out")
    records: Records = [("a", 1), ("a", 6), ("a", None), ("a", None)]
    assert run(app, records) == [("a", None), ("a", 12), ("a", None), ("a", None)]


def test_a_filter_below_mapped_values_sees_the_mapped_old_ones() -> None:
    app = App("a")
    table = app.table("t", key=str, value=int, store="rows")
    mapped = table.map_values(lambda v: v * 2, value=int)
    mapped.filter(lambda k, v: v > 10).to_stream().to("out")
    assert run(app, [("a", 6), ("a", 1), ("a", 2)]) == [("a", 12), ("a", None)]


def test_old_values_of_an_aggregate_changed_in_place_are_as_they_were() -> None:
    app = App("a")
    stream = app.stream("t", key=str, value=int)
    table = stream.group_by_key().aggregate(list, lambda k, v, all_: all_.append(v) or all_)
    table.filter(lambda k, all_: len(all_) == 2).to_stream().to("out")
    assert run(app, [("a", 1), ("a", 2), ("a", 3), ("a", 4)]) == [("a", [1, 2]), ("a", None)]


def test_old_values_of_a_count() -> None:
    app = App("a")
    counts = app.stream("t", key=str, value=int).group_by_key().count()
    counts.filter(lambda k, n: n == 2).to_stream().to("out")
    assert run(app, [("a", 0), ("a", 0), ("a", 0), ("a", 0)]) == [("a", 2), ("a", None)]


def test_map_values_never_sees_a_tombstone() -> None:
    app = App("a")
    app.table("t", key=str, value=str).map_values(str.upper, value=str).to_stream().to("out")
    assert run(app, [("a", "x"), ("a", None)]) == [("a", "X"), ("a", None)]


def test_a_table_function_that_fails_takes_out_one_record() -> None:
    app = App("a", on_error="skip")
    table = app.table("t", key=str, value=int)
    table.map_values(lambda v: 12 // v, value=int).filter(lambda k, v: v > 3).to_stream().to("out")
    assert run(app, [("a", 1), ("b", 0), ("c", 2), ("c", 6)]) == [
        ("a", 12),
        ("c", 6),
        ("c", None),
    ]


def joined(left: bool) -> App:
    app = App("a")
    table = app.table("t", key=str, value=str)
    stream = app.stream("in", key=str, value=str)
    (stream.left_join if left else stream.join)(
        table, lambda value, row: f"{value}+{row}", value=str
    ).to("out")
    return app


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        (False, [("a", "1+x")]),
        (True, [("b", "0+None"), ("a", "1+x"), ("b", "2+None"), (None, "3+None")]),
    ],
)
def test_a_left_join_gives_none_where_an_inner_join_leaves_out(
    left: bool, expected: Records
) -> None:
    with TopologyTestDriver(joined(left)) as driver:
        driver.pipe_input("t", "a", "x")
        driver.pipe_inputs("in", [("b", "0"), ("a", "1"), ("b", "2"), (None, "3"), ("a", None)])
        assert [(r.key, r.value) for r in driver.read_output("out")] == expected
        assert driver.dropped() == (1 if left else 2)


def test_a_join_sees_the_table_as_it_is_then() -> None:
    with TopologyTestDriver(joined(left=True)) as driver:
        for topic, value in (("in", "1"), ("t", "x"), ("in", "2"), ("t", None), ("in", "3")):
            driver.pipe_input(topic, "a", value)
        assert [r.value for r in driver.read_output("out")] == ["1+None", "2+x", "3+None"]


def test_a_join_may_use_the_key() -> None:
    app = App("a")
    table = app.table("t", key=str, value=str)
    stream = app.stream("in", key=str, value=str)
    stream.join(table, lambda key, value, row: key + value + row, value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("t", "k", "r")
        driver.pipe_input("in", "k", "v")
        assert [r.value for r in driver.read_output("out")] == ["kvr"]


def test_a_join_with_a_filtered_and_mapped_table_sees_its_rows() -> None:
    app = App("a")
    table = app.table("t", key=str, value=int)
    rows = table.filter(lambda k, v: v > 1).map_values(lambda v: v * 10, value=int)
    stream = app.stream("in", key=str, value=str)
    stream.left_join(rows, lambda value, row: f"{value}{row}", value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("t", [("a", 1), ("b", 2)])
        driver.pipe_inputs("in", [("a", "x"), ("b", "x"), ("c", "x")])
        assert [r.value for r in driver.read_output("out")] == ["xNone", "x20", "xNone"]


def test_a_joiner_that_fails_takes_out_one_record_of_those_with_a_row() -> None:
    app = App("a", on_error="skip")
    table = app.table("t", key=str, value=int)
    stream = app.stream("in", key=str, value=int)
    stream.join(table, lambda value, row: value // row, value=int).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("t", [("zero", 0), ("two", 2)])
        driver.pipe_inputs("in", [("none", 1), ("two", 4), ("none", 1), ("zero", 1), ("two", 6)])
        assert [r.value for r in driver.read_output("out")] == [2, 3]
        assert driver.skipped() == 1


def test_a_stream_with_a_new_key_is_repartitioned_before_the_join() -> None:
    app = App("a")
    table = app.table("t", key=str, value=str)
    stream = app.stream("in", key=str, value=str).select_key(lambda k, v: v)
    stream.join(table, lambda value, row: row, value=str, name="by-value").to("out")
    assert app.topology().repartition_topics == ("a-by-value-repartition",)
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("t", "x", "row")
        driver.pipe_input("in", "k", "x")
        assert [(r.key, r.value) for r in driver.read_output("out")] == [("x", "row")]


def test_keys_that_are_written_differently_never_meet_and_are_refused() -> None:
    app = App("a")
    table = app.table("t", key=str, value=str)
    with pytest.raises(TopologyError, match=r"keys are int, those of table .* str"):
        app.stream("in", key=int, value=str).join(table, lambda v, row: row)


def test_what_belongs_to_another_application_is_refused() -> None:
    one, other = (App(name).stream("in", key=str, value=str) for name in ("one", "other"))
    with pytest.raises(TopologyError, match="'one' and 'other'"):
        one.merge(other)


def test_a_topic_that_is_a_table_twice_is_one_table() -> None:
    app = App("a")
    table = app.table("t", key=str, value=str)
    assert app.table("t", key=str, value=str) is table
    with pytest.raises(TopologyError, match="a table already, with other settings"):
        app.table("t", key=str, value=int)
    with pytest.raises(TopologyError, match="a table already, with other settings"):
        app.table("t", key=str, value=(str.encode, bytes.decode))


def test_a_row_given_to_other_readers_of_the_topic_is_not_the_stores_own() -> None:
    app = App("a")
    app.table("t", key=str, value=dict, store="rows")
    app.stream("t", key=str, value=dict).foreach(lambda k, v: v.clear())
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("t", "a", {"n": 1})
        assert driver.store("rows").get("a") == {"n": 1}


def test_changes_joined_with_their_own_table_see_it_as_of_each_change() -> None:
    app = App("a")
    table = app.table("t", key=str, value=int)
    table.to_stream().join(table, lambda change, row: [change, row], value=list).to("out")
    assert run(app, [("a", 1), ("a", 2)]) == [("a", [1, 1]), ("a", [2, 2])]


def test_a_stream_joined_with_its_own_count_sees_the_count_up_to_each_record() -> None:
    app = App("a")
    stream = app.stream("in", key=str, value=str)
    counts = stream.group_by_key().count()
    stream.join(counts, lambda value, count: f"{value}{count}", value=str).to("out")
    assert run(app, [("k", "a"), ("k", "b")], "in") == [("k", "a1"), ("k", "b2")]
