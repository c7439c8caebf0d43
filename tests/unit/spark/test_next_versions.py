"""A query that goes on with a checkpoint as the next version of its program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import make_dataclass
from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import StateError
from streamlet.spark.checkpoint import compare, described
from streamlet.spark.plan.plan import SparkPlan, plan
from tests.unit.dsl.deployments import TYPES
from tests.unit.spark.staged import Record, StagedQuery

Build = Callable[[sl.App], object]

#: The applications that tests make, by the names under which workers find them.
_VERSIONS: dict[str, sl.App] = {}


def __getattr__(name: str) -> sl.App:
    """An application, for workers that ask the module."""
    if name not in _VERSIONS:
        raise AttributeError(name)
    return _VERSIONS[name]


def version(build: Build) -> SparkPlan:
    """The plan of one version of a program."""
    app = sl.App("deployed")
    build(app)
    name = f"version_{len(_VERSIONS)}"
    _VERSIONS[name] = app
    return plan(f"{__name__}:{name}", app.topology(), {"in": 1, "out": 1})


def facts(laid_out: SparkPlan) -> dict[str, Any]:
    _, name = laid_out.reference.split(":")
    return described(_VERSIONS[name].topology(), laid_out)


def deployed(before: Build, after: Build) -> list[Record]:
    """The output of a second record, by the next version over the first one's checkpoint."""
    old, new = StagedQuery(version(before)), StagedQuery(version(after))
    old.batch([("in", "a", '{"customer":"ann","item":"lamp"}', 1)])
    compare(facts(old.plan), facts(new.plan), "here")
    new._kept, new._offsets, new._number = old._kept, old._offsets, old._number
    return new.batch([("in", "a", '{"customer":"bob","item":"desk"}', 2)])


def newest(value: Any, seen: list[Any], **more: Any) -> Build:
    """A program that keeps the newest order of each key, and notes the one before it."""

    def build(app: sl.App) -> None:
        def step(key: str, order: Any, kept: Any) -> Any:
            seen.append(kept)
            return {**order, **more} if more else order

        orders = app.stream("in", key=str, value=value).group_by_key()
        kept = orders.aggregate(lambda: None, step, store="newest", value=value)
        kept.to_stream().map_values(lambda order: "sent", value=str).to("out")

    return build


@pytest.mark.parametrize("kind", TYPES)
def test_rows_of_before_are_read_with_other_fields(kind: str) -> None:
    before, after = TYPES[kind]
    seen: list[Any] = []
    assert deployed(newest(before, []), newest(after, seen)) == [("out", "a", "sent", 2)]
    assert [(type(one), one.customer, one.item) for one in seen] == [(after, "ann", "lamp")]


def within(module: str) -> Any:
    order = make_dataclass("Order", [("customer", str), ("item", str)])
    order.__module__ = module
    return list[order]  # type: ignore[valid-type]


def kept_as(value: Any, empty: Any) -> Build:
    """A program whose store has values of a type."""

    def build(app: sl.App) -> None:
        orders = app.stream("in", key=str, value=dict).group_by_key()
        orders.aggregate(lambda: empty, lambda key, order, kept: kept, store="kept", value=value)

    return build


def avro_of(*fields: str) -> Any:
    named = [{"name": name, "type": "string", "default": ""} for name in fields]
    return sl.avro({"type": "record", "name": "Order", "fields": named})


def test_a_class_in_a_container_may_move_to_another_module() -> None:
    assert deployed(kept_as(within("shop"), []), kept_as(within("sales"), [])) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (kept_as(int, 0), kept_as(str, "")),
        (kept_as(avro_of("a"), {}), kept_as(avro_of("a", "b"), {})),
        (kept_as(list[int], []), kept_as(list[str], [])),
    ],
    ids=["another type", "another avro schema", "another container"],
)
def test_other_types_in_a_store_are_refused(before: Any, after: Any) -> None:
    with pytest.raises(StateError, match="checkpoint here: subtopology 0 has changed"):
        deployed(before, after)


def test_functions_may_change() -> None:
    seen: list[Any] = []
    assert deployed(newest(dict, []), newest(dict, seen, more=1)) == [("out", "a", "sent", 2)]
    assert seen == [{"customer": "ann", "item": "lamp"}]
