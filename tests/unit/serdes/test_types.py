"""Python's types: each is carried whole, by the record, by the column and by a store, or refused.

The fields of the classes here have names of their own beyond ASCII, so that nothing writes one
before the serde under test reads it.
"""

from __future__ import annotations

import datetime as dt
import enum
import math
import os
import subprocess
import sys
import typing
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    TypedDict,
    TypeVar,
)

import attrs
import msgspec
import pytest

from streamlet.serdes import serde
from streamlet.state.memory import MemoryBacking
from streamlet.state.store import CachedStore

T = TypeVar("T")
UTC = dt.UTC
BERLIN = dt.timezone(dt.timedelta(hours=2))


@dataclass
class Data:
    größe: float
    maß: int = 0
    tags: list[str] = field(default_factory=list)
    later: int = field(init=False, default=0)
    _private: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    höhe: int
    region: str = "eu"


@dataclass(frozen=True)
class Frozen:
    länge: int
    region: str = "eu"
    weight: float | None = None


def _frozen(tags: Iterable[str]) -> frozenset[str]:
    return frozenset(tags)


@attrs.define
class Defined:
    straße: str
    tags: frozenset[str] = attrs.field(factory=frozenset, converter=_frozen)
    number: int = attrs.field(alias="no", default=0)


@attrs.frozen(slots=False)
class Open:
    öffnung: int
    region: str = "eu"


class Struct(msgspec.Struct, frozen=True):
    tür: int
    region: str = "eu"


class Renamed(msgspec.Struct, rename={"first": "größter"}):
    first: str
    second: float = 0.0


