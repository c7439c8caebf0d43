"""Passes over columns: the extension's give what Python gives, and refuse what is not theirs."""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet import columnwise
from streamlet.kafka.murmur2 import partition_of
from streamlet.kafka.partitioner import KeyPartitioner

native: ModuleType = pytest.importorskip("streamlet.kafka.native._native")

LONG = st.integers(-(1 << 63), (1 << 63) - 1)
RAW = st.lists(st.binary(max_size=12))


class Text(str):
    """A text whose class may have methods of its own."""


class Raw(bytes):
    """The same of bytes."""


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_texts_are_written_and_read_as_python_does(texts: list[str]) -> None:
    raw = native.encode_texts(texts)
    assert raw == columnwise.plain_encode_texts(texts)
    assert native.decode_texts(raw) == texts


@given(st.binary(max_size=8))
def test_bytes_that_are_no_text_are_refused_as_in_python(raw: bytes) -> None:
    assert outcome(native.decode_texts, [b"a", raw]) == outcome(
        columnwise.plain_decode_texts, [b"a", raw]
    )


@given(st.lists(LONG), st.lists(st.floats(allow_nan=False)))
def test_numbers_are_written_and_read_as_python_does(ints: list[int], floats: list[float]) -> None:
    for code, numbers, pack, unpack in (
        ("q", ints, native.pack_ints, native.unpack_ints),
        ("d", floats, native.pack_floats, native.unpack_floats),
    ):
        raw = pack(numbers)
        assert raw == [struct.pack(f">{code}", number) for number in numbers]
        assert unpack(raw) == numbers


@given(RAW, st.integers(1, (1 << 31) - 1))
def test_keys_go_to_the_partitions_of_javas_producer(keys: list[bytes], count: int) -> None:
    wanted = [partition_of(key, count) for key in keys]
    assert native.partitions_of(keys, count) == wanted
    assert KeyPartitioner(count).choose(keys, range(len(keys))) == wanted


@pytest.mark.parametrize(
    ("function", "column"),
    [
        ("encode_texts", ["a", "\ud800"]),
        ("encode_texts", ["a", Text("b")]),
        ("encode_texts", ["a", None]),
        ("decode_texts", [b"a", Raw(b"b")]),
        ("decode_texts", [b"a", bytearray(b"b")]),
        ("pack_ints", [1, 1 << 63]),
        ("pack_ints", [1, -(1 << 63) - 1]),
        ("pack_ints", [1, True]),
        ("unpack_ints", [bytes(7), bytes(9)]),
        ("unpack_ints", [bytes(8), None]),
        ("pack_floats", [1.0, 1]),
        ("unpack_floats", [bytes(8), b""]),
        ("unpack_floats", (bytes(8),)),
    ],
)
def test_what_is_not_of_the_type_is_refused(function: str, column: Any) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        getattr(native, function)(column)


def test_partitions_are_of_bytes_alone_and_there_is_one_at_least() -> None:
    with pytest.raises(TypeError):
        native.partitions_of([b"a", None], 4)
    with pytest.raises(ValueError, match="at least one partition"):
        native.partitions_of([b"a"], 0)
    with pytest.raises(TypeError):
        native.partitions_of((b"a",), 4)


@pytest.mark.parametrize("all_of", [native.all_of, columnwise.plain_all_of])
def test_types_are_told_exactly(all_of: Callable[[list[Any], type], bool]) -> None:
    assert all_of([], str)
    assert all_of([b"", b"a"], bytes)
    assert not all_of([b"", Raw(b"a")], bytes)
    assert not all_of([1, True], int)
    assert not all_of(["a", None], str)


def outcome(function: Callable[[Any], Any], column: list[Any]) -> Any:
    """What a function returns, or the type of its exception."""
    try:
        return function(column)
    except Exception as error:
        return type(error)
