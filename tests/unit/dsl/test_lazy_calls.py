"""Functions of ``map_values_async`` whose call, or whose awaited result, does nothing: refused."""

from __future__ import annotations

import asyncio
import contextlib
import types
from collections.abc import Callable
from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import ProcessingError, TopologyError
from streamlet.testing import TopologyTestDriver
from tests.unit.dsl.test_lazy_results import HIDDEN, SEEN, awaited, both, generating


def giving(make: Callable[[], Any]) -> Any:
    """An async function with such a result."""

    async def give(value: int) -> Any:
        return make()

    return give


#: Functions, and what is said of them.
CALLED: dict[str, tuple[Any, str]] = {
    "hidden generator": (lambda v: generating(v), "a generator of generating: nothing goes"),
    "hidden manager": (lambda v: HIDDEN["manager"][0](v), HIDDEN["manager"][1]),
    "no awaitable": (lambda v: v + 1, "the function returned 2, which cannot be awaited"),
    "generator as result": (giving(lambda: generating(1)), "a generator of generating"),
    "coroutine as result": (giving(lambda: awaited(1)), "a coroutine of awaited: nothing awaits"),
    "async generator as result": (giving(lambda: both(1)), "an? async_generator of both"),
    "manager as result": (
        giving(lambda: contextlib.contextmanager(generating)()),
        "a GeneratorContextManager of generating: nothing enters it",
    ),
}


@pytest.mark.parametrize("kind", [one for one in SEEN if one != "async"])
def test_what_is_not_awaited_is_refused_when_the_topology_is_built(kind: str) -> None:
    function, _ = SEEN[kind]
    with pytest.raises(TopologyError, match=r"yields|enters no context manager"):
        sl.App("lazy").stream("in", key=str, value=int).map_values_async(function)


@pytest.mark.parametrize("kind", CALLED)
def test_each_result_is_looked_at(kind: str) -> None:
    """Nothing uses them here, and the policy decides about their records."""
    function, message = CALLED[kind]
    seen: list[Any] = []
    app = sl.App("lazy", on_error="skip")
    called = app.stream("in", key=str, value=int).map_values_async(function, value=str)
    called.foreach(lambda key, value: seen.append(value))
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", 1), ("b", 1)])
        assert (driver.skipped(), seen) == (2, [])
    app = sl.App("lazy")
    app.stream("in", key=str, value=int).map_values_async(function, value=str).foreach(print)
    with (
        pytest.raises(ProcessingError, match=message),
        TopologyTestDriver(app) as driver,
    ):
        driver.pipe_input("in", "a", 1)


@types.coroutine
def marked(value: int) -> Any:
    """A coroutine of the old kind."""
    yield from asyncio.sleep(0).__await__()
    return str(value)


@pytest.mark.parametrize("function", [marked, lambda value: marked(value)])
def test_a_generator_that_is_marked_as_a_coroutine_is_awaited(function: Any) -> None:
    app = sl.App("lazy")
    app.stream("in", key=str, value=int).map_values_async(function, value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", 7)
        assert driver.read_output("out")[0].value == "7"