class Tight(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    a: int = 0
    b: str | None = None


class Row(msgspec.Struct, array_like=True):
    a: int
    b: str = "x"


class Made(msgspec.Struct, tag="gemäß", tag_field="vorgänge"):
    id: int


class Gone(msgspec.Struct, tag="gelöscht", tag_field="vorgänge"):
    id: int


class Pair(NamedTuple):
    a: int
    b: str = "x"


class Typed(TypedDict):
    fläche: float
    note: typing.NotRequired[str]


class Kind(enum.Enum):
    A = "ä"
    B = "b"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@dataclass
class Page(Generic[T]):
    items: list[T]
    next: Page[T] | None = None


class Sheet(msgspec.Struct, Generic[T]):
    items: list[T]


@dataclass(frozen=True)
class Nested:
    inner: Frozen
    when: dt.datetime | None = None
    pairs: tuple[Pair, ...] = ()


Name = NewType("Name", str)
Above = Annotated[int, msgspec.Meta(gt=0)]

WHOLE: list[tuple[Any, Any]] = [
    (Data, Data(1.5, 2, ["a"], _private=3)),
    (Slots, Slots(höhe=1)),
    (Frozen, Frozen(1)),
    (Defined, Defined("a", frozenset("xyz"), no=4)),
    (Open, Open(1)),
    (Struct, Struct(1)),
    (Renamed, Renamed("a")),
    (Tight, Tight()),
    (Row, Row(1)),
    (Made | Gone, Gone(1)),
    (list[Made | Gone], [Made(1), Gone(2)]),
    (Pair, Pair(1)),
    (Typed, {"fläche": 1.0}),
    (Kind, Kind.A),
    (Rights, Rights.READ | Rights.WRITE),
    (Literal["ä", "b"], "ä"),
    (Page[int], Page([1], Page([2]))),
    (Page, Page(["a"])),
    (Sheet[str], Sheet(["a"])),
    (Nested, Nested(Frozen(1), dt.datetime(2024, 1, 1, 12, tzinfo=BERLIN), (Pair(1),))),
    (Name, Name("a")),
    (Above, 3),
    (Annotated[str, "a note"], "a"),
    (Annotated[list[int], msgspec.Meta(min_length=1)], [1]),
    (list[Name], [Name("a")]),
    (Final[int], 1),
    (set[Kind], {Kind.A, Kind.B}),
    (frozenset[Frozen], frozenset({Frozen(1), Frozen(2)})),
    (set[int | str], {1, "a"}),
    (dict[int, int], {2: 1, 10: 2}),
    (dict[Kind, set[str]], {Kind.B: {"y", "x"}, Kind.A: set()}),
    (dict[str, dict[str, int]], {"b": {"d": 1, "c": 2}, "a": {}}),
    (int | str, "a"),
    (list[int | None], [1, None]),
    (tuple[int, str], (1, "a")),
    (Decimal, Decimal("1.10")),
    (dt.date, dt.date(2024, 1, 2)),
    (dt.time, dt.time(1, 2, 3, 4)),
    (dt.datetime, dt.datetime(2024, 1, 2)),  # noqa: DTZ001 - naive on purpose
    (dt.datetime, dt.datetime(2024, 1, 2, tzinfo=BERLIN)),
    (dt.timedelta, dt.timedelta(days=-3, microseconds=7)),
    (uuid.UUID, uuid.UUID(int=5)),
    (bytes, b"\x00\xff"),
    (float, math.inf),
]


@pytest.mark.parametrize(("of", "value"), WHOLE)
def test_a_type_is_carried_whole(of: Any, value: Any) -> None:
    for one in (serde(of), serde(of).as_value or serde(of)):
        read = one.decode(one.encode(value))
        assert read == value
        assert type(read) is type(value)
        assert one.decode_column(one.encode_column([value, None, value])) == [value, None, value]
        assert serde(of).encode(read) == serde(of).encode(value), "a key has one form"
        backing = MemoryBacking()
        store = CachedStore("s", serde(of), one, backing)
        store.put(value, value)
        columns = store.commits.drain()
        backing.update(columns.keys, columns.values)
        assert CachedStore("s", serde(of), one, backing).get(value) == value


def test_a_field_with_a_name_beyond_ascii_is_read_before_one_was_written() -> None:
    # A process of its own: names are kept by Python, and one that was written once is known.
    code = """
from dataclasses import dataclass
from typing import NamedTuple, TypedDict
import attrs, msgspec
from streamlet.serdes import serde
@dataclass
class A: größe: float; n: int = 0
@attrs.define
class B: maß: float
class C(TypedDict): höhe: float
class D(msgspec.Struct): länge: float
D2 = TypedDict("D2", {"straßen-name": float})
@dataclass
class Outer: änderung: A; übrige: float = 0.0
assert serde(A).decode('{"größe":1.5,"n":2}'.encode()) == A(1.5, 2)
assert serde(B).decode('{"maß":1.5}'.encode()) == B(1.5)
assert serde(C).decode('{"höhe":1.5}'.encode()) == {"höhe": 1.5}
assert serde(D).decode('{"länge":1.5}'.encode()) == D(1.5)
assert serde(D2).decode('{"straßen-name":1.5}'.encode()) == {"straßen-name": 1.5}
raw = '{"übrige":2.5,"änderung":{"größe":1}}'.encode()
assert serde(Outer).decode(raw) == Outer(A(1.0), 2.5)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("of", "forms"),
    [
        (Frozen, ['{"länge":1}', '{ "region":"eu", "länge":1, "weight":null }']),
        (Slots, ['{"höhe":1}', '{"region":"eu","höhe":1}']),
        (Open, ['{"öffnung":1}', '{"region":"eu","öffnung":1}']),
        (Struct, ['{"tür":1}', '{"region":"eu","tür":1}']),
        (Nested, ['{"inner":{"länge":1}}', '{"pairs":[],"inner":{"region":"eu","länge":1}}']),
        (Pair, ["[1]", '[1,"x"]', '[1, "\\u0078"]']),
        (Typed, ['{"note":"n","fläche":1}', '{"fläche":1.0, "note":"n"}']),
        (Tight, ["{}", '{"b":null,"a":0}']),
        (Defined, ['{"straße":"s","tags":["b","a"]}', '{"tags":["a","b"],"straße":"s"}']),
        (dict, ['{"b":1,"a":{"d":1,"c":[]}}', '{"a": {"c":[],"d":1}, "b":1}']),
        (dict[int, float], ['{"2":1,"10":2}', '{"10":2.0,"2":1.0}']),
        (dict[Kind, int], ['{"ä":1,"b":2}', '{"b":2,"ä":1}']),
        (frozenset[int], ["[2,10,1]", "[10,1,2]"]),
        (frozenset[int | str], ['[2,"b",1]', '["b",1,2]']),
        (uuid.UUID, [str(uuid.UUID(int=10**37)), str(uuid.UUID(int=10**37)).upper()]),
    ],
)
def test_equal_keys_have_one_form(of: Any, forms: list[str]) -> None:
    one = serde(of)
    read = one.decode_column([form.encode() for form in forms])
    assert len(set(map(one.encode, read))) == 1
    assert len(set(one.encode_column(read))) == 1
    store = CachedStore("s", one, serde(int), MemoryBacking())
    for number, key in enumerate(read):
        store.put(key, number)
    assert [value for _, value in store.range()] == [len(forms) - 1]


def test_an_int_for_a_float_is_one_key_with_the_float() -> None:
    one = serde(Frozen)
    assert one.encode(Frozen(1, "eu", 2)) == one.encode(Frozen(1, "eu", 2.0))


def test_numbers_that_python_calls_equal_are_other_keys() -> None:
    for of, values in (
        (list, [[1], [True], [1.0]]),
        (float, [0.0, -0.0]),
        (dict, [{}, {"a": None}]),
    ):
        assert len(set(map(serde(of).encode, values))) == len(values)


def test_sets_have_one_form_in_all_processes() -> None:
    code = (
        "import enum; from streamlet.serdes import serde\n"
        "class K(enum.Enum): A='a'; B='b'; C='c'\n"
        "print(serde(set[str]).encode(set('abcdefgh')), serde(set[K]).encode(set(K)),"
        "serde(frozenset[str]).as_value)"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


def test_values_keep_the_order_of_their_dicts() -> None:
    for of in (dict, dict[str, int], Typed):
        value: Any = {"note": "n", "fläche": 1.0} if of is Typed else {"b": 1, "a": 2}
        own: Any = serde(of).as_value
        assert list(own.decode(own.encode(value))) == list(value)
        assert list(serde(of).decode(serde(of).encode(value))) == sorted(value)
