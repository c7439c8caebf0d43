"""What can be told of a user's function without calling it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import attrs
import pytest

from streamlet.dsl.graph.functions import check_takes, takes
from streamlet.dsl.graph.inference import UNKNOWN, element_type, pair_types, result_type
from streamlet.errors import TopologyError


@dataclass
class Plane:
    seats: int


@attrs.frozen
class Flight:
    carrier: str
    delay: float | None
    plane: Plane

    @property
    def late(self) -> bool:
        return bool(self.delay)

    def code(self) -> str:
        return self.carrier


def annotated(key: str, value: Flight) -> Plane:
    return value.plane


def unannotated(key, value):  # type: ignore[no-untyped-def]
    return {"carrier": value.carrier}


def unreadable(key: str, value: Flight) -> NotThere:  # type: ignore[name-defined]  # noqa: F821
    ...


class Callable_:
    def __call__(self, key: str, value: Flight) -> int:
        return 1


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (annotated, Plane),
        (unannotated, dict),
        (functools.partial(annotated, "k"), Plane),
        (Callable_(), int),
        (Callable_().__call__, int),
        (Plane, Plane),
        (str.upper, str),
        (len, int),
        (lambda k, f: f.carrier, str),
        (lambda k, f: f.delay, float),
        (lambda k, f: f.plane.seats, int),
        (lambda k, f: f.late, bool),
        (lambda k, f: f, Flight),
        (lambda k, f: k, str),
        (lambda k, f: {"carrier": f.carrier, "delay": f.delay}, dict),
        (lambda k, f: {**f, "more": 1}, dict),
        (lambda k, f: {}, dict),
        (lambda k, f: f"{k} {f.carrier}", str),
        (lambda k, f: "always", str),
        (lambda k, f: f.delay is None, bool),
    ],
)
def test_the_type_of_a_result_is_told(function: Any, expected: type) -> None:
    assert result_type(function, str, Flight) is expected


@pytest.mark.parametrize(
    "function",
    [
        lambda k, f: f.code,
        lambda k, f: f.code(),
        lambda k, f: f.nothing,
        lambda k, f: f.carrier if k else None,
        lambda k, f: f.carrier or "none",
        lambda k, f: None,
        lambda k, f: (yield f.carrier),
        lambda k, f: [x for x in f.carrier],
        lambda k, f: f.plane.seats + 1,
        unreadable,
        max,
    ],
)
def test_what_cannot_be_told_is_unknown(function: Any) -> None:
    assert result_type(function, str, Flight) is UNKNOWN


def test_nothing_is_told_of_attributes_of_an_unknown_type() -> None:
    assert result_type(lambda k, f: f.carrier, str, UNKNOWN) is UNKNOWN
    assert result_type(lambda k, f: f["carrier"], str, dict) is UNKNOWN


def test_elements_and_pairs_of_a_container() -> None:
    assert element_type(list[str]) is str
    assert element_type(Iterator[str | None]) is str
    assert element_type(tuple[int, ...]) is int
    assert element_type(tuple[int, str]) is UNKNOWN
    assert element_type(str) is UNKNOWN
    assert element_type(UNKNOWN) is UNKNOWN
    assert pair_types(tuple[str, int]) == (str, int)
    assert pair_types(tuple[int, ...]) == (UNKNOWN, UNKNOWN)
    assert pair_types(UNKNOWN) == (UNKNOWN, UNKNOWN)


def test_a_function_of_one_or_two_arguments_is_told_apart() -> None:
    def with_default(value: str, times: int = 2) -> str:
        return value * times

    assert takes("map_values()", lambda v: v, "key", "value") == 1
    assert takes("map_values()", lambda k, v: v, "key", "value") == 2
    assert takes("map_values()", with_default, "key", "value") == 1
    assert takes("map_values()", str.upper, "key", "value") == 1
    assert takes("map_values()", int, "key", "value") == 1
    assert takes("map_values()", dict(a=1).get, "key", "value") == 1


def test_a_function_that_takes_something_else_is_refused_by_name() -> None:
    with pytest.raises(
        TopologyError, match=r"filter\(\) calls its function as \(key, value\), but .*annotated"
    ):
        check_takes("filter()", functools.partial(annotated, "k", "v"), "key", "value")
    with pytest.raises(TopologyError, match=r"filter\(\) expects a function, got 3"):
        check_takes("filter()", 3, "key", "value")  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match=r"map_values\(\) calls its function as"):
        takes("map_values()", lambda a, b, c: a, "key", "value")
    with pytest.raises(TopologyError, match=r"map_values\(\) calls its function as \(value\)"):
        takes("map_values()", lambda: 1, "key", "value")
