"""What functions and processors do wrong is told with their line, or when the topology is built."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, ClassVar
from unittest.mock import Mock

import numpy
import pandas
import pytest

import streamlet as sl
from streamlet.errors import ProcessingError, StreamletError, TopologyError, WrongTypeError
from streamlet.testing import TopologyTestDriver


async def _slow(value: str) -> str:
    await asyncio.sleep(60)
    return value


#: Functions whose results an operator cannot take, and what the message says behind their line.
NAMED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "map": (lambda s: s.map(lambda k, v: v, key=str, value=str), r"expected a pair .*, got 'b'"),
    "filter": (lambda s: s.filter(lambda k, v: numpy.zeros(2)), "truth value of an array"),
    "filter, an expression": (lambda s: s.filter(lambda k, v: sl.value() == "b"), "no truth yet"),
    "map_values": (lambda s: s.map_values(lambda v: next(iter([])), value=str), "StopIteration"),
    "map_batches": (lambda s: s.map_batches(lambda b: None, value=str), "returned None"),
    "map_values_async": (
        lambda s: s.map_values_async(_slow, value=str, timeout="20ms"),
        r"TimeoutError: no answer within timeout=0.02 s",
    ),
    "process": (
        lambda s: s.process(lambda record: record.value, key=str, value=str),
        r"got 'b'; process_values\(\) takes a value",
    ),
    "process, several": (
        lambda s: s.process(lambda record: [record], key=str, value=str),
        "got .*; yield each of several",
    ),
    "process, with state": (
        lambda s: s.process(lambda record, state: "text", key=str, value=str),
        r"got 'text'; process_values\(\)",
    ),
    "joined": (
        lambda s: s.join(s.to_table(), lambda v, row: _slow(v), value=str),
        "returned a coroutine",
    ),
}


@pytest.mark.parametrize("case", NAMED)
def test_a_result_that_cannot_be_taken_is_told_with_the_line_of_its_function(case: str) -> None:
    add, words = NAMED[case]
    app = sl.App("named")
    add(app.stream("in", key=str, value=str)).to("out")
    said = rf"^\S*test_function_mistakes.py:\d+ in <?\w+>?, `.*`: .*{words}.*; a record failed at"
    with TopologyTestDriver(app) as driver, pytest.raises(ProcessingError, match=said):
        driver.pipe_input("in", "a", "b")


#: Errors of which it is not known which function they are about, or that are about none of them.
UNNAMED: dict[str, Callable[[Any], Any]] = {
    "one of two functions": lambda s: s.group_by_key().aggregate(
        lambda: _slow("x"), lambda key, value, total: total, value=str
    ),
    "the record's own value": lambda s: s.map_values(lambda v: 5, value=str).group_by_key().count(),
    "an object with any attribute": lambda s: s.map_values(Mock(return_value=_slow), value=str),
}


@pytest.mark.parametrize("case", UNNAMED)
def test_an_error_names_no_function_that_it_may_not_be_about(case: str) -> None:
    app = sl.App("unnamed")
    added = UNNAMED[case](app.stream("in", key=str, value=str))
    (added.to_stream() if isinstance(added, sl.KTable) else added).to("out", value=str)
    with TopologyTestDriver(app) as driver, pytest.raises(ProcessingError, match=r"^a record fail"):
        driver.pipe_input("in", "a", "b")


def test_an_error_of_a_punctuator_does_not_name_the_processors_function() -> None:
    class Ticks(sl.Processor[str, str, str, str]):
        def init(self, context: sl.ProcessorContext[str, str]) -> None:
            context.schedule("1s", "wall_clock", lambda time: "no record")

        def process(self, record: sl.Record[str, str]) -> None:
            pass

    app = sl.App("ticks")
    app.stream("in", key=str, value=str).process(Ticks)
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", "b")
        with pytest.raises(
            ProcessingError, match=r"^a record failed \(TypeError: expected a Record"
        ):
            driver.advance_wall_clock("1s")


class _Model:
    """Stands for one of pydantic, which gives its fields one after the other."""

    __pydantic_fields__: ClassVar = {"a": int}

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter([("a", "1")])


#: Results that Python would take apart, and into what.
WHOLE: dict[str, tuple[object, str]] = {
    "a text": ("word", "its letters"),
    "bytes": (b"word", "its bytes"),
    "a dict": ({("a", "b"): 1}, "its keys"),
    "a table": (pandas.DataFrame({("a", "b"): ["1"]}), "the names of its columns"),
    "a model": (_Model(), "its fields"),
}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("operator", ["flat_map", "flat_map_values"])
def test_a_value_that_would_be_taken_apart_is_refused(name: str, operator: str) -> None:
    whole, parts = WHOLE[name]
    app = sl.App("whole", on_error="skip")
    lines = app.stream("in", key=str, value=str)

    def some(key: str, value: str) -> Any:
        return whole if value == "whole" else [(key, value)]

    types = {"key": str, "value": str} if operator == "flat_map" else {"value": tuple[str, str]}
    getattr(lines, operator)(some, **types).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", "1"), ("a", "whole"), ("a", "2")])
        assert (len(driver.read_output("out")), driver.skipped()) == (2, 1)
    app = sl.App("whole")
    getattr(app.stream("in", key=str, value=str), operator)(some, **types)
    said = (
        f"(?s)test_function_mistakes.py:.* in some.*taken apart into {parts}; return \\[result\\]"
    )
    with TopologyTestDriver(app) as driver, pytest.raises(ProcessingError, match=said):
        driver.pipe_input("in", "a", "whole")


class _NoRecord(sl.Processor[str, str, str, str]):
    def process(self) -> None:  # type: ignore[override]
        pass


class _NoContext(sl.Processor[str, str, str, str]):
    def init(self) -> None:  # type: ignore[override]
        pass

    def process(self, record: sl.Record[str, str]) -> None:
        pass


class _TooEarly(sl.Processor[str, str, str, str]):
    def __init__(self) -> None:
        self.rows = self.context.store("rows")


async def _awaits(record: sl.Record[str, str]) -> None:
    pass


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            _NoRecord,
            r"calls process\(\) of its processor as \(record\), but _NoRecord.process takes",
        ),
        (_NoContext, r"calls init\(\) of its processor as \(context\), but _NoContext.init takes"),
        (_TooEarly, r"_TooEarly has no context yet: it has one from init\(context\) on"),
        (lambda: _NoRecord, "its function returns the class _NoRecord; return an object of it"),
        (_awaits, r"_awaits is an async function: have KStream.map_values_async\(\) await"),
    ],
)
def test_a_processor_that_cannot_be_called_is_refused_at_build(given: Any, words: str) -> None:
    lines = sl.App("processors").stream("in", key=str, value=str)
    with pytest.raises(TopologyError, match=words):
        lines.process(given)


def test_an_init_that_keeps_no_context_is_told_of_where_it_is_asked_for() -> None:
    class Own(sl.Processor[str, str, str, str]):
        def init(self, context: sl.ProcessorContext[str, str]) -> None:
            self.rows = {}  # type: ignore[var-annotated]

        def process(self, record: sl.Record[str, str]) -> None:
            self.context.forward(record)

    app = sl.App("own")
    app.stream("in", key=str, value=str).process(Own)
    said = (
        r"test_function_mistakes.py:.*Own has no context yet.*calls super\(\).init\(context\) first"
    )
    with TopologyTestDriver(app) as driver, pytest.raises(ProcessingError, match=said):
        driver.pipe_input("in", "a", "b")
    assert not hasattr(Own(), "other")


def test_a_state_is_of_one_call() -> None:
    with pytest.raises(WrongTypeError, match="State is not made by hand: process"):
        sl.State()
    kept: list[sl.State[str]] = []
    app = sl.App("kept")

    def keep(record: sl.Record[str, str], state: sl.State[str]) -> str:
        state["n"] = 1
        kept.append(state)
        return record.value

    lines = app.stream("in", key=str, value=str)
    lines.process_values(keep, value=str, on_timer=lambda timer, state: None)
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", "b")
    for use in (
        lambda: kept[0].update(n=2),
        lambda: kept[0]["n"],
        lambda: kept[0].timer(after="1s"),
    ):
        with pytest.raises(StreamletError, match=r"a State is used after the call.*dict\(state\)"):
            use()
    assert repr(kept[0]) == "State('a')"


def _by_foreign_key(app: sl.App, *, left: bool) -> None:
    lines = app.table("in", key=str, value=str)
    join: Any = lines.left_join if left else lines.join
    numbered = app.table("numbered", key=int, value=str)
    join(numbered, lambda line, other: line, foreign_key=lambda line: line).to_stream().to("out")


def _by_global_key(app: sl.App, *, left: bool, largest: bool = False) -> None:
    lines = app.stream("in", key=str, value=str)
    join: Any = lines.left_join if left else lines.join
    numbered = app.global_table("numbered", key=int, value=str)
    chosen: Any = (lambda key, line: 1 << 70) if largest else (lambda key, line: line)
    join(numbered, lambda line, other: line, on=chosen).to("out")


#: Operators whose function gives what a serde refuses, and how the message begins.
REFUSED: dict[str, tuple[Callable[[sl.App], object], str]] = {
    "on=": (lambda app: _by_global_key(app, left=False), r"on=: int: expected int, got str 'b'"),
    "left, on=": (lambda app: _by_global_key(app, left=True), r"on=: int: expected int, got str"),
    "on=, no bytes": (
        lambda app: _by_global_key(app, left=False, largest=True),
        r"on=: int: cannot encode 1180591620717411303424",
    ),
    "foreign_key=": (
        lambda app: _by_foreign_key(app, left=False),
        r"foreign_key=: int: expected int, got str 'b'",
    ),
    "left, foreign_key=": (
        lambda app: _by_foreign_key(app, left=True),
        r"foreign_key=: int: expected int, got str 'b'",
    ),
    "aggregate()": (
        lambda app: (
            app.stream("in", key=str, value=str)
            .group_by_key()
            .aggregate(int, lambda key, line, total: line, value=int)  # type: ignore[arg-type]
        ),
        r"result: int: expected int, got str 'b'",
    ),
    "windowed": (
        lambda app: (
            app.stream("in", key=str, value=str)
            .group_by_key()
            .windowed_by(sl.tumbling("1m"))
            .aggregate(int, lambda key, line, total: line, value=int)  # type: ignore[arg-type]
        ),
        r"result: int: expected int, got str 'b'",
    ),
    "aggregate() of a table": (
        lambda app: (
            app.table("in", key=str, value=str)
            .group_by(lambda key, line: (key, line), key=str, value=str)
            .aggregate(int, lambda key, line, _: line, lambda key, line, _: line, value=int)  # type: ignore[arg-type]
        ),
        r"result: int: expected int, got str 'b'",
    ),
    "map_values() of a table": (
        lambda app: app.table("in", key=str, value=str).map_values(
            lambda line: line, value=int, store="kept"
        ),
        r"result: int: expected int, got str 'b'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_serde_refuses_is_named_by_the_argument_that_gave_it(case: str) -> None:
    add, words = REFUSED[case]
    app = sl.App("refused")
    add(app)
    said = rf"^a record failed \(SerdeError: {words}"
    with TopologyTestDriver(app) as driver, pytest.raises(ProcessingError, match=said):
        driver.pipe_input("in", "a", "b")
