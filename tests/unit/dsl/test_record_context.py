"""Functions that ask for the ``RecordContext``: what they are given, and what they may set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import streamlet as sl
from streamlet.batch import Batch
from streamlet.dsl.graph.record_context import applied
from streamlet.dsl.operators.stateless import FlatMapValues, MapValues
from streamlet.dsl.stream import KStream
from streamlet.errors import ProcessingError, TopologyError
from streamlet.kafka.ports import Headers
from streamlet.testing.driver import TopologyTestDriver
from streamlet.topology.operator import TaskContext

ONE: Headers = [("h", b"one")]
NEVER: Any = None


def stream_of(app: sl.App, topic: str = "in") -> KStream[str, str]:
    return app.stream(topic, key=str, value=str)


def headers(driver: TopologyTestDriver, topic: str = "out") -> list[Any]:
    return [record.headers for record in driver.read_output(topic)]


def test_a_function_is_told_where_its_record_comes_from() -> None:
    app = sl.App("a")
    seen: list[tuple[Any, ...]] = []

    @sl.with_context
    def note(key: str, value: str, context: sl.RecordContext) -> None:
        seen.append((value, context.topic, context.partition, context.offset, context.timestamp))

    stream_of(app).filter(lambda k, v: v != "b").peek(note).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("k", "a"), ("k", "b"), ("k", "c")], 7)
        driver.pipe_input("in", "k", "d", 8)
        assert headers(driver) == [None] * 3
    assert seen == [("a", "in", 0, 0, 7), ("c", "in", 0, 2, 7), ("d", "in", 0, 3, 8)]


def test_behind_a_repartition_the_record_is_one_of_the_internal_topic() -> None:
    app = sl.App("a")
    where: list[tuple[str, int]] = []
    note = sl.with_context(lambda k, v, context: where.append((context.topic, context.offset)))
    stream_of(app).filter(lambda k, v: v == "b").repartition(name="by").foreach(note)
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("k", "a"), ("k", "b")])
    assert where == [("a-by-repartition", 0)]


def tag(key: Any, value: Any, context: sl.RecordContext) -> Any:
    """Put the last header h into the value, replace h, and note what it was."""
    was = context.header("h") or b"-"
    context.set_header("h", b"new")
    context.add_header("seen", was)
    return f"{value}{was.decode()}"


def tagged(result: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A function that tags, and gives another result."""

    @sl.with_context
    def function(key: Any, value: Any, context: sl.RecordContext) -> Any:
        tag(key, value, context)
        return result(key, value)

    return function


OPERATORS: dict[str, Callable[[KStream[str, str]], KStream[str, str]]] = {
    "filter": lambda s: s.filter(tagged(lambda k, v: v != "no")),
    "filter_not": lambda s: s.filter_not(tagged(lambda k, v: v == "no")),
    "map": lambda s: s.map(tagged(lambda k, v: (k, v)), key=str, value=str),
    "map_values": lambda s: s.map_values(tagged(lambda k, v: v), value=str),
    "flat_map": lambda s: s.flat_map(tagged(lambda k, v: [(k, v)]), key=str, value=str),
    "flat_map_values": lambda s: s.flat_map_values(tagged(lambda k, v: [v]), value=str),
    "select_key": lambda s: s.select_key(tagged(lambda k, v: k), key=str),
    "peek": lambda s: s.peek(tagged(lambda k, v: None)),
    "group_by": lambda s: (
        s.group_by(tagged(lambda k, v: k), key=str).reduce(lambda a, b: b).to_stream()
    ),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_headers_that_a_function_sets_go_with_its_record(operator: str) -> None:
    app = sl.App("a")
    OPERATORS[operator](stream_of(app)).filter(lambda k, v: v != "no").to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("k", "a"), ("k", "no"), ("k", "b")])
        driver.pipe_input("in", "k", "c", headers=[("h", b"1"), ("x", None), ("h", b"2")])
        assert headers(driver) == [
            [("h", b"new"), ("seen", b"-")],
            [("h", b"new"), ("seen", b"-")],
            [("x", None), ("h", b"new"), ("seen", b"2")],
        ]


def test_a_value_mapper_takes_the_context_behind_the_value_or_behind_both() -> None:
    app = sl.App("a")
    stream_of(app).map_values(sl.with_context(tag), value=str).to("out")
    short = sl.with_context(lambda value, context: f"{value}@{context.offset}")
    stream_of(app).map_values(short, value=str).to("short")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "k", "a", headers=ONE)
        assert [record.value for record in driver.read_output("out")] == ["aone"]
        assert [record.value for record in driver.read_output("short")] == ["a@0"]


def test_what_a_generator_sets_before_it_ends_is_set_for_all_its_results() -> None:
    app = sl.App("a")

    @sl.with_context
    def words(value: str, context: sl.RecordContext) -> Iterator[str]:
        for word in value.split():
            yield word
            context.add_header("word", word.encode())

    stream_of(app).flat_map_values(words).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("k", "a b"), ("k", "")])
        driver.pipe_input("in", "k", "c", headers=ONE)
        both = [("word", b"a"), ("word", b"b")]
        assert headers(driver) == [both, both, [*ONE, ("word", b"c")]]


