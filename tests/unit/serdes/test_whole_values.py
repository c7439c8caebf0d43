"""Values whose parts are not of their types: refused at the record, or the same on disk."""

from __future__ import annotations

import datetime as dt
import enum
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import pytest

import streamlet as sl
from streamlet.errors import ProcessingError, SerdeError
from streamlet.serdes import ColumnError, serde
from streamlet.serdes.json_types import describe, has_demands, parts
from streamlet.state.memory import MemoryBacking
from streamlet.state.store import CachedStore
from streamlet.testing import TopologyTestDriver
from tests.unit.serdes.test_types import WHOLE


class Color(enum.Enum):
    RED = "red"


@dataclass(frozen=True)
class Inner:
    n: int
    x: float | None = None


@dataclass(frozen=True)
class Outer:
    inner: Inner
    many: tuple[Inner, ...] = ()
    pair: tuple[int, str] = (0, "")
    either: int | str | Inner = 0
    word: Literal["a", "b"] = "a"
    color: Color = Color.RED
    when: dt.datetime | None = None
    price: Decimal | None = None
    names: frozenset[str] = frozenset()


@dataclass
class Changing:
    lines: list[Inner] = field(default_factory=list)
    by_name: dict[str, list[int]] = field(default_factory=dict)
    by_number: dict[int, float] = field(default_factory=dict)
    next: Changing | None = None


@dataclass
class Free:
    n: int
    more: dict[str, Any] = field(default_factory=dict)
    some: Any = None


class Shade(enum.StrEnum):
    DARK = "dark"


@dataclass
class Tree:
    """A type that contains itself in a list, with whatever beside it."""

    branches: list[Tree] = field(default_factory=list)
    by_name: dict[str, Tree] = field(default_factory=dict)
    more: Any = None


@dataclass(frozen=True)
class Bush:
    branches: tuple[Bush, ...] = ()


class Struct(msgspec.Struct, frozen=True):
    inner: Inner


@attrs.frozen
class Defined:
    inner: Inner


class Named(NamedTuple):
    a: int
    inner: Inner = Inner(1)


class Typed(TypedDict, total=False):
    inner: Inner
    n: int


def bad(value: Any) -> Any:
    return value


def below(depth: int, value: Any) -> Any:
    """A value in so many lists."""
    for _ in range(depth):
        value = [value]
    return value


