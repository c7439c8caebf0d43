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
    assert raw == columnwise.PLAIN["encode_texts"](texts)
    assert native.decode_texts(raw) == texts


@given(st.binary(max_size=8))
def test_bytes_that_are_no_text_are_refused_as_in_python(raw: bytes) -> None:
    assert outcome(native.decode_texts, [b"a", raw]) == outcome(
        columnwise.PLAIN["decode_texts"], [b"a", raw]
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


@pytest.mark.parametrize("all_of", [native.all_of, columnwise.PLAIN["all_of"]])
def test_types_are_told_exactly(all_of: Callable[[list[Any], type], bool]) -> None:
    assert all_of([], str)
    assert all_of([b"", b"a"], bytes)
    assert not all_of([b"", Raw(b"a")], bytes)
    assert not all_of([1, True], int)
    assert not all_of(["a", None], str)


#: Keys that begin alike, and differ late or in their lengths.
KEYS = st.lists(st.binary(max_size=3).map(lambda raw: raw[:1] * 9 + raw) | st.binary(max_size=12))


@given(KEYS, st.binary(max_size=9), st.data())
def test_rows_are_put_in_the_order_of_their_keys(
    keys: list[bytes], start: bytes, data: st.DataObject
) -> None:
    keys = [start + key for key in keys]
    values = [data.draw(st.none() | st.just(str(at))) for at in range(len(keys))]
    rows = put, beside = native.sorted_rows(keys, values)
    assert rows == columnwise.PLAIN["sorted_rows"](keys, values), "equal keys keep their order"
    assert put == sorted(keys)
    first, end = sorted([data.draw(st.integers(0, 20)), data.draw(st.integers(0, 20))])
    logs: list[list[tuple[bytes, Any]]] = [[], []]
    native.put_items(Logged(logs[0]), put, beside, first, end)
    columnwise.PLAIN["put_items"](Logged(logs[1]), put, beside, first, end)
    assert logs[0] == logs[1] == list(zip(*rows, strict=True))[first:end]


def test_only_rows_whose_keys_are_bytes_are_sorted_and_a_refusal_to_take_one_is_told() -> None:
    for keys, values in (([b"a", None], [1, 2]), ((b"a",), [1]), ([b"a"], (1,)), (["a"], [1])):
        with pytest.raises(TypeError):
            native.sorted_rows(keys, values)
    for call in (native.sorted_rows, lambda *rows: native.put_items({}, *rows, 0, 1)):
        with pytest.raises(ValueError, match="different lengths"):
            call([b"a"], [])
    with pytest.raises(ValueError, match="at 0 or later"):
        native.put_items({}, [b"a"], [1], -1, 1)
    items = {b"a": 0}
    with pytest.raises(KeyError):
        native.put_items(items, [b"a", b"b", b"c"], [1, None, 2], 0, 3)
    assert items == {b"a": 1}, "what is behind it was not put"


class Logged:
    """Items that note what is put, in order."""

    def __init__(self, log: list[tuple[bytes, Any]]) -> None:
        self._log = log

    def __setitem__(self, key: bytes, value: Any) -> None:
        self._log.append((key, value))

    def __delitem__(self, key: bytes) -> None:
        self._log.append((key, None))


def outcome(function: Callable[[Any], Any], column: list[Any]) -> Any:
    """What a function returns, or the type of its exception."""
    try:
        return function(column)
    except Exception as error:
        return type(error)
