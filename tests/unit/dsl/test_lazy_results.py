"""Functions whose call does nothing are refused: when the topology is built, else at a record."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import ProcessingError, StreamletError, TopologyError
from streamlet.lazy_results import looking
from streamlet.testing import TopologyTestDriver

Stream = sl.KStream[str, int]


def generating(*arguments: Any) -> Iterator[Any]:
    yield arguments


async def awaited(*arguments: Any) -> Any:
    return arguments


async def both(*arguments: Any) -> AsyncIterator[Any]:
    yield arguments


class Generating:
    def __call__(self, *arguments: Any) -> Iterator[Any]:
        yield arguments

    def method(self, *arguments: Any) -> Iterator[Any]:
        yield arguments


def decorated(function: Any) -> Any:
    @functools.wraps(function)
    def calling(*arguments: Any) -> Any:
        return function(*arguments)

    return calling


#: Functions that can be looked at.
SEEN = {
    "generator": (generating, "generating is a generator function"),
    "partial": (functools.partial(generating), "is a generator function"),
    "object": (Generating(), "is a generator function"),
    "method": (Generating().method, "method is a generator function"),
    "manager": (contextlib.contextmanager(generating), "enters no context manager, and generating"),
    "async manager": (contextlib.asynccontextmanager(both), "enters no context manager, and both"),
    "async": (awaited, "awaited is an async function"),
    "async generator": (both, "both is an async function"),
}
#: Functions whose results show it.
HIDDEN = {
    "coroutine": (lambda *a: awaited(*a), "a coroutine of awaited: nothing awaits it"),
    "decorated": (decorated(awaited), "a coroutine of awaited: nothing awaits it"),
    "generator": (lambda *a: generating(*a), "a generator of generating: nothing goes through it"),
    "async generator": (lambda *a: both(*a), "an? async_generator of both: nothing goes"),
    "manager": (
        lambda *a: contextlib.contextmanager(generating)(*a),
        "a GeneratorContextManager of generating: nothing enters it",
    ),
}


def arity(function: Any, count: int) -> Any:
    """The function with so many arguments that it requires."""
    return {
        0: lambda: function(),
        1: lambda a: function(a),
        2: lambda a, b: function(a, b),
        3: lambda a, b, c: function(a, b, c),
    }[count]


def branched(stream: Stream, function: Any, *more: Any) -> None:
    branches = stream.split()
    for one in (function, *more):
        branches.branch(one)
    for name, part in branches.default_branch().items():
        part.to(f"out{name}")


def table(stream: Stream) -> sl.KTable[str, int]:
    return stream.to_table()


#: Each operator with a function of so many arguments.
OPERATORS: dict[str, tuple[int, Callable[[Stream, Any], object]]] = {
    "foreach": (2, lambda s, f: s.foreach(f)),
    "peek": (2, lambda s, f: s.peek(f).to("out")),
    "filter": (2, lambda s, f: s.filter(f).to("out")),
    "filter_not": (2, lambda s, f: s.filter_not(f).to("out")),
    "branch": (2, lambda s, f: branched(s, f)),
    "two branches": (2, lambda s, f: branched(s, f, lambda k, v: True)),
    "map": (2, lambda s, f: s.map(f, key=str, value=int).to("out")),
    "map_values": (1, lambda s, f: s.map_values(f, value=int).to("out")),
    "select_key": (2, lambda s, f: s.select_key(f, key=str).to("out")),
    "group_by": (2, lambda s, f: s.group_by(f, key=str).count()),
    "aggregate": (3, lambda s, f: s.group_by_key().aggregate(int, f, value=int)),
    "windows": (
        3,
        lambda s, f: s.group_by_key().windowed_by(sl.tumbling("1h")).aggregate(int, f, value=int),
    ),
    "cogroup": (3, lambda s, f: s.group_by_key().cogroup(f).aggregate(int, value=int)),
    "join with a table": (2, lambda s, f: s.join(table(s), f, value=int).to("out")),
    "table filter": (2, lambda s, f: table(s).filter(f, store="kept")),
    "table values": (1, lambda s, f: table(s).map_values(f, value=int, store="mapped")),
    "partitioner": (3, lambda s, f: s.to("out", partitioner=f)),
}


def other(stream: Stream) -> sl.KTable[str, int]:
    return stream.map_values(lambda v: v, value=int).to_table()


def groups(stream: Stream) -> sl.KGroupedTable[str, int]:
    return table(stream).group_by(lambda k, v: (k, v), key=str, value=int)


def nothing(*arguments: Any) -> int:
    return 1


class Begins:
    """A processor that calls a function in one of its methods."""

    def __init__(self, function: Any, where: str) -> None:
        self.function, self.where = function, where

    def init(self, context: Any) -> Any:
        if self.where in ("stream_time", "wall_clock"):
            context.schedule("1s", self.where, lambda time: self.function())
        return self.function() if self.where == "init" else None

    def process(self, record: Any) -> Any:
        return self.function() if self.where == "process" else None


def processed(where: str, *, keyed: bool = False) -> Callable[[Stream, Any], object]:
    def build(stream: Stream, function: Any) -> object:
        call: Any = stream.process_values if keyed else stream.process
        return call(lambda: Begins(function, where), schedules=True)

    return build


def timed(record: Any, state: Any) -> None:
    state.timer(at=record.timestamp)


WITHIN = sl.join_windows("1h")
#: Further functions, some of which may yield.
FUNCTIONS: dict[str, tuple[int, Callable[[Stream, Any], object]]] = {
    "topic": (2, lambda s, f: s.to(f)),
    "left join of streams": (2, lambda s, f: s.left_join(s, f, within=WITHIN)),
    "outer join of streams": (3, lambda s, f: s.outer_join(s, f, within=WITHIN)),
    "join of tables": (2, lambda s, f: table(s).join(other(s), f).to_stream()),
    "outer join of tables": (
        3,
        lambda s, f: table(s).outer_join(other(s), f, store="j", value=int),
    ),
    "foreign key": (
        1,
        lambda s, f: table(s).join(other(s), nothing, foreign_key=f, value=int).to_stream(),
    ),
    "join by foreign key": (
        2,
        lambda s, f: table(s).left_join(other(s), f, foreign_key=str, value=int).to_stream(),
    ),
    "view of a filter": (2, lambda s, f: s.join(table(s).filter(f), nothing)),
    "view of values": (1, lambda s, f: s.join(table(s).map_values(f), nothing)),
    "transform_values": (2, lambda s, f: table(s).transform_values(f).to_stream()),
    "key of a table": (2, lambda s, f: table(s).to_stream(f).foreach(nothing)),
    "groups of a table": (2, lambda s, f: table(s).group_by(f, key=str, value=int).count()),
    "adder": (3, lambda s, f: groups(s).aggregate(int, f, nothing, value=int)),
    "subtractor": (3, lambda s, f: groups(s).aggregate(int, nothing, f, value=int)),
    "subtractor of reduce": (2, lambda s, f: groups(s).reduce(nothing, f)),
    "initializer": (0, lambda s, f: s.group_by_key().aggregate(f, nothing, value=int)),
    "initializer of windows": (
        0,
        lambda s, f: (
            s.group_by_key().windowed_by(sl.tumbling("1h")).aggregate(f, nothing, value=int)
        ),
    ),
    "initializer of cogroup": (
        0,
        lambda s, f: s.group_by_key().cogroup(nothing).aggregate(f, value=int),
    ),
    "initializer of a table": (
        0,
        lambda s, f: groups(s).aggregate(f, nothing, nothing, value=int),
    ),
    "merger": (
        3,
        lambda s, f: (
            s.group_by_key()
            .windowed_by(sl.session("1h"))
            .aggregate(int, nothing, merger=f, value=int)
        ),
    ),
    "reduce": (2, lambda s, f: s.group_by_key().reduce(f)),
    "windows of a function": (
        1,
        lambda s, f: s.group_by_key().windowed_by(sl.custom_windows("m", f, max_size="1m")).count(),
    ),
    "process": (1, lambda s, f: s.process(f)),
    "process in context": (2, lambda s, f: s.process(lambda record, context: f(1, 2))),
    "process_values": (1, lambda s, f: s.process_values(f)),
    "process_values with state": (2, lambda s, f: s.process_values(lambda r, state: f(1, 2))),
    "timer": (1, lambda s, f: s.process(timed, on_timer=f)),
    "timer of process_values": (1, lambda s, f: s.process_values(timed, on_timer=f)),
    "method": (0, processed("process")),
    "method of process_values": (0, processed("process", keyed=True)),
    "init": (0, processed("init")),
    "punctuator": (0, processed("stream_time")),
    "punctuator of process_values": (0, processed("stream_time", keyed=True)),
    "encode": (1, lambda s, f: s.to("out", value=(f, nothing))),
    "decode": (1, lambda s, f: s.to_table(store="rows", value=(lambda v: b"1", f))),
}


def fed(build: Callable[[Stream, Any], object], function: Any, count: int = 1) -> None:
    app = sl.App("lazy")
    build(app.stream("in", key=str, value=int), function)
    with TopologyTestDriver(app) as driver:
        for time in range(count):
            driver.pipe_input("in", "a", 1 + time, time)


@pytest.mark.parametrize("kind", SEEN)
@pytest.mark.parametrize("operator", OPERATORS)
def test_what_can_be_looked_at_is_refused_when_the_topology_is_built(
    operator: str, kind: str
) -> None:
    function, message = SEEN[kind]
    app = sl.App("lazy")
    with pytest.raises(TopologyError, match=message):
        OPERATORS[operator][1](app.stream("in", key=str, value=int), function)


@pytest.mark.parametrize("kind", HIDDEN)
@pytest.mark.parametrize("operator", OPERATORS)
def test_what_is_hidden_is_refused_at_the_first_record(operator: str, kind: str) -> None:
    """No warning of Python's comes beside it, which these tests would fail on."""
    count, build = OPERATORS[operator]
    function, message = HIDDEN[kind]
    with pytest.raises(ProcessingError, match=message):
        fed(build, arity(function, count))