WRONG: dict[str, tuple[Any, Any]] = {
    "text in a nested int": (Outer, Outer(Inner(bad("1")))),
    "text in an int of a tuple": (Outer, Outer(Inner(1), (Inner(1), Inner(bad("a"))))),
    "float in a place of a tuple": (Outer, Outer(Inner(1), pair=(bad(1.5), ""))),
    "a place too many": (Outer, Outer(Inner(1), pair=bad((1, "", 3)))),
    "none of several types": (Outer, Outer(Inner(1), either=bad(1.5))),
    "within one of several types": (Outer, Outer(Inner(1), either=Inner(bad("a")))),
    "another word": (Outer, Outer(Inner(1), word=bad("c"))),
    "a name for a color": (Outer, Outer(Inner(1), color=bad("green"))),
    "seconds in an offset": (
        Outer,
        Outer(Inner(1), when=dt.datetime(1890, 1, 1, tzinfo=ZoneInfo("Europe/Berlin"))),
    ),
    "text for a time": (Outer, Outer(Inner(1), when=bad("noon"))),
    "a number in names": (Outer, Outer(Inner(1), names=frozenset({bad(1)}))),
    "a list for a tuple": (Outer, Outer(Inner(1), many=bad([Inner(1)]))),
    "text that is a time": (Outer, Outer(Inner(1), when=bad("2024-01-01T00:00:00"))),
    "a nested NaN": (Outer, Outer(Inner(1, math.nan))),
    "None for an int": (Outer, Outer(Inner(bad(None)))),
    "another class": (Outer, Outer(bad(Struct(Inner(1))))),
    "text in a list": (Changing, Changing(lines=[Inner(bad("a"))])),
    "text in a dict": (Changing, Changing(by_name={"a": [1, bad("x")]})),
    "infinity in a dict": (Changing, Changing(by_number={1: math.inf})),
    "below itself": (Changing, Changing(next=Changing(next=Changing(by_name={"a": bad(3)})))),
    "a struct": (Struct, Struct(Inner(bad("a")))),
    "an attrs class": (Defined, Defined(Inner(bad("a")))),
    "a named tuple": (Named, Named(1, Inner(bad("a")))),
    "a typed dict": (Typed, Typed(inner=Inner(bad("a")))),
    "a dict": (dict[str, int], {"a": bad("1")}),
    "lists": (list[list[int]], [[1], [bad("a")]]),
}
#: Of these a store would keep another value than memory does.
LOST: dict[str, tuple[Any, Any]] = {
    "a set in a dict": (Free, Free(1, {"tags": {"a"}})),
    "bytes in a list": (Free, Free(1, some=[b"a"])),
    "keys that are numbers": (Free, Free(1, {"a": {1: "a"}})),
    "a set below Any": (dict[str, Any | int], {"a": [{"b": {1}}]}),
    "a NaN below Any": (Free, Free(1, {"a": [math.nan]})),
    "in a list of Any": (list[Any], [1, {2}]),
    "a set in an object below Any": (Free, Free(1, {"a": Free(2, some={1})})),
}
#: Documents of no type that would lose something, each with one that does not.
OPEN: dict[str, tuple[Any, Any, Any]] = {
    "a set": (dict, {"a": {1}}, {"a": [1]}),
    "a frozenset in a list": (dict, {"a": [1, frozenset({1})]}, {"a": [1, (2,)]}),
    "bytes": (dict, {"a": b"a"}, {"a": "a"}),
    "a bytearray in a dict": (dict, {"a": {"b": bytearray(b"a")}}, {"a": {"b": None}}),
    "a number for a name": (dict, {1: "a"}, {"1": "a"}),
    "a nested number for a name": (dict, {"a": [{"b": {True: 1}}]}, {"a": [{"b": {"c": 1}}]}),
    "None for a name": (dict, {"a": {None: 1}}, {"a": Decimal(1)}),
    "text of another class for a name": (dict, {Shade.DARK: 1}, {"a": Shade.DARK}),
    "a set in an object": (dict, {"a": Free(1, some={1})}, {"a": Free(1, some=[1])}),
    "a set in a frozen object": (list, [Inner(1, bad({1}))], [Inner(1), dt.date(2024, 1, 1)]),
    "a set in a struct": (sl.json(), Struct(bad({1})), Struct(Inner(1))),
    "bytes in an attrs class": (sl.json(), [Defined(bad(b"a"))], [Defined(Inner(1)), UUID(int=1)]),
    "bytes behind a large number": (list, [2**64 + 1, b"a"], [2**64 - 1]),
    "far below": (list, below(400, {1}), below(400, 1)),
}
GOOD: dict[str, tuple[Any, Any]] = {
    "whole": (
        Outer,
        Outer(
            Inner(1, 2.5),
            (Inner(2),),
            (1, "a"),
            Inner(3),
            "b",
            Color.RED,
            dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
            Decimal("1.10"),
            frozenset({"a"}),
        ),
    ),
    "an int for a float": (Outer, Outer(Inner(1, 2))),
    "within itself": (Changing, Changing([Inner(1)], {"a": [1]}, {1: 2.0}, Changing())),
    "open": (Free, Free(1, {"a": [1, {"b": None}]}, "null")),
    "typed": (Typed, Typed(n=1)),
    "times": (
        list[dt.datetime | None],
        [
            None,
            dt.datetime(2024, 1, 1),  # noqa: DTZ001 - naive on purpose
            dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
            dt.datetime(2024, 7, 1, tzinfo=ZoneInfo("Europe/Berlin")),
            dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=-3, minutes=-30))),
        ],
    ),
    "a tree": (Tree, Tree([Tree()], {"a": Tree([Tree(more=1)])})),
    "a bush": (Bush, Bush((Bush(), Bush((Bush(),))))),
    "beyond 64 bits": (Inner, Inner(2**63 + 1)),
}


