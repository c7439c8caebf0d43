"""Stream operators without state, through the driver and, for failures, on batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamlet.app import App
from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.operators.stateless import (
    Filter,
    FlatMap,
    FlatMapValues,
    Foreach,
    Map,
    MapValues,
    Peek,
)
from streamlet.dsl.stream import KStream
from streamlet.testing.driver import TopologyTestDriver

Records = list[tuple[Any, Any]]


def through(build: Callable[[KStream[str, str]], KStream[Any, Any]], records: Records) -> Records:
    """What comes out when the records are piped in as one batch, and the same one by one."""
    outputs = []
    for at_once in (True, False):
        app = App("a")
        build(app.stream("in", key=str, value=str)).to("out")
        with TopologyTestDriver(app) as driver:
            for chunk in [records] if at_once else [[record] for record in records]:
                driver.pipe_inputs("in", chunk)
            outputs.append([(r.key, r.value) for r in driver.read_output("out")])
    assert outputs[0] == outputs[1]
    return outputs[0]


def test_filter_keeps_and_filter_not_drops_what_passes() -> None:
    records: Records = [("a", "1"), ("b", "2"), ("a", "3")]
    assert through(lambda s: s.filter(lambda k, v: k == "a"), records) == [("a", "1"), ("a", "3")]
    assert through(lambda s: s.filter_not(lambda k, v: k == "a"), records) == [("b", "2")]


def test_map_values_takes_one_or_two_arguments() -> None:
    assert through(lambda s: s.map_values(str.upper), [("a", "x")]) == [("a", "X")]
    assert through(lambda s: s.map_values(lambda k, v: k + v, value=str), [("a", "x")]) == [
        ("a", "ax")
    ]


def test_map_and_select_key_change_keys() -> None:
    swapped = through(lambda s: s.map(lambda k, v: (v, k), key=str, value=str), [("a", "x")])
    assert swapped == [("x", "a")]
    assert through(lambda s: s.select_key(lambda k, v: v), [("a", "x")]) == [("x", "x")]


def test_flat_map_and_flat_map_values_make_any_number_of_records() -> None:
    records: Records = [("a", "x y"), ("b", ""), ("c", "z")]
    assert through(lambda s: s.flat_map_values(str.split, value=str), records) == [
        ("a", "x"),
        ("a", "y"),
        ("c", "z"),
    ]
    assert through(
        lambda s: s.flat_map(lambda k, v: ((w, k) for w in v.split()), key=str, value=str), records
    ) == [("x", "a"), ("y", "a"), ("z", "c")]


def test_flat_map_keeps_each_records_time() -> None:
    app = App("a")
    app.stream("in", key=str, value=str).flat_map_values(str.split, value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", "x y", timestamp_ms=5)
        driver.pipe_input("in", "a", "z", timestamp_ms=7)
        assert [r.timestamp for r in driver.read_output("out")] == [5, 5, 7]


def test_nulls_go_through_user_functions_and_sinks() -> None:
    assert through(lambda s: s.map_values(lambda v: v), [(None, None)]) == [(None, None)]


def test_peek_and_foreach_see_each_record_in_order() -> None:
    seen: list[str] = []
    app = App("a")
    stream = app.stream("in", key=str, value=str)
    stream.peek(lambda k, v: seen.append(v)).to("out")
    stream.foreach(lambda k, v: seen.append(f"each {v}"))
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", "1"), ("b", "2")])
        assert len(driver.read_output("out")) == 2
    assert seen == ["1", "2", "each 1", "each 2"]


def test_merged_branches_keep_the_order_of_the_records() -> None:
    def forked(stream: KStream[str, str]) -> KStream[str, str]:
        return stream.map_values(str.upper).merge(stream.filter(lambda k, v: v != "b"))

    records: Records = [("k", "a"), ("k", "b"), ("k", "c")]
    assert [value for _, value in through(forked, records)] == ["A", "a", "B", "C", "c"]


def test_repartition_brings_back_every_record_that_has_a_key() -> None:
    records: Records = [("a", "1"), (None, "2"), ("b", None)]
    assert through(lambda s: s.repartition(name="again"), records) == [("a", "1"), ("b", None)]


def batch(*values: Any) -> Batch:
    keys = [f"k{i}" for i in range(len(values))]
    return Batch("in", 0, range(len(values)), keys, list(values), [0] * len(values))


def fails_on(bad: Any, result: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def function(key: Any, value: Any) -> Any:
        if value == bad:
            raise ValueError(f"cannot take {value}")
        return result(value)

    return function


@pytest.mark.parametrize(
    ("operator", "done"),
    [
        (Filter(fails_on(3, lambda v: v == 1), keep=True), [1]),
        (Filter(fails_on(3, lambda v: v == 1), keep=False), [2]),
        (MapValues(fails_on(3, lambda v: v * 10), takes=2), [10, 20]),
        (Map(fails_on(3, lambda v: (v, v * 10))), [10, 20]),
        (FlatMapValues(fails_on(3, lambda v: [v] * v), takes=2), [1, 2, 2]),
        (FlatMap(fails_on(3, lambda v: [(v, v)] * v)), [1, 2, 2]),
        (Peek(fails_on(3, lambda v: None)), [1, 2]),
        (Foreach(fails_on(3, lambda v: None)), []),
    ],
    ids=lambda case: type(case).__name__ if not isinstance(case, list) else "",
)
def test_records_before_a_failing_one_are_done(operator: Any, done: list[Any]) -> None:
    with pytest.raises(OperatorFailed) as failed:
        operator.process(batch(1, 2, 3, 4))
    assert failed.value.index == 2
    assert failed.value.done.values == done
    assert str(failed.value.__cause__) == "cannot take 3"


def test_a_stop_iteration_from_a_user_function_is_a_failure_not_an_end() -> None:
    empty = iter(())
    with pytest.raises(OperatorFailed) as failed:
        MapValues(lambda v: next(empty) if v == 2 else v, takes=1).process(batch(1, 2, 3))
    assert failed.value.index == 1
    assert failed.value.done.values == [1]


@pytest.mark.parametrize("answer", [None, ("a", "b", "c"), "ab"])
def test_map_refuses_what_is_no_pair(answer: Any) -> None:
    with pytest.raises(OperatorFailed) as failed:
        Map(lambda k, v: answer).process(batch(1))
    assert isinstance(failed.value.__cause__, TypeError)


def test_flat_map_fails_on_the_record_whose_generator_fails_half_way() -> None:
    def words(key: Any, value: Any) -> Any:
        yield (key, value)
        if value == 2:
            raise ValueError("half way")

    with pytest.raises(OperatorFailed) as failed:
        FlatMap(words).process(batch(1, 2))
    assert failed.value.index == 1
    assert failed.value.done.values == [1]


def test_an_answer_whose_truth_fails_is_that_records_failure() -> None:
    class Doubtful:
        def __bool__(self) -> bool:
            raise ValueError("who knows")

    with pytest.raises(OperatorFailed) as failed:
        Filter(lambda k, v: Doubtful() if v == 2 else True, keep=True).process(batch(1, 2))
    assert failed.value.index == 1


def test_operators_leave_the_columns_they_were_given_alone() -> None:
    given = batch(1, 2, 3)
    before = (list(given.keys), list(given.values))
    for operator in (
        Filter(lambda k, v: v > 1, keep=True),
        MapValues(lambda v: v + 1, takes=1),
        FlatMapValues(lambda v: [v, v], takes=1),
        Map(lambda k, v: (v, k)),
    ):
        operator.process(given)
    assert (given.keys, given.values) == before
