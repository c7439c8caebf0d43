"""Names of serdes as stores and members note them, without what may change beside the bytes."""

from __future__ import annotations

import datetime as dt
from dataclasses import make_dataclass
from typing import Any, Literal

import pytest

import streamlet as sl
from streamlet.errors import SerdeError
from streamlet.serdes import serde
from streamlet.serdes.marks import former_name, is_noted_as, mark_of


def record(module: str, **fields: type) -> Any:
    """A class ``Order`` of a module."""
    made = make_dataclass("Order", list(fields.items()))
    made.__module__ = module
    return made


def within(order: Any) -> dict[str, Any]:
    """Types with a class in them."""
    return {
        "alone": order,
        "list": list[order],
        "dict": dict[str, order],
        "tuples": tuple[tuple[order, int], ...],
        "union": order | int,
        "with words": dict[str, list[order] | Literal["shop.Order", "a"]],
        "with times": dict[str, order | dt.datetime],
    }


@pytest.mark.parametrize("kind", within(int))
def test_a_class_may_move_to_another_module(kind: str) -> None:
    before, after = (
        serde(within(record(module, n=int))[kind]).name for module in ("shop.orders", "sales.model")
    )
    assert mark_of(before) == mark_of(after)
    assert "orders" not in mark_of(before)
    assert is_noted_as(before, after), "earlier versions noted modules"
    assert is_noted_as(mark_of(before), after)
    assert mark_of(mark_of(before)) == mark_of(before)


def test_other_types_have_other_marks() -> None:
    orders = within(record("shop", n=int))
    marks = [mark_of(serde(of).name) for of in (*orders.values(), int, str, dict, list[int])]
    assert len(set(marks)) == len(marks)
    for at, one in enumerate(marks):
        for other in (*marks[:at], *marks[at + 1 :]):
            assert not is_noted_as(one, other)
    words = [serde(dict[str, Literal[word]]).name for word in ("a.x", "b.x")]  # type: ignore[valid-type]
    assert not is_noted_as(*words), "words are no modules"
    pairs = [f"custom({one}.decode)" for one in ("A", "B")]
    assert not is_noted_as(*pairs), "nor are classes of functions"


def flight(**fields: str) -> dict[str, Any]:
    named = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": "Flight", "fields": named}


def test_avro_serdes_have_their_schema_in_their_names() -> None:
    one = sl.avro(flight(carrier="string"))
    same = {**flight(carrier="string"), "doc": "a flight"}
    assert sl.avro(same).name == one.name, "bytes are the same"
    for other in (
        flight(carrier="bytes"),
        flight(code="string"),
        flight(carrier="string", delay="int"),
    ):
        assert not is_noted_as(one.name, sl.avro(other).name)
        assert not is_noted_as(mark_of(one.name), sl.avro(other).name)
    assert is_noted_as("avro(Flight)", one.name), "earlier versions noted no schema"
    assert not is_noted_as("avro(Order)", one.name)
    assert former_name(f"windowed({one.name}, 5m)") == "windowed(avro(Flight), 5m)"
    with pytest.raises(SerdeError, match=r"^avro\(Flight\): "):
        one.encode({})
