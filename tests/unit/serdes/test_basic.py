"""Single values: Kafka's bytes, exact types, errors that say which serde and what was met."""

from __future__ import annotations

import math
import uuid
from collections import OrderedDict
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamlet as sl
from streamlet.errors import SerdeError
from streamlet.serdes import serde
from streamlet.testing import TopologyTestDriver

LONGS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("of", "value", "raw"),
    [
        (str, "Zürich", b"Z\xc3\xbcrich"),
        (str, "", b""),
        (int, 1, b"\0\0\0\0\0\0\0\x01"),
        (int, -2, b"\xff\xff\xff\xff\xff\xff\xff\xfe"),
        (float, 1.0, b"\x3f\xf0\0\0\0\0\0\0"),
        (bytes, b"\0\xff", b"\0\xff"),
        (bool, True, b"\x01"),
        (bool, False, b"\x00"),
        (
            uuid.UUID,
            uuid.UUID("123e4567-e89b-12d3-a456-426614174000"),
            b"123e4567-e89b-12d3-a456-426614174000",
        ),
    ],
)
def test_values_have_the_bytes_of_kafkas_serdes(of: Any, value: object, raw: bytes) -> None:
    assert serde(of).encode(value) == raw
    assert serde(of).decode(raw) == value
    assert type(serde(of).decode(raw)) is of
    assert serde(of).encode_column([value, None]) == [raw, None]
    assert serde(of).decode_column([raw, None]) == [value, None]


@given(st.lists(LONGS))
def test_ints_survive_as_a_column(values: list[int]) -> None:
    raw = serde(int).encode_column(list(values))
    assert raw == [value.to_bytes(8, "big", signed=True) for value in values]
    assert serde(int).decode_column(raw) == values


@given(st.lists(TEXTS))
def test_texts_survive_as_a_column(values: list[str]) -> None:
    assert serde(str).decode_column(serde(str).encode_column(list(values))) == values


@given(st.lists(st.floats(allow_nan=False)))
def test_floats_survive_as_a_column(values: list[float]) -> None:
    back = serde(float).decode_column(serde(float).encode_column(list(values)))
    assert list(map(repr, back)) == list(map(repr, values))


def test_not_a_number_survives() -> None:
    assert math.isnan(serde(float).decode(serde(float).encode(math.nan)))


def test_a_float_serde_takes_an_int_and_returns_a_float() -> None:
    assert repr(serde(float).decode(serde(float).encode(3))) == "3.0"


@given(st.lists(st.uuids()))
def test_uuids_are_written_as_python_prints_them(values: list[uuid.UUID]) -> None:
    raw = serde(uuid.UUID).encode_column(list(values))
    assert raw == [str(value).encode() for value in values]
    assert serde(uuid.UUID).decode_column(raw) == values


def test_negative_ints_sort_behind_positive_ones_as_in_kafka() -> None:
    encode = serde(int).encode
    assert sorted([-1, 0, 1, -2], key=encode) == [0, 1, -2, -1]


@pytest.mark.parametrize(
    ("of", "value", "expected", "got"),
    [
        (int, True, "int", "bool"),
        (int, 1.0, "int", "float"),
        (int, "1", "int", "str"),
        (bool, 1, "bool", "int"),
        (float, True, "float", "bool"),
        (str, b"a", "str", "bytes"),
        (bytes, bytearray(b"a"), "bytes", "bytearray"),
        (bytes, "a", "bytes", "str"),
        (uuid.UUID, "123e4567-e89b-12d3-a456-426614174000", "UUID", "str"),
    ],
)
def test_the_wrong_exact_type_is_refused_and_both_are_named(
    of: Any, value: object, expected: str, got: str
) -> None:
    with pytest.raises(SerdeError, match=rf"expected .*{expected}.*, got {got} "):
        serde(of).encode(value)
    with pytest.raises(SerdeError, match=rf"entry 0: .*expected .*{expected}.*, got {got} "):
        serde(of).encode_column([value])


