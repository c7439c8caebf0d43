"""What only pydantic would check is refused where pydantic does not read it."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, NewType

import pydantic
import pydantic.dataclasses
import pytest

import streamlet as sl
from streamlet.errors import SerdeError


@dataclasses.dataclass
class Priced:
    price: pydantic.PositiveInt


@dataclasses.dataclass
class Limited:
    parts: list[Annotated[int, pydantic.Field(ge=0)]]


@dataclasses.dataclass
class Defaulted:
    pieces: int = pydantic.Field(default=1, ge=0)


@pydantic.dataclasses.dataclass
class Checked:
    pieces: pydantic.PositiveInt


@dataclasses.dataclass
class Around:
    inner: Checked


@dataclasses.dataclass
class Described:
    """Notes that demand nothing."""

    pieces: Annotated[int, pydantic.Field(description="how many"), "a note"]
    strict: pydantic.StrictInt = 0


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (pydantic.PositiveInt, r"Gt\(gt=0\) in an Annotated is not checked"),
        (NewType("Price", pydantic.PositiveInt), r"Gt\(gt=0\) in an Annotated is not checked"),
        (list[pydantic.PositiveInt], r"Gt\(gt=0\) in an Annotated is not checked"),
        (Priced, r"Gt\(gt=0\) in an Annotated is not checked"),
        (Limited, r"Ge\(ge=0\).* in an Annotated is not checked"),
        (Defaulted, "the default of Defaulted.pieces is a Field of pydantic"),
        (Around, "Checked is pydantic's, whose checks hold only in JSON"),
        (
            dict[str, Checked],
            "Checked is pydantic's, whose checks hold only in JSON",
        ),
    ],
)
def test_demands_that_nothing_would_check_are_refused(of: Any, said: str) -> None:
    """A price of -1 was written and read without a word."""
    with pytest.raises(SerdeError, match=said):
        sl.serde(of)
    with pytest.raises(SerdeError, match=said):
        sl.json(of)


def test_notes_that_demand_nothing_are_passed_over() -> None:
    assert sl.serde(Described).decode(b'{"pieces":-1}') == Described(-1)
    with pytest.raises(SerdeError, match="greater than 0"):
        sl.json(Checked).decode(b'{"pieces":-1}')