@pytest.mark.parametrize("case", [*WRONG, *LOST])
def test_a_value_that_would_not_return_is_refused(case: str) -> None:
    of, value = {**WRONG, **LOST}[case]
    one: Any = serde(of).as_value
    with pytest.raises(SerdeError):
        one.encode(value)
    with pytest.raises(SerdeError):
        one.encode_rows([value])
    with pytest.raises(ColumnError, match="entry 1"):
        one.encode_column([None, value, value])
    if not one.immutable:
        with pytest.raises(SerdeError):
            one.copy(value)


@pytest.mark.parametrize("as_value", [False, True])
@pytest.mark.parametrize("case", OPEN)
def test_a_document_that_would_not_return_is_refused_wherever_it_is_in_a_column(
    case: str, as_value: bool
) -> None:
    of, value, good = OPEN[case]
    one: Any = serde(of)
    one = one.as_value if as_value else one
    raw = one.encode(good)
    assert one.encode_column([good] * 3) == one.encode_rows([good] * 3) == [raw] * 3
    for encode in (one.encode_column, one.encode_rows):
        for index in range(3):
            column: list[Any] = [good] * 3
            column[index] = value
            with pytest.raises(ColumnError, match=f"entry {index}: ") as refused:
                encode(column)
            assert refused.value.done == [raw] * index
    with pytest.raises(SerdeError):
        one.encode(value)


@pytest.mark.parametrize("case", [name for name in WRONG if WRONG[name][0] is Outer])
def test_so_is_a_key_on_its_way_to_a_topic(case: str) -> None:
    of, value = WRONG[case]
    app = sl.App("whole")
    app.stream("in", key=str, value=str).select_key(lambda k, v: value, key=of).to("out")
    with TopologyTestDriver(app) as driver, pytest.raises(ProcessingError):
        driver.pipe_input("in", "a", "b")


@pytest.mark.parametrize("case", GOOD)
def test_a_value_of_its_types_is_taken_as_it_is(case: str) -> None:
    of, value = GOOD[case]
    keys: Any = serde(of)
    for one in (keys, keys.as_value):
        raw = one.encode(value)
        assert one.decode(raw) == value
        assert one.encode_column([value, None]) == one.encode_rows([value, None]) == [raw, None]
        assert one.copy(value) == value


@pytest.mark.parametrize("value", [Free(1, {"a": (1, 2)}), Free(1, some=dt.date(2024, 1, 1))])
def test_what_json_knows_in_another_form_is_the_same_in_memory_and_on_disk(value: Free) -> None:
    one: Any = serde(Free).as_value
    store: Any = CachedStore("s", serde(str), one, MemoryBacking())
    copied = one.copy(value)
    store.put("a", copied, 0)
    columns = store.commits.drain()
    assert [one.decode(raw[8:] if raw[:1] != b"{" else raw) for raw in columns.values] == [copied]


