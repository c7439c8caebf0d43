"""Copies in memory share nothing that can change, and are of the same types."""

from __future__ import annotations

import threading
from collections import defaultdict, namedtuple
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import attrs
import msgspec
import pytest

from streamlet.serdes.copies import own, own_column
from streamlet.serdes.windowed import Windowed


@dataclass
class Plain:
    n: int
    inner: list[Any]


@dataclass(slots=True)
class Slotted:
    n: int
    inner: list[Any]


@attrs.define
class Defined:
    n: int
    inner: list[Any]


class Struct(msgspec.Struct):
    n: int
    inner: list[Any]


@dataclass(frozen=True, slots=True)
class FrozenList:
    n: int
    inner: list[Any]


class Own:
    """A class of the user's without a mark."""

    def __init__(self, n: int, inner: list[Any]) -> None:
        self.n, self.inner = n, inner

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and (self.n, self.inner) == (other.n, other.inner)


class Stated(Own):
    """One that says what its state is."""

    def __getstate__(self) -> Any:
        return {"n": self.n, "inner": self.inner}

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)


Named = namedtuple("Named", "n inner")

CLASSES = [Plain, Slotted, Defined, Struct, FrozenList, Own, Stated, Named]


@pytest.mark.parametrize("of", CLASSES)
def test_objects_are_copied_with_all_in_them(of: Any) -> None:
    value = of(1, [{"deep": [2]}])
    copied = own({"a": value})["a"]
    assert copied == value
    assert type(copied) is of
    assert copied is not value
    copied.inner[0]["deep"].append(3)
    assert value.inner == [{"deep": [2]}]


@dataclass(frozen=True)
class Frozen:
    at: datetime
    parts: tuple[int, ...]


class FrozenStruct(msgspec.Struct, frozen=True):
    n: int


class Kind(Enum):
    LIST = [1]  # noqa: RUF012 - an enum's value


FIXED = [
    1,
    "text",
    2.5,
    None,
    b"raw",
    (1, ("a", None)),
    Decimal("1.5"),
    UUID(int=1),
    datetime(2024, 2, 29, tzinfo=UTC),
    Frozen(datetime(2024, 2, 29, tzinfo=UTC), (1, 2)),
    FrozenStruct(1),
    Kind.LIST,
    Windowed("a", 1, 2),
]


@pytest.mark.parametrize("value", FIXED)
def test_what_cannot_change_is_its_own_copy(value: Any) -> None:
    assert own(value) == value
    if not isinstance(value, tuple) or type(value) is Windowed:
        assert own(value) is value
    column = [value, value]
    if type(value) is not tuple:
        assert own_column(column) is column


@pytest.mark.parametrize("value", [{"a": [1]}, [[1]], ({"a": 1},), {1, 2}, bytearray(b"raw")])
def test_containers_are_copied(value: Any) -> None:
    (copied,) = own_column([value])
    assert copied == value
    assert copied is not value
    assert type(copied) is type(value)


def test_a_subclass_stays_one() -> None:
    copied = own(defaultdict(list, {"a": [1]}))
    copied["b"].append(2)
    assert copied == {"a": [1], "b": [2]}


def test_a_document_within_itself_is_copied() -> None:
    value: dict[str, Any] = {}
    value["self"] = value
    assert own(value) is not value
    one = Own(1, [])
    one.inner.append(one)
    copied = own(one)
    assert copied.inner[0] is copied
    assert copied is not one


def test_what_cannot_be_copied_is_passed_on() -> None:
    lock = threading.Lock()
    assert own({"lock": lock})["lock"] is lock
    generator = (n for n in [1])
    assert own(generator) is generator
