"""Values of pydantic's classes return as they were, or are refused by name; keys have one form."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pydantic
import pydantic.dataclasses
import pytest
from pydantic import AliasChoices, ConfigDict, Field, SecretStr

import streamlet as sl
from streamlet.errors import SerdeError
from streamlet.serdes import serde
from streamlet.testing import TopologyTestDriver


class Point(pydantic.BaseModel):
    x: float | None = None


class Named(Point):
    label: str = ""


class Line(pydantic.BaseModel):
    points: list[Point] = []


class Kept(pydantic.BaseModel):
    total: int = 0
    seen: int = Field(default=0, exclude=True)


class Renamed(pydantic.BaseModel):
    total: int = Field(default=0, serialization_alias="sum")


class Around(pydantic.BaseModel):
    by_name: dict[str, list[Renamed]] = {}


@pydantic.dataclasses.dataclass
class KeptToo:
    total: int = 0
    seen: int = Field(default=0, exclude=True)


class Either(pydantic.BaseModel):
    total: int = Field(
        default=0, serialization_alias="sum", validation_alias=AliasChoices("t", "sum")
    )


class ByName(pydantic.BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    total: int = Field(default=0, validation_alias="sum", serialization_alias="total")


class Constants(pydantic.BaseModel):
    model_config = ConfigDict(ser_json_inf_nan="constants")
    x: float = 0.0


class Rounded(pydantic.BaseModel):
    x: float = 0.0

    @pydantic.field_serializer("x")
    def rounded(self, x: float) -> float:
        return round(x, 1)


class OneWay(pydantic.BaseModel):
    x: int = 0

    @pydantic.field_serializer("x")
    def shown(self, x: int) -> str:
        return f"{x} pieces"


class Login(pydantic.BaseModel):
    password: SecretStr


class Free(pydantic.BaseModel):
    some: Any = None


class Tags(pydantic.BaseModel, frozen=True):
    tags: frozenset[str] = frozenset()
    by_name: dict[str, frozenset[int]] = {}


@pytest.mark.parametrize(
    ("of", "message"),
    [
        (Kept, r"no JSON for Kept: Kept\.seen is not written \(exclude=True\)"),
        (KeptToo, r"KeptToo\.seen is not written"),
        (Renamed, r"Renamed\.total is written as sum and read as total: give alias="),
        (Around, r"no JSON for Around: Renamed\.total is written as sum"),
    ],
)
def test_a_class_whose_fields_would_be_lost_is_refused_by_name(of: Any, message: str) -> None:
    with pytest.raises(SerdeError, match=message):
        serde(of)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Point(x=math.nan), "JSON has no NaN and no infinity.*ser_json_inf_nan"),
        (Line(points=[Point(x=-math.inf)]), "JSON has no NaN"),
        (Line(points=[Point(), Named(label="a")]), "a Named in it would be read back as a Point"),
        (Login(password=SecretStr("hush")), r"pydantic writes stars for SecretStr"),
        (OneWay(x=1), "it could not be read back: x: "),
        (Free(some={1}), "JSON has no set; give the type in place of Any"),
    ],
)
def test_a_value_that_would_not_return_is_refused(value: Any, message: str) -> None:
    keys = serde(type(value))
    assert keys.as_value is not None
    for one in (keys, keys.as_value):
        with pytest.raises(SerdeError, match=message):
            one.encode(value)
        with pytest.raises(SerdeError, match=message):
            one.encode_column([None, value])
        with pytest.raises(SerdeError, match=message):
            one.copy(value)


@pytest.mark.parametrize(
    "value",
    [
        *(Point(x=1.5), Line(points=[Point()]), Either(t=3), ByName(sum=3), Constants(x=math.nan)),
        *(Rounded(x=0.25), Free(some=(1, "a")), Tags(tags=frozenset("ab"), by_name={"b": {2}})),
    ],
)
def test_others_are_taken_and_copied_as_their_bytes(value: Any) -> None:
    one: Any = serde(type(value))
    for form in (one, one.as_value):
        raw = form.encode(value)
        assert form.encode_column([value, None]) == [raw, None]
        # As keys, whose sets are in order: those of values come as the set is gone through.
        assert one.encode(form.copy(value)) == one.encode(value) == one.encode(form.decode(raw))


def test_an_aggregate_that_cannot_be_read_back_is_skipped_and_leaves_its_row() -> None:
    app = sl.App("points", on_error="skip")
    numbers = app.stream("in", key=str, value=float)
    sums = numbers.group_by_key().aggregate(
        lambda: Point(x=0.0), lambda key, number, so_far: Point(x=(so_far.x or 0) + number)
    )
    sums.to_stream().to("out", value=Point)
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", 1.0), ("a", math.nan), ("a", 2.0)])
        assert [one.value.x for one in driver.read_output("out")] == [1.0, 3.0]
        assert driver.skipped() == 1


def test_equal_keys_have_one_form() -> None:
    one, other = {"b": frozenset({1, 9}), "a": frozenset()}, {"a": frozenset(), "b": {9, 1}}
    raws = {serde(Tags).encode(Tags(tags={"x", "y"}, by_name=names)) for names in (one, other)}
    assert raws == {b'{"tags":["x","y"],"by_name":{"a":[],"b":[1,9]}}'}
    values = serde(Tags).as_value
    assert values is not None
    assert values.decode(values.encode(Tags(by_name=one))) == Tags(by_name=one)
    assert list(values.decode(values.encode(Tags(by_name=one))).by_name) == ["b", "a"]


def test_a_key_has_one_form_in_all_processes() -> None:
    code = (
        "from tests.unit.serdes.test_pydantic import Tags; from streamlet.serdes import serde; "
        "print(serde(Tags).encode(Tags(tags=frozenset('abcdef'))))"
    )
    command = [sys.executable, "-c", code]
    forms = {
        subprocess.run(
            command, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in "12"
    }
    assert forms == {'b\'{"tags":["a","b","c","d","e","f"],"by_name":{}}\'\n'}