Stream = sl.KStream[str, str]
PLACES: dict[str, Callable[[Stream, Any, Any], object]] = {
    "topic": lambda s, of, f: s.map_values(f, value=of).to("out"),
    "repartition": lambda s, of, f: s.map_values(f, value=of).repartition().foreach(print),
    "to_table": lambda s, of, f: s.map_values(f, value=of).to_table(store="t"),
    "aggregate": lambda s, of, f: s.group_by_key().aggregate(
        lambda: None, lambda k, v, a: f(v), value=of
    ),
    "window": lambda s, of, f: (
        s.group_by_key()
        .windowed_by(sl.tumbling("1m"))
        .aggregate(lambda: None, lambda k, v, a: f(v), value=of)
    ),
    "table": lambda s, of, f: s.to_table().map_values(f, value=of, store="m"),
    "store": lambda s, of, f: s.process_values(
        lambda record, context: context.store("own").put(record.key, f(record.value)),
        stores=[sl.key_value_store("own", key=str, value=of)],
    ),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", ["text in a nested int", "text in a list", "a list for a tuple"])
def test_the_record_is_skipped_in_each_place(place: str, case: str) -> None:
    of, value = WRONG[case]
    app = sl.App("whole", on_error="skip")
    PLACES[place](app.stream("in", key=str, value=str), of, lambda text: value)
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", "b")
        assert driver.skipped() == 1


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", ["a set", "a nested number for a name", "a set in an object"])
def test_what_is_skipped_of_documents_does_not_depend_on_batches(
    case: str, place: str, together: bool
) -> None:
    of, lost, good = OPEN[case]
    app = sl.App("whole", on_error="skip")
    stream = app.stream("in", key=str, value=str)
    PLACES[place](stream, of, lambda text: lost if text == "lost" else good)
    records: list[Any] = [(f"k{at}", "lost" if at % 3 == 1 else "good") for at in range(9)]
    with TopologyTestDriver(app) as driver:
        if together:
            driver.pipe_inputs("in", records)
        else:
            for key, value in records:
                driver.pipe_input("in", key, value)
        assert driver.skipped() == 3
        if place == "topic":
            assert [one.key for one in driver.read_output("out")] == [
                key for key, value in records if value == "good"
            ]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", LOST)
def test_a_row_that_would_lose_something_is_skipped(place: str, case: str) -> None:
    of, value = LOST[case]
    app = sl.App("whole", on_error="skip")
    PLACES[place](app.stream("in", key=str, value=str), of, lambda text: value)
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", "b")
        assert driver.skipped() == 1


@pytest.mark.parametrize(("of", "value"), [*WHOLE, *GOOD.values()])
def test_the_types_of_good_values_settle_it(of: Any, value: Any) -> None:
    """None of them is written and read back to find out, which takes several times as long."""
    keys = serde(of)
    for one in (keys, keys.as_value):
        if one is not None:
            assert one.survives is None or one.survives([value, value])
            assert one.encode_all is not None
            if not has_demands(parts(describe(of))):  # these are asked of each value
                assert len(one.encode_all([value, value])) == 2  # else it raises


@pytest.mark.parametrize("word", [["a"], {}, {1}])
def test_a_key_that_cannot_be_looked_at_is_one_for_the_policy(word: Any) -> None:
    key = Outer(Inner(1), word=word)
    app = sl.App("whole", on_error="skip")
    app.stream("in", key=str, value=str).select_key(lambda k, v: key, key=Outer).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", "b")
        assert driver.skipped() == 1


def test_values_as_they_were_read_are_written_without_a_look() -> None:
    app = sl.App("whole")
    app.stream("in", key=str, value=Outer).filter(lambda k, v: True).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", Outer(Inner(1, 2)))
        assert driver.read_output("out")[0].value == Outer(Inner(1, 2.0))


@dataclass
class Shape:
    name: str


@dataclass
class Circle(Shape):
    radius: int


@dataclass
class Drawing:
    shapes: dict[str, list[Shape]]


def test_an_object_with_more_fields_than_its_annotation_is_refused() -> None:
    """It came back without them: from a topic, and out of a store's memory."""
    of = serde(Drawing)
    kept = Drawing({"a": [Shape("dot")]})
    for form in (of, of.as_value or of):
        assert form.copy(kept) == form.decode(form.encode(kept)) == kept
    for lost in (Drawing({"a": [Circle("sun", 3)]}), Drawing({"a": [], "b": [Circle("sun", 3)]})):
        for write in ((of.as_value or of).encode, (of.as_value or of).copy, of.encode_whole):
            assert write is not None
            with pytest.raises(SerdeError, match="a Circle in it would be read back as a Shape"):
                write(lost)
