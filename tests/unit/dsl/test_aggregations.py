"""count, reduce and aggregate, and the traps of batches and of objects in a cache."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

import streamlet as sl
from streamlet.app import App
from streamlet.dsl.grouped import KGroupedStream
from streamlet.dsl.table import KTable
from streamlet.errors import ProcessingError, TopologyError
from streamlet.testing.driver import TopologyTestDriver
from tests.unit.inside import inside


@dataclass
class Total:
    """An aggregate that its aggregator changes in place."""

    amounts: list[int] = field(default_factory=list)

    def add(self, amount: int) -> Total:
        self.amounts.append(amount)
        return self


def grouped(app: App, value: Any = int) -> KGroupedStream[str, Any]:
    return app.stream("in", key=str, value=value).group_by_key()


def totals(app: App) -> KTable[str, Total]:
    return grouped(app).aggregate(Total, lambda k, v, total: total.add(v), store="totals")


def outputs(driver: TopologyTestDriver, topic: str = "out") -> list[tuple[Any, Any]]:
    return [(record.key, record.value) for record in driver.read_output(topic)]


def test_count_sends_every_update() -> None:
    app = App("a")
    grouped(app).count(store="n").to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", 1), ("b", 1), ("a", 1)])
        driver.pipe_input("in", "a", 1)
        assert outputs(driver) == [("a", 1), ("b", 1), ("a", 2), ("a", 3)]
        assert driver.store("n").get("a") == 3


def test_reduce_begins_with_the_first_value() -> None:
    app = App("a")
    grouped(app).reduce(lambda total, v: total + v, store="sum").to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", 5), ("a", 2), ("b", 1)])
        assert outputs(driver) == [("a", 5), ("a", 7), ("b", 1)]


def test_what_an_aggregator_changes_in_place_was_sent_as_it_was_then() -> None:
    app = App("a")
    totals(app).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", 1), ("a", 2), ("a", 3)])
        assert [value.amounts for _, value in outputs(driver)] == [[1], [1, 2], [1, 2, 3]]


def test_a_value_kept_by_a_reader_stays_as_it_was_in_later_batches() -> None:
    kept: list[Total] = []
    app = App("a")
    totals(app).to_stream().foreach(lambda k, total: kept.append(total))
    with TopologyTestDriver(app) as driver:
        for amount in (1, 2):
            driver.pipe_input("in", "a", amount)
    assert [total.amounts for total in kept] == [[1], [1, 2]]


def test_a_reader_that_changes_what_it_gets_does_not_change_the_store() -> None:
    app = App("a")
    totals(app).to_stream().foreach(lambda k, total: total.amounts.clear())
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", 1), ("a", 2)])
        assert driver.store("totals").get("a") == Total([1, 2])


def test_a_reducer_that_changes_the_first_value_does_not_change_the_stream() -> None:
    app = App("a")
    stream = app.stream("in", key=str, value=list)
    stream.group_by_key().reduce(lambda one, other: one.extend(other) or one, store="all")
    stream.to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", [1]), ("a", [2])])
        assert outputs(driver) == [("a", [1]), ("a", [2])]
        assert driver.store("all").get("a") == [1, 2]


def test_an_aggregate_stored_twice_is_two_objects() -> None:
    app = App("a")
    changes = totals(app).to_stream()
    changes.group_by_key().reduce(lambda _, newest: newest, store="newest")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", 1)
        driver.store("totals").get("a").amounts.append(99)
        assert driver.store("newest").get("a") == Total([1])


def test_an_aggregator_that_fails_half_way_leaves_the_store_as_it_was() -> None:
    def add(key: str, amount: int, total: Total) -> Total:
        total.add(amount)
        if amount < 0:
            raise ValueError("negative")
        return total

    app = App("a", on_error="skip")
    grouped(app).aggregate(Total, add, store="totals").to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", 1), ("a", -5), ("b", -1), ("a", 2)])
        assert [value.amounts for _, value in outputs(driver)] == [[1], [1, 2]]
        assert driver.store("totals").get("a") == Total([1, 2])
        assert driver.store("totals").get("b") is None
        assert driver.skipped() == 2
        inside(driver, "totals").commits.check_invariants()


def test_a_failing_record_is_named_under_the_policy_fail() -> None:
    app = App("a")
    grouped(app).reduce(lambda a, b: a // b, store="quotient")
    with (
        TopologyTestDriver(app) as driver,
        pytest.raises(ProcessingError, match="in-0 offset 2, operator KSTREAM-REDUCE-"),
    ):
        driver.pipe_inputs("in", [("a", 1), ("a", 2), ("a", 0)])


def test_an_aggregate_of_the_wrong_type_is_that_records_failure() -> None:
    app = App("a", on_error="skip")
    grouped(app).aggregate(
        int, lambda k, v, n: "many" if v > 1 else n + v, value=int, store="n"
    ).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", 1), ("a", 2), ("a", 1)])
        assert outputs(driver) == [("a", 1), ("a", 2)]


def test_records_without_key_or_value_are_left_out_and_counted() -> None:
    app = App("a")
    grouped(app).count(store="n").to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [(None, 1), ("a", None), ("a", 1), (None, None), ("a", 1)])
        assert outputs(driver) == [("a", 1), ("a", 2)]
        assert driver.dropped() == 3


def test_nulls_around_a_failing_record_are_counted_once() -> None:
    app = App("a", on_error="skip")
    grouped(app).reduce(lambda a, b: a // b, store="quotient").to_stream().to("out")
    records = [(None, 1), ("a", 6), ("a", 0), (None, 1), ("a", 2)]
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", records)
        assert outputs(driver) == [("a", 6), ("a", 3)]
        assert (driver.dropped(), driver.skipped()) == (2, 1)


def test_an_aggregator_that_returns_none_deletes_the_row() -> None:
    app = App("a")
    grouped(app).aggregate(
        int, lambda k, v, n: None if v == 0 else n + v, value=int, store="n"
    ).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", 1), ("a", 0), ("a", 5)])
        assert outputs(driver) == [("a", 1), ("a", None), ("a", 5)]


def test_grouping_by_another_key_goes_through_a_topic_of_its_own() -> None:
    app = App("a")
    stream = app.stream("in", key=str, value=str)
    stream.group_by(lambda k, v: v).count(store="n").to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", "x"), ("b", "x"), ("c", None)])
        assert outputs(driver) == [("x", 1), ("x", 2)]
        assert driver.dropped() == 1


def test_a_named_grouping_is_written_once_however_often_it_is_folded() -> None:
    app = App("a")
    stream = app.stream("in", key=str, value=int)
    by_value = stream.group_by(lambda k, v: k, name="by-value")
    by_value.count(store="n").to_stream().to("counts")
    by_value.reduce(lambda a, b: a + b, store="sum").to_stream().to("sums")
    assert len(app.topology().repartition_topics) == 1
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", 2), ("a", 3)])
        assert outputs(driver, "counts") == [("a", 1), ("a", 2)]
        assert outputs(driver, "sums") == [("a", 2), ("a", 5)]


def test_grouping_by_the_key_needs_no_topic_until_the_key_may_have_changed() -> None:
    same, other = App("a"), App("a")
    same.stream("in", key=str, value=str).map_values(str.upper).group_by_key().count()
    stream = other.stream("in", key=str, value=str).map(lambda k, v: (k, v), key=str, value=str)
    stream.group_by_key().count()
    assert same.topology().repartition_topics == ()
    assert len(other.topology().repartition_topics) == 1


def test_an_aggregate_whose_type_cannot_be_written_is_refused_when_built() -> None:
    with pytest.raises(TopologyError, match=r"aggregate\(\).*pass value="):
        grouped(App("a")).aggregate(object, lambda k, v, a: a)


@pytest.mark.parametrize("windows", [None, sl.tumbling("1m")], ids=["alone", "windows"])
def test_a_value_in_place_of_the_initializer_is_refused(windows: Any) -> None:
    grouped = sl.App("a").stream("in", key=str, value=str).group_by_key()
    folded: Any = grouped if windows is None else grouped.windowed_by(windows)
    with pytest.raises(
        TypeError, match="pass a function without arguments, such as lambda: 0, not 5"
    ):
        folded.aggregate(5, lambda key, value, total: total)


def test_an_initializer_that_fails_is_refused_when_built() -> None:
    with pytest.raises(TopologyError, match="initializer failed: ZeroDivisionError"):
        grouped(App("a")).aggregate(lambda: 1 // 0, lambda k, v, a: a)