@pytest.mark.parametrize("kind", ["coroutine", "manager"])
@pytest.mark.parametrize("operator", FUNCTIONS)
def test_each_function_of_a_user_is_looked_at(operator: str, kind: str) -> None:
    count, build = FUNCTIONS[operator]
    function, message = HIDDEN[kind]
    with pytest.raises(StreamletError, match=message):
        fed(build, arity(function, count), 2)


METHODS = {
    "async": (awaited, "cannot await"),
    "async generator": (both, "cannot await"),
    "generator": (generating, "goes through nothing that it yields"),
    "manager": (contextlib.contextmanager(generating), "enters no context manager"),
}


@pytest.mark.parametrize("run", METHODS)
@pytest.mark.parametrize("method", ["init", "process", "close"])
def test_a_method_that_never_runs_is_refused_when_the_topology_is_built(
    method: str, run: str
) -> None:
    function, message = METHODS[run]
    kind = type("Mine", (), {"process": lambda self, record: None, method: function})
    for given in (kind, lambda: kind()):
        goes = (method, run) == ("process", "generator")
        with contextlib.nullcontext() if goes else pytest.raises(TopologyError, match=message):
            sl.App("lazy").stream("in", key=str, value=int).process(given)


@pytest.mark.parametrize("kind", HIDDEN)
def test_a_close_that_never_ran_is_named_when_it_is_called(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    function, message = HIDDEN[kind]
    mine = type("Mine", (), {"process": lambda self, record: None, "close": arity(function, 1)})
    app = sl.App("lazy")
    app.stream("in", key=str, value=int).process(mine)
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", 1)
        assert caplog.text == ""
    assert "close() failed" in caplog.text
    assert re.search(message, caplog.text)


@pytest.mark.parametrize("which", ["key", "joiner"])
def test_functions_of_a_join_with_a_global_table_are_looked_at(which: str) -> None:
    app = sl.App("lazy")
    stream, earth = (
        app.stream("in", key=str, value=int),
        app.global_table("earth", key=str, value=int),
    )
    on = (lambda k, v: awaited(k)) if which == "key" else (lambda k, v: k)
    stream.left_join(earth, lambda v, w: nothing() if which == "key" else awaited(v), on=on)
    with (
        pytest.raises(ProcessingError, match="a coroutine of awaited"),
        TopologyTestDriver(app) as driver,
    ):
        driver.pipe_input("in", "a", 1)


def test_a_time_is_looked_at() -> None:
    app = sl.App("lazy")
    app.stream("in", key=str, value=int, timestamp=lambda k, v, t: awaited(k)).to("out")
    with (
        pytest.raises(ProcessingError, match="a coroutine of awaited: nothing awaits it"),
        TopologyTestDriver(app) as driver,
    ):
        driver.pipe_input("in", "a", 1)


@pytest.mark.parametrize("operator", ["reduce", "join of streams", "initializer", "topic"])
def test_other_functions_are_looked_at_too(operator: str) -> None:
    builds: dict[str, Callable[[Stream], object]] = {
        "reduce": lambda s: s.group_by_key().reduce(generating),
        "join of streams": lambda s: s.join(s, generating, within=sl.join_windows("1h")),
        "initializer": lambda s: s.group_by_key().aggregate(generating, lambda k, v, n: n),
        "topic": lambda s: s.to(generating),
    }
    with pytest.raises(TopologyError, match="generating is a generator function"):
        builds[operator](sl.App("lazy").stream("in", key=str, value=int))


def test_times_of_records_are_not_yielded() -> None:
    with pytest.raises(TopologyError, match="generating is a generator function"):
        sl.App("lazy").stream("in", key=str, value=int, timestamp=generating)


def test_a_coroutine_behind_other_results_is_found_where_nothing_uses_them() -> None:
    seen: list[int] = []

    def send(key: str, value: int) -> Any:
        seen.append(value)
        return awaited(value) if value == 3 else None

    app = sl.App("lazy", on_error="skip")
    app.stream("in", key=str, value=int).peek(send).to("out")
    with TopologyTestDriver(app) as driver:
        for value in (1, 2, 3, 4):
            driver.pipe_input("in", "a", value)
        assert [record.value for record in driver.read_output("out")] == [1, 2, 4]
    assert seen == [1, 2, 3, 4]


def test_operators_that_take_several_results_take_generators() -> None:
    app = sl.App("lazy")
    stream = app.stream("in", key=str, value=int)
    stream.flat_map_values(lambda value: (n for n in range(value)), value=int).to("values")
    stream.flat_map(lambda k, v: ((k, n) for n in range(v)), key=str, value=int).to("pairs")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", 2)
        for topic in ("values", "pairs"):
            assert [record.value for record in driver.read_output(topic)] == [0, 1]
    with pytest.raises(ProcessingError, match="a coroutine of awaited"):
        fed(lambda s, f: s.flat_map_values(f, value=int).to("out"), lambda v: awaited(v))


def test_a_class_as_initializer_gives_none_of_its_attributes_to_the_function() -> None:
    """Or the function could not be sent to another process, as on Spark."""
    assert set(vars(looking(Begins))) == {"__wrapped__"}
