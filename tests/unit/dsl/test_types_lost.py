"""Where a type is needed and not known, the error says at which call and what to pass."""

from __future__ import annotations

from collections.abc import Callable
from queue import Queue
from typing import Any

import pytest

import streamlet as sl
from streamlet.app import App
from streamlet.dsl.stream import KStream
from streamlet.errors import TopologyError

Build = Callable[[KStream[str, str], App], Any]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda s, a: s.map_values(lambda v: v + v).to("out"),
            "to('out') writes values, but their type is not known after map_values(): "
            "pass value= to to('out') or to map_values()",
        ),
        (
            lambda s, a: s.group_by(lambda k, v: v[0]).count(),
            "count() writes keys, but their type is not known after group_by(): "
            "pass key= to group_by()",
        ),
        (
            lambda s, a: s.map_values(lambda v: v + v).group_by(lambda k, v: "x").count(),
            "group_by() writes values, but their type is not known after map_values(): "
            "pass value= to group_by() or to map_values()",
        ),
        (
            lambda s, a: s.select_key(lambda k, v: v[0]).join(
                a.table("t", key=str, value=str), lambda v, row: row
            ),
            "join() writes keys, but their type is not known after select_key(): "
            "pass key= to select_key()",
        ),
        (
            lambda s, a: s.merge(s.map_values(len)).to("out"),
            "to('out') writes values, but their type is not known after merge() "
            "(the values of its streams are str and int): "
            "pass value= to to('out') (for example value=str), make the streams alike before, "
            "or give App(value=...) as the default",
        ),
        (
            lambda s, a: s.merge(s.select_key(lambda k, v: 1, key=int)).group_by_key().count(),
            "count() writes keys, but their type is not known after merge() "
            "(the keys of its streams are str and int): "
            "pass key= to a repartition() before it",
        ),
        (
            lambda s, a: s.merge(s.map_values(lambda v: v + v)).to("out"),
            "to('out') writes values, but their type is not known after map_values(): "
            "pass value= to to('out') or to map_values()",
        ),
        (
            lambda s, a: s.map_values(Queue).to("out"),
            "not known after map_values() (no JSON for Queue",
        ),
    ],
)
def test_the_error_names_the_call_and_the_remedy(build: Build, message: str) -> None:
    app = App("a")
    with pytest.raises(TopologyError) as refused:
        build(app.stream("in", key=str, value=str), app)
    assert message in str(refused.value)


def test_a_type_that_has_no_serde_is_refused_where_it_is_given() -> None:
    with pytest.raises(TopologyError, match=r"stream\('in'\), value=: no serde for object"):
        App("a").stream("in", key=str, value=object)
    customers: Any = sl.debezium(str, dict)
    with pytest.raises(TopologyError, match=r"value=: .* call its stream\(app, topic\) or table"):
        App("a").table("in", key=str, value=customers)
    stream = App("a").stream("in", key=str, value=str)
    with pytest.raises(TopologyError, match=r"to\('out'\), value=: no serde for str \| None"):
        stream.to("out", value=str | None)  # type: ignore[arg-type]


def test_nothing_is_asked_where_nothing_is_written() -> None:
    stream = App("a").stream("in", key=str, value=str)
    stream.map_values(lambda v: v + v).map(lambda k, v: (v[0], v)).peek(print)
    stream.merge(stream.map_values(len)).foreach(print)  # type: ignore[arg-type]


def test_an_annotation_is_enough() -> None:
    def initial(key: str, value: str) -> str:
        return value[0]

    def pair(key: str, value: str) -> tuple[str, int] | None:
        return (value, 1)

    stream = App("a").stream("in", key=str, value=str)
    stream.group_by(initial).count().to_stream().to("out")
    stream.map(pair).to("out")  # type: ignore[arg-type]
