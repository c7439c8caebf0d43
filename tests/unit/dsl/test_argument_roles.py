"""What a function of process() takes behind its record: told by annotation, else by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

import pytest

import streamlet as sl
from streamlet.errors import TopologyError


class Seen(TypedDict, total=False):
    n: int


def by_annotation(record: Any, c: sl.ProcessorContext[Any, Any]) -> None:
    c.forward(record)


def by_generic(record: Any, anything: sl.ProcessorContext[str, int]) -> None:
    anything.forward(record)


def ctx(record: Any, ctx: Any) -> None:
    ctx.forward(record)


def context(record: Any, context: Any) -> None:
    context.forward(record)


def state(record: Any, state: Any) -> None: ...
def annotated_state(record: Any, seen: sl.State[str]) -> None: ...
def a_dict(record: Any, seen: dict[str, Any]) -> None: ...
def typed_dict(record: Any, seen: Seen) -> None: ...
def both(record: Any, s: sl.State[str], c: sl.ProcessorContext[Any, Any]) -> None: ...
def turned(record: Any, ctx: Any, state: Any) -> None: ...


class Method:
    def __call__(self, record: Any, c: sl.ProcessorContext[Any, Any]) -> None:
        c.forward(record)


def stores(topology: sl.Topology) -> list[str]:
    return [store.name for part in topology.subtopologies for store in part.stores]


def built(call: str, function: Callable[..., Any], **more: Any) -> sl.Topology:
    app = sl.App("roles")
    stream = app.stream("in", key=str, value=str).select_key(lambda k, v: v)
    getattr(stream, call)(function, **more)
    return app.topology()


@pytest.mark.parametrize("call", ["process", "process_values"])
@pytest.mark.parametrize("function", [by_annotation, by_generic, ctx, context, Method()])
def test_a_function_with_a_context_has_no_store(call: str, function: Callable[..., Any]) -> None:
    topology = built(call, function)
    assert (stores(topology), topology.repartition_topics) == ([], ())


@pytest.mark.parametrize("call", ["process", "process_values"])
@pytest.mark.parametrize("function", [state, annotated_state, a_dict, typed_dict, both, turned])
def test_a_function_with_a_state_has_one(call: str, function: Callable[..., Any]) -> None:
    topology = built(call, function)
    assert len(stores(topology)) == 1
    assert len(topology.repartition_topics) == 1


def test_an_option_of_state_functions_says_it_whatever_the_name() -> None:
    assert len(stores(built("process", lambda record, seen: None, ttl="1h"))) == 2


def other(record: Any, context: sl.RecordContext) -> None: ...


@pytest.mark.parametrize("call", ["process", "process_values"])
@pytest.mark.parametrize(
    ("function", "named"),
    [
        (lambda record, c: None, "'c'"),
        (lambda record, s, context: None, "'s'"),
        (other, "'context: RecordContext'"),
    ],
)
def test_what_cannot_be_told_is_refused_with_the_rule(
    call: str, function: Callable[..., Any], named: str
) -> None:
    with pytest.raises(
        TopologyError, match=f"give {named} the name 'state' for the dict .*ProcessorContext"
    ):
        built(call, function)