def test_another_branch_does_not_see_what_a_function_sets() -> None:
    app = sl.App("a")
    stream = stream_of(app)
    stream.peek(sl.with_context(tag)).to("tagged")
    stream.to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("k", "a"), ("k", "b")], headers=ONE)
        assert headers(driver, "tagged") == [[("h", b"new"), ("seen", b"one")]] * 2
        assert headers(driver) == [ONE, ONE]


def test_behind_a_record_that_fails_the_context_is_that_of_the_next() -> None:
    app = sl.App("a", on_error=("dead_letter", "letters"))

    @sl.with_context
    def number(value: str, context: sl.RecordContext) -> int:
        context.headers = [("offset", str(context.offset).encode())]
        return int(value)

    stream_of(app).map_values(number).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("k", value) for value in ("1", "x", "3", "y", "5")])
        driver.pipe_input("in", "k", "z", headers=ONE)
        assert headers(driver) == [[("offset", b"0")], [("offset", b"2")], [("offset", b"4")]]
        letters = headers(driver, "letters")
        assert [("offset" in dict(letter), "h" in dict(letter)) for letter in letters] == [
            (False, False),
            (False, False),
            (False, True),
        ]


def test_headers_can_be_replaced_and_removed() -> None:
    app = sl.App("a")

    @sl.with_context
    def change(key: str, value: str, context: sl.RecordContext) -> None:
        if value == "replace":
            context.headers = [("a", b""), ("b", None)]
        elif value == "empty":
            context.headers = ()
        else:
            context.remove_header("h")
        assert context.header("h") is None

    stream_of(app).peek(change).to("out")
    with TopologyTestDriver(app) as driver:
        for value in ("replace", "empty", "remove"):
            driver.pipe_input("in", "k", value, headers=[*ONE, ("x", b"1"), *ONE])
        assert headers(driver) == [[("a", b""), ("b", None)], None, [("x", b"1")]]


@pytest.mark.parametrize("wrong", ["h", ("h", "text"), (b"h", b""), ("h",), ("\ud800", b"")])
def test_what_is_no_header_fails_its_record(wrong: Any) -> None:
    app = sl.App("a")

    @sl.with_context
    def change(key: str, value: str, context: sl.RecordContext) -> None:
        context.headers = [wrong]

    stream_of(app).peek(change).to("out")
    message = r"expected a header as a pair of str and bytes or None|surrogates not allowed"
    with TopologyTestDriver(app) as driver, pytest.raises(ProcessingError, match=message):
        driver.pipe_input("in", "k", "v")


def test_records_without_headers_have_no_column_of_them_behind_a_function_that_sets_none() -> None:
    batch = Batch("in", 0, range(2), ["k", "k"], ["a", "bad"], [1, 2])
    context: TaskContext = NEVER
    asked = sl.with_context(lambda value, context: int(context.header("h") is None))
    assert applied(asked, lambda f: MapValues(f, 1))(context).process(batch).headers is None
    nothing = sl.with_context(lambda value, context: [])
    assert applied(nothing, lambda f: FlatMapValues(f, 1))(context).process(batch).headers is None


def test_a_function_that_does_not_ask_is_given_to_its_operator_as_it_is() -> None:
    operator = applied(str.upper, lambda f: MapValues(f, 1))(NEVER)
    assert operator == MapValues(str.upper, 1)


Misuse = Callable[[sl.App, Any], object]

MISUSES: dict[str, Misuse] = {
    r"reduce\(\)": lambda app, f: stream_of(app).group_by_key().reduce(f),
    r"aggregate\(\)": lambda app, f: stream_of(app).group_by_key().aggregate(int, f),
    r"join\(\)": lambda app, f: stream_of(app).join(app.table("t", key=str, value=str), f),
    r"filter\(\)": lambda app, f: app.table("t", key=str, value=str).filter(f),
    r"map_values\(\)": lambda app, f: app.table("t", key=str, value=str).map_values(f),
    r"to\('out'\)": lambda app, f: stream_of(app).to("out", partitioner=f),
    r"stream\('in'\)|stream\(\)": lambda app, f: app.stream("in", key=str, value=str, timestamp=f),
}


@pytest.mark.parametrize("call", MISUSES)
def test_where_there_is_no_context_the_function_is_refused(call: str) -> None:
    with pytest.raises(TopologyError, match=rf"({call}).* has no RecordContext for its function"):
        MISUSES[call](sl.App("a"), sl.with_context(lambda one, two, context: one))


def test_a_function_that_cannot_take_the_context_is_refused_when_built() -> None:
    two: Any = lambda key, value: value  # noqa: E731 - as users write it
    with pytest.raises(TopologyError, match=r"filter\(\) calls its function as \(key, value, con"):
        stream_of(sl.App("a")).filter(sl.with_context(two))

    async def later(key: str, value: str, context: sl.RecordContext) -> None:
        """Never runs."""

    with pytest.raises(TopologyError, match="cannot await"):
        stream_of(sl.App("a")).peek(sl.with_context(later))
    with pytest.raises(TopologyError, match=r"with_context\(\) expects a function"):
        sl.with_context("no function")  # type: ignore[call-overload]


def test_a_decorated_function_can_be_called_with_a_context_by_hand() -> None:
    context = sl.RecordContext()
    asked: Any = sl.with_context(lambda value, given: (value, given is context))
    assert asked(1, context) == (1, True)