@pytest.mark.parametrize(
    ("of", "value", "hint"),
    [
        (int, True, r"int\(\) makes it one"),
        (int, HTTPStatus.OK, r"use its \.value"),
        (bytes, bytearray(b"a"), r"bytes\(\) makes it one"),
        (bytes, memoryview(b"a"), r"bytes\(\) makes it one"),
        (dict, OrderedDict(a=1), r"dict\(\) makes it one"),
        (str, type("Text", (str,), {})("a"), r"str\(\) makes it one"),
    ],
)
def test_a_value_of_a_subclass_is_told_what_makes_it_plain(of: Any, value: Any, hint: str) -> None:
    with pytest.raises(SerdeError, match=f"; {hint}$"):
        serde(of).encode(value)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_an_int_beyond_64_bits_is_refused(value: int) -> None:
    said = r"^int: cannot encode -?\d+: it needs more bytes; json\(\) writes whole numbers of any"
    with pytest.raises(SerdeError, match=said):
        serde(int).encode(value)


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(SerdeError, match="str: cannot encode"):
        serde(str).encode("\ud800")


@pytest.mark.parametrize(
    ("of", "raw"),
    [
        (str, b"\xff\xfe"),
        (str, b"\xed\xa0\x80"),
        (int, b"1234567"),
        (int, b""),
        (float, b"123456789"),
        (bool, b"\x02"),
        (bool, b""),
        (uuid.UUID, b"123e4567e89b12d3a456426614174000"),
        (uuid.UUID, b"x" * 36),
        (None, b""),
    ],
)
def test_undecodable_bytes_name_the_serde_and_the_bytes(of: Any, raw: bytes) -> None:
    name = serde(of).name
    with pytest.raises(SerdeError, match=rf"^{name}: cannot decode b'") as caught:
        serde(of).decode(raw)
    assert repr(raw)[1:-1] in str(caught.value)
    with pytest.raises(SerdeError, match=rf"^entry 1: {name}: cannot decode b'"):
        serde(of).decode_column([None, raw])


def test_only_the_first_bytes_are_shown() -> None:
    with pytest.raises(SerdeError, match=r"… \(1000 bytes\)") as caught:
        serde(int).decode(b"z" * 1000)
    assert len(str(caught.value)) < 200
    assert "expected 8 bytes, big-endian as Java writes them; streamlet.json()" in str(caught.value)


def test_lengths_that_only_add_up_are_not_taken_for_ints() -> None:
    with pytest.raises(SerdeError, match="entry 0"):
        serde(int).decode_column([b"1234567", b"123456789"])


def test_none_serde_takes_nothing_but_null() -> None:
    assert serde(None).decode_column([None, None]) == [None, None]
    assert serde(None).encode_column([None]) == [None]
    assert serde(type(None)).name == "None"
    with pytest.raises(SerdeError, match="expected NoneType, got int 3"):
        serde(None).encode_column([None, 3])  # type: ignore[list-item]


def test_exact_types_are_those_whose_equality_is_that_of_their_bytes() -> None:
    exact = {kind: serde(kind).exact for kind in (str, int, bytes, float, bool, uuid.UUID)}
    assert exact == {str: str, int: int, bytes: bytes, float: None, bool: None, uuid.UUID: None}


def test_single_values_are_immutable_and_are_not_copied() -> None:
    value = "long enough not to be interned " * 2
    assert serde(str).immutable
    assert serde(str).copy(value) is value


def letters(raw: bytes) -> str | None:
    """Decode a text, of which one is none."""
    return None if raw == b"none" else raw.decode()


NULLING: dict[str, Any] = {
    "pair": (str.encode, letters),
    "serde": sl.Serde("letters", str.encode, letters),
    "columns": sl.Serde(
        "letters", str.encode, letters, decode_all=lambda column: list(map(letters, column))
    ),
}


@pytest.mark.parametrize("made", NULLING.values(), ids=[*NULLING])
def test_a_decode_that_returns_none_makes_null_and_says_so_once(
    made: Any, caplog: pytest.LogCaptureFixture
) -> None:
    app = sl.App("nulls")
    app.table("rows", key=str, value=made, store="kept").to_stream().to("changes")
    app.stream("lines", key=str, value=made).to("out")
    with TopologyTestDriver(app) as driver:
        for raw in (b"a", b"none", b"none"):
            driver.pipe_bytes("rows", b"k", raw)
            driver.pipe_bytes("lines", b"k", raw)
        assert [one.value for one in driver.read_output("out")] == ["a", None, None]
        assert driver.read_output("changes")[1].value is None
        assert list(driver.store("kept").all()) == []
        assert driver.dropped() == 0
    said = [one.message for one in caplog.records if "decode returned None" in one.message]
    assert len(said) == 2, "once for each topic's serde"
    assert "a table deletes its row; raise an error for bytes that cannot be read" in said[0]
