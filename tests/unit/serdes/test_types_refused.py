"""Types and values that JSON would lose something of: refused by name, with the way out."""

from __future__ import annotations

import datetime as dt
import functools
import math
import typing
from collections import Counter, OrderedDict, deque
from dataclasses import InitVar, dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, cast

import attr
import attrs
import msgspec
import numpy
import pydantic
import pytest

from streamlet.errors import SerdeError
from streamlet.serdes import ColumnError, serde
from tests.unit.serdes.test_types import Above, Frozen, Nested, Open


class Base:
    kept = 0


class Model(pydantic.BaseModel):
    a: int


class Other(pydantic.BaseModel):
    b: int


@attrs.define
class Private:
    n: int = 0
    _total: int = 0


@attrs.define(slots=False)
class CachedOpen:
    n: int

    @functools.cached_property
    def double(self) -> int:
        return self.n * 2


@attrs.define
class CachedSlots:
    n: int

    @functools.cached_property
    def double(self) -> int:
        return self.n * 2


@dataclass
class Started:
    n: int = 0
    unit: InitVar[int] = 1


class InitVarMissing:
    """A class whose name has words of msgspec's messages in it."""


class Fraction:
    """A class of a user's, with the name of one of Python's."""


@dataclass
class Absent:
    n: int
    when: dt.datetime = None  # type: ignore[assignment]


@dataclass
class Unlike:
    m: int


@attr.s
class Bare:
    n = attr.ib()


@attrs.define
class OfItself:
    n: int
    m: int = attrs.field(default=attrs.Factory(lambda self: self.n, takes_self=True))


@pytest.mark.parametrize(
    ("of", "message"),
    [
        (Bare, "no JSON for Bare: its attribute 'n' has no annotation"),
        (OfItself, "takes_self=True.*set it in __attrs_post_init__"),
        (Private, "Private has _total: call it total, make Private a dataclass"),
        (CachedOpen, "CachedOpen.double is kept beside the attributes"),
        (CachedSlots, "CachedSlots.double is kept beside the attributes"),
        (Started, "InitVar.*make it a field"),
        (InitVarMissing, "InitVarMissing has no attr|cannot carry InitVarMissing; use a dataclass"),
        (Fraction, "cannot carry Fraction; use a dataclass"),
        (Absent, r"Absent\.when is datetime and its default is None.*datetime \| None"),
        (list[Absent], r"Absent\.when"),
        (vars(typing)["TypedDict"]("Numbered", {1: int}), "1 of Numbered is no text"),
        (dict[tuple[int, int], int], "names of a JSON object.*not vartuple|not tuple"),
        (dict[int | str, int], r"not (int \| str|str \| int); use a list of pairs"),
        (dict[bool, int], "not bool"),
        (deque[int], "cannot carry deque.*; use list in its place"),
        (OrderedDict[str, int], "cannot carry OrderedDict.*; use dict in its place"),
        (Counter[str], "cannot carry Counter"),
        (numpy.int64, "cannot carry int64; use int in its place"),
        (Base, "cannot carry Base"),
        (Enum("Mixed", {"A": 1, "B": "b"}), "all int values.*; give it values of one of the two"),
        (Absent | Unlike, "; use structs of msgspec with tag=True"),
        (str | dt.datetime, "one str-like type.*; use str, and convert it, or a pair"),
        (Model | Other, "RootModel of it, or use structs"),
        (Annotated[int | None, "note"], "null is a tombstone.*use int"),
    ],
)
def test_a_type_that_would_lose_something_is_refused_by_name(of: Any, message: str) -> None:
    with pytest.raises(SerdeError, match=message):
        serde(of)


@dataclass(frozen=True)
class Number:
    x: float = 0.0
    label: str = ""


@dataclass(frozen=True)
class Maybe:
    x: float | None = None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Number(math.nan), "no NaN and no infinity"),
        (Number(math.inf), "no NaN and no infinity"),
        (Maybe(math.inf), "no NaN and no infinity"),
        (Nested(Frozen(1, "eu", -math.inf)), "no NaN and no infinity"),
        (Number(1.0, cast(Any, None)), r"could not be read back.*\$\.label"),
    ],
)
def test_a_value_that_could_not_be_read_again_is_refused(value: Any, message: str) -> None:
    good: Any = {Number: Number(), Maybe: Maybe(), Nested: Nested(Frozen(1))}[type(value)]
    for one in (serde(type(value)), serde(type(value)).as_value or serde(type(value))):
        with pytest.raises(SerdeError, match=message):
            one.encode(value)
        with pytest.raises(ColumnError, match=f"entry 1: .*({message})"):
            one.encode_column([good, value])


def test_the_word_null_in_a_text_is_no_number() -> None:
    for value in (Number(1.0, "null"), Maybe(None)):
        one = serde(type(value))
        assert one.decode(one.encode(value)) == value


def test_what_an_annotation_demands_is_asked_of_each_value() -> None:
    some: Any = Annotated[list[int], msgspec.Meta(min_length=1)]
    one, many = serde(Above), serde(some)
    assert one.encode(3) == serde(int).encode(3)
    for call in (
        lambda: one.encode(0),
        lambda: one.decode(serde(int).encode(-1)),
        lambda: many.encode([]),
        lambda: many.decode(b"[]"),
    ):
        with pytest.raises(SerdeError, match="Expected"):
            call()
    with pytest.raises(ColumnError, match="entry 1"):
        one.encode_column([1, 0])
    with pytest.raises(ColumnError, match="entry 1"):
        one.decode_column([bytes(7) + b"\x01", bytes(8)])


@dataclass
class Set:
    n: int = 3
    made: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.made += self.n


def test_classes_are_as_before_when_their_serde_is_made() -> None:
    own = Set.__post_init__
    one = serde(Set)
    assert Set.__post_init__ is own
    assert "__post_init__" not in vars(Frozen)
    assert "__attrs_post_init__" not in vars(Open)
    assert one.decode(b"{}") == Set()
    assert vars(serde(Frozen).decode('{"länge":1}'.encode())) == vars(Frozen(1))


@pytest.mark.parametrize(
    "value",
    [
        Number(cast(Any, "a")),
        Number(1.0, cast(Any, 5)),
        Maybe(cast(Any, "a")),
        Number(cast(Any, Decimal(1))),
        Number(True),
    ],
)
def test_a_field_of_another_type_is_refused_where_it_is_kept(value: Any) -> None:
    """Python sets a field to anything; after a restart such a row could not be read."""
    own: Any = serde(type(value)).as_value
    good = type(value)()
    assert own.encode_rows([good, None, good]) == own.encode_column([good, None, good])
    with pytest.raises(ColumnError, match=r"entry 2: .*could not be read back: Expected"):
        own.encode_rows([good, None, value])
    with pytest.raises(SerdeError, match="could not be read back"):
        own.encode(value)
