"""Passes over columns: the extension's give what Python gives, and refuse what is not theirs."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from types import ModuleType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet import columnwise
from streamlet.kafka.murmur2 import partition_of
from streamlet.kafka.partitioner import KeyPartitioner

native: ModuleType = pytest.importorskip("streamlet.kafka.native._native")

LONG = st.integers(-(1 << 63), (1 << 63) - 1)
RAW = st.lists(st.binary(max_size=12))
#: Values whose documents no decoder is needed for: numbers are short, text has no escaped pairs.
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18) + 1, 10**18 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
#: Pieces of documents, many of which do not fit together.
PIECES = (
    *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b" ", b"\n", b"\0", b"\x1f", b"\x7f", b"u"),
    *(b"0", b"-", b"1", b"9" * 18, b"9" * 40, b".", b".5", b"e", b"E+", b"e-400", b"e308", b"e99"),
    *(b"true", b"fals", b"null", b"nan", b'"a":', b"\\u0041", b"\\ud83d", b"\\ude00", b"\\x"),
    *("é€😀".encode(), b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xff", b"\xef\xbb\xbf"),
)


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


@given(st.dictionaries(st.text(), PLAIN), st.booleans())
def test_plain_documents_are_certain(document: dict[str, Any], spaced: bool) -> None:
    raw = json.dumps(document, ensure_ascii=False, indent=1 if spaced else None).encode()
    assert native.are_documents([b'{"x": -1.25e+07}', raw], "{")
    assert native.are_documents([b" [%b] " % raw], "[{")
    assert not native.are_documents([raw], "[")
    assert not native.are_documents([raw[:-1]], "{")


def test_a_certain_document_is_one_that_the_decoder_takes() -> None:
    dice, certain = random.Random(51), 0
    decode = msgspec.json.Decoder(dict).decode
    sources = [
        b'{"a": [1, {"b": "c\\n"}], "d": null, "e": 1.5e3, "f": true}',
        b'{"\\u00e9": "\xc3\xa9"}',
    ]
    for _ in range(20_000):
        raw = dice.choice(sources)
        for _ in range(dice.choice((0, 1, 1, 2, 3))):
            at = dice.randrange(len(raw) + 1)
            raw = raw[:at] + dice.choice((b"", *PIECES)) + raw[at + dice.randrange(3) :]
        if native.are_documents([raw], "{"):
            assert type(decode(raw)) is dict, raw
            certain += 1
    assert 2_000 < certain < 18_000


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b" ", b"1", b"null", b"{} {}", b'{"a":01}', b'{"a":1,}', b'{"a"}', b"{1:2}"),
        *(b"[" * 61 + b"]" * 61, b'["\\ud83d\\ude00"]', b"[%b]" % (b"1" * 19), b"[1e100]"),
        *(b"[1.%b]" % (b"1" * 63), b'["\xc3"]', b'["\\', b'["\\u12', b"[tru", b"[-", b"[1."),
    ],
)
def test_what_is_no_document_or_needs_a_decoder_is_not_certain(raw: bytes) -> None:
    assert not native.are_documents([b"[]", raw], "{[")


def test_only_bytes_are_documents() -> None:
    assert native.are_documents([], "{")
    assert not native.are_documents([b"{}", None], "{")
    assert not native.are_documents([Raw(b"{}")], "{")
    with pytest.raises(TypeError):
        native.are_documents((b"{}",), "{")


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
