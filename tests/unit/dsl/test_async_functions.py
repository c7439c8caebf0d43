"""An async function is refused by the call it is given to, while the topology is built."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest

from streamlet.app import App
from streamlet.dsl.stream import KStream
from streamlet.errors import SerdeError, TopologyError
from streamlet.serdes import serde


async def later(*arguments: Any) -> Any:
    return arguments


async def several(*arguments: Any) -> AsyncIterator[Any]:
    yield arguments


class Enricher:
    async def __call__(self, *arguments: Any) -> Any:
        return arguments


@pytest.mark.parametrize(
    "function", [later, several, Enricher(), partial(later, 1), Enricher().__call__]
)
@pytest.mark.parametrize(
    ("call", "build"),
    [
        ("filter()", lambda s, f: s.filter(f)),
        ("map()", lambda s, f: s.map(f)),
        ("map_values()", lambda s, f: s.map_values(f)),
        ("flat_map_values()", lambda s, f: s.flat_map_values(f)),
        ("select_key()", lambda s, f: s.select_key(f)),
        ("foreach()", lambda s, f: s.foreach(f)),
        ("to('out')", lambda s, f: s.to("out", partitioner=f)),
        ("reduce()", lambda s, f: s.group_by_key().reduce(f)),
        ("aggregate()", lambda s, f: s.group_by_key().aggregate(f, lambda k, v, a: a)),
    ],
)
def test_an_async_function_is_refused_with_the_call(
    function: Callable[..., Any], call: str, build: Callable[[KStream[Any, Any], Any], Any]
) -> None:
    stream = App("a").stream("in", key=str, value=str)
    with pytest.raises(TopologyError) as refused:
        build(stream, function)
    assert str(refused.value).startswith(f"{call} cannot await, and ")
    assert "pass a function that returns the result itself" in str(refused.value)


def test_an_async_timestamp_is_refused() -> None:
    with pytest.raises(
        TopologyError, match=r"stream\('in'\), timestamp= cannot await, and later is"
    ):
        App("a").stream("in", key=str, value=str, timestamp=later)


def test_an_async_serde_is_refused() -> None:
    with pytest.raises(SerdeError, match="an async function cannot encode or decode"):
        serde((later, bytes.decode))
