"""JSON serdes: documents, typed values, what they refuse and what may be shared without a copy."""

from __future__ import annotations

import enum
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, TypedDict

import attrs
import msgspec
import pytest

from streamlet.errors import SerdeError
from streamlet.serdes import ColumnError, json, serde

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Delay:
    carrier: str
    minutes: int
    reasons: list[str] = field(default_factory=list)


@attrs.define
class Airline:
    code: str
    founded: datetime
    parent: Airline | None = None


class Plane(msgspec.Struct):
    tail: str
    seats: int = 0


@attrs.frozen
class Route:
    origin: str
    stops: tuple[str, ...] = ()


@dataclass(frozen=True)
class Leg:
    route: Route
    at: datetime | None = None


class Seat(msgspec.Struct, frozen=True):
    row: int


class Cabin(enum.Enum):
    FIRST = "first"


class Bag(TypedDict):
    grams: int


class Gate(NamedTuple):
    terminal: str
    number: int


class Opaque:
    pass


@attrs.define
class Holder:
    inner: list[Opaque]


@pytest.mark.parametrize(
    ("of", "value"),
    [
        (Delay, Delay("AA", 3, ["wind"])),
        (Airline, Airline("AA", datetime(1930, 4, 15, tzinfo=UTC), Airline("B", EPOCH))),
        (Plane, Plane("N1", 180)),
        (Leg, Leg(Route("JFK", ("LAX",)))),
        (dict[str, Delay], {"a": Delay("AA", 1)}),
        (dict[int, float], {1: 1.5}),
        (list[Plane], [Plane("N1")]),
        (tuple[str, int], ("a", 1)),
        (set[int], {1, 2}),
        (Cabin, Cabin.FIRST),
        (Literal["a", "b"], "b"),
        (Bag, {"grams": 5}),
        (Gate, Gate("B", 7)),
        (datetime, datetime(2013, 1, 1, tzinfo=UTC)),
        (str | int, 5),
        (list[int | None], [1, None]),
    ],
)
def test_typed_values_come_back_as_they_were(of: Any, value: object) -> None:
    one = serde(of)
    assert one.decode(one.encode(value)) == value
    assert one.decode_column(one.encode_column([value, None, value])) == [value, None, value]
    assert type(one.decode(one.encode(value))) is type(value)
    assert one.exact is None


@pytest.mark.parametrize(
    ("of", "value"),
    [(dict, {"a": [1, None, {"b": "ü"}], "c": 1.5}), (list, [1, "a", {}]), (dict, {}), (list, [])],
)
def test_documents_come_back_as_they_were(of: Any, value: object) -> None:
    one = serde(of)
    assert one.name == of.__name__
    assert one.decode_column(one.encode_column([value, None])) == [value, None]


@pytest.mark.parametrize(
    ("of", "raw", "reason"),
    [
        (dict, b"[1]", "Expected `object`"),
        (dict, b"null", "Expected `object`"),
        (list, b"{}", "Expected `array`"),
        (dict, b"{", "truncated"),
        (dict, b"", "truncated"),
        (dict, b'{"a":1} {}', "trailing"),
        (dict, b'{"a":"\xff"}', "(?i:utf-8)"),
        (Delay, b'{"carrier":"AA"}', "minutes"),
        (Delay, b'{"carrier":"AA","minutes":"3"}', r"Expected `int`.*\$\.minutes"),
        (dict[str, int], b'{"a":1.5}', "Expected `int`"),
    ],
)
def test_documents_that_do_not_fit_are_refused_with_the_place(
    of: Any, raw: bytes, reason: str
) -> None:
    with pytest.raises(SerdeError, match=rf"cannot decode b.*{reason}"):
        serde(of).decode(raw)
    with pytest.raises(ColumnError, match="entry 1"):
        serde(of).decode_column([None, raw])


@pytest.mark.parametrize(
    "value", [{1: "a"}, {"a": {None: 1}}, {"a": {1, 2}}, {"a": [b"raw"]}, {"a": ({1: 1},)}]
)
def test_a_document_that_would_come_back_as_another_is_refused(value: dict[Any, Any]) -> None:
    with pytest.raises(SerdeError, match="dict: cannot encode"):
        serde(dict).encode(value)
    with pytest.raises(ColumnError, match="entry 0: dict: cannot encode"):
        serde(dict).encode_column([value, {}])


