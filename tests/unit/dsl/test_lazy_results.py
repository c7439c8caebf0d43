"""Functions whose call does nothing are refused: when the topology is built, else at a record."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import ProcessingError, TopologyError
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


def fed(build: Callable[[Stream, Any], object], function: Any) -> None:
    app = sl.App("lazy")
    build(app.stream("in", key=str, value=int), function)
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", 1)


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
