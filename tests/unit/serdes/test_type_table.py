"""The table of Python's types in docs/reference/serdes.md, which this makes."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar
from uuid import UUID

import attrs
import msgspec
import numpy
import pandas
import pydantic
import pydantic.dataclasses
import pytest

import streamlet as sl
from streamlet.errors import SerdeError

PAGE = Path(__file__).parents[3] / "docs/reference/serdes.md"
HEAD = "| type | as a key and as a value | what is read | what is refused |\n|---|---|---|---|\n"
T = TypeVar("T")
UTC = datetime.UTC


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@dataclass
class Order:
    pieces: int

    def __post_init__(self) -> None:
        if self.pieces < 0:
            raise ValueError("no pieces")


@attrs.frozen
class Crate:
    pieces: int = attrs.field(validator=attrs.validators.ge(0))


class Box(msgspec.Struct, Generic[T]):
    content: T


class Model(pydantic.BaseModel):
    pieces: int = pydantic.Field(ge=0)


@pydantic.dataclasses.dataclass
class Checked:
    pieces: int = pydantic.Field(ge=0)


class Row(TypedDict):
    pieces: int


class Pair(NamedTuple):
    item: str
    pieces: int


UserId = NewType("UserId", str)

#: What the table shows it as, the type, a value, and bytes or a value that are refused.
TYPES: list[tuple[str, Any, Any, Any]] = [
    ("`str`", str, "é", 5),
    ("`int`", int, 7, b"7"),
    ("`float`", float, 0.5, "0.5"),
    ("`bool`", bool, True, 1),
    ("`bytes`", bytes, b"ab", "ab"),
    ("`UUID`", UUID, UUID(int=1), b"1"),
    ("`NewType`", UserId, "ann", 5),
    ("`Annotated[int, Meta(ge=0)]`", Annotated[int, msgspec.Meta(ge=0)], 7, -1),
    ("`Literal`", Literal["a", "b"], "a", b'"c"'),
    ("`Enum`", Colour, Colour.RED, b'"blue"'),
    ("`IntEnum`", Level, Level.LOW, b"2"),
    ("`Decimal`", Decimal, Decimal("1.50"), 1.5),
    ("`date`", datetime.date, datetime.date(2026, 1, 31), b'"31.1.2026"'),
    ("`datetime`", datetime.datetime, datetime.datetime(2026, 1, 31, tzinfo=UTC), b'"now"'),
    ("`timedelta`", datetime.timedelta, datetime.timedelta(seconds=5), b'"5s"'),
    ("dataclass", Order, Order(1), b'{"pieces":-1}'),
    ("attrs class", Crate, Crate(1), b'{"pieces":-1}'),
    ("`msgspec.Struct`, generic", Box[int], Box(1), b'{"content":"a"}'),
    ("pydantic model", Model, Model(pieces=1), b'{"pieces":-1}'),
    ("pydantic dataclass", Checked, Checked(1), b'{"pieces":-1}'),
    ("`TypedDict`", Row, {"pieces": 1}, b'{"pieces":"a"}'),
    ("`NamedTuple`", Pair, Pair("lamp", 1), b'["lamp"]'),
    ("`tuple[int, str]`", tuple[int, str], (1, "a"), b"[1]"),
    ("`set[int]`", set[int], {1}, b'["a"]'),
    ("`dict[str, int]`", dict[str, int], {"a": 1}, b'{"a":"b"}'),
    ("`int | str`", int | str, 1, b"1.5"),
]


def row(shown: str, of: Any, value: Any, wrong: Any) -> str:
    """The line of a type, after a look at what it does."""
    app = sl.App("types")
    as_key = app.stream("keys", key=of, value=bytes)._key.needed("stream()", "key")
    as_value = app.stream("values", key=bytes, value=of)._value.needed("stream()", "value")
    raw = as_key.encode(value)
    assert as_value.encode(value) == raw
    again = as_value.decode(raw)
    assert (again, type(again)) == (value, type(value))
    refused = wrong if isinstance(wrong, bytes) and of is not bytes else None
    with pytest.raises(SerdeError):
        as_value.encode(wrong) if refused is None else as_value.decode(refused)
    written = f"`{raw!r}`" if type(value) in (int, float, bool) else f"`{raw.decode()}`"
    what = f"`{wrong!r}`" if refused is None else f"`{refused.decode()}` when it is read"
    return f"| {shown} | {written} | `{type(again).__name__}` | {what} |\n".replace(
        " | str` |", " \\| str` |", 1
    )


def test_the_table_of_types_says_what_each_does() -> None:
    assert HEAD + "".join(row(*one) for one in TYPES) in PAGE.read_text()


@pytest.mark.parametrize(
    ("of", "value", "hint"),
    [
        (int, numpy.int64(3), r"call its \.item\(\)"),
        (float, numpy.float32(3), r"call its \.item\(\)"),
        (bool, numpy.bool_(True), r"call its \.item\(\)"),
        (datetime.datetime, pandas.Timestamp("2026-01-31"), r"call its \.to_pydatetime\(\)"),
        (datetime.timedelta, pandas.Timedelta(1, "s"), r"call its \.to_pytimedelta\(\)"),
        (sl.json(), {"a": numpy.int64(3)}, "numpy.int64 is unsupported"),
        (int, pandas.NA, "expected int, got NAType"),
    ],
)
def test_scalars_of_numpy_and_pandas_are_refused_at_the_record(
    of: Any, value: Any, hint: str
) -> None:
    with pytest.raises(SerdeError, match=hint):
        sl.serde(of).encode(value)