def test_subclasses_are_refused_because_they_would_come_back_as_their_base() -> None:
    class Late(Delay):
        pass

    with pytest.raises(SerdeError, match="expected Delay, got Late"):
        serde(Delay).encode(Late("AA", 1))
    with pytest.raises(SerdeError, match="expected dict, got defaultdict"):
        serde(dict).encode_column([{}, defaultdict(int)])


def test_a_value_of_another_class_is_refused() -> None:
    with pytest.raises(SerdeError, match=r"json\(Delay\): expected Delay, got dict"):
        serde(Delay).encode({"carrier": "AA"})  # type: ignore[arg-type]
    either: Any = str | int
    either = serde(either)
    with pytest.raises(SerdeError, match="expected int or str, got float"):
        either.encode(1.5)


def test_explicit_json_writes_text_where_the_plain_type_writes_kafkas_bytes() -> None:
    assert json(int).encode(7) == b"7"
    assert json(str).encode("a") == b'"a"'
    assert json(str).exact is None
    assert json(float).decode(b"3") == 3.0
    with pytest.raises(SerdeError, match="expected int, got bool"):
        json(int).encode(True)


def test_untyped_json_takes_any_document() -> None:
    any_json = json()
    assert any_json.decode_column([b"1", b'"a"', b"[null]", b"null"]) == [1, "a", [None], None]
    assert any_json.encode_column([1, "a", None]) == [b"1", b'"a"', None]
    assert json(dict[str, Any]).decode(b'{"a":1}') == {"a": 1}


@pytest.mark.parametrize(
    ("of", "message"),
    [
        (Opaque, "cannot carry Opaque"),
        (Holder, "no JSON for Holder: cannot carry Opaque"),
        (dict[str, Opaque], "cannot carry Opaque"),
        (object, r"use json\(\)"),
        (Any, r"use json\(\)"),
        (str | None, "null is a tombstone, not a value; use str"),
        (Delay | None, "use Delay"),
        (str | int | None, r"use str \| int"),
        (3, "expected a type, such as int, a Serde or a pair .*, not a value"),
        ("str", "expected a type, such as str, a Serde"),
        (msgspec.json.decode, "expected a type, a Serde or a pair"),
        (json, r"call it, as json\(\.\.\.\), which gives the Serde"),
        ("str", "expected a type"),
        ((str.encode,), "a pair must be two functions"),
        ((str.encode, 3), "a pair must be two functions"),
        (
            (lambda value, more: b"", bytes),
            r"a pair is called as \(value\), but .* takes \(value, more",
        ),
        ((str.encode, lambda: ""), r"a pair is called as \(raw\), but .*too many positional"),
        (Delay | Airline, "union"),
    ],
)
def test_what_has_no_serde_is_refused_with_advice(of: Any, message: str) -> None:
    with pytest.raises(SerdeError, match=message):
        serde(of)


@pytest.mark.parametrize(
    ("of", "immutable"),
    [
        (Route, True),
        (Leg, True),
        (Seat, True),
        (Cabin, True),
        (Gate, True),
        (tuple[Seat, ...], True),
        (str | int, True),
        (Delay, False),
        (Airline, False),
        (Plane, False),
        (dict, False),
        (list, False),
        (tuple[Delay, int], False),
        (Bag, False),
        (dict[str, int], False),
    ],
)
def test_only_values_frozen_at_every_depth_are_shared(of: Any, immutable: bool) -> None:
    assert serde(of).immutable is immutable


def test_a_copy_shares_nothing() -> None:
    value = Delay("AA", 3, ["wind"])
    copied = serde(Delay).copy(value)
    copied.reasons.append("snow")
    assert value == Delay("AA", 3, ["wind"])
    assert copied == Delay("AA", 3, ["wind", "snow"])


def test_a_ready_serde_is_taken_as_it_is() -> None:
    one = json(int)
    assert serde(one) is one
    assert repr(one) == "Serde(json(int))"


@pytest.mark.parametrize("number", [float("nan"), float("-inf")])
def test_a_number_that_json_lacks_is_no_document_by_itself(number: float) -> None:
    """Written as null it would delete a row."""
    assert json().encode([number]) == b"[null]"
    with pytest.raises(SerdeError, match="JSON has no NaN and no infinity"):
        json().encode(number)
    with pytest.raises(ColumnError) as caught:
        json().encode_column([1.0, None, number])
    assert caught.value.index == 2
