"""A record as a JSON document, and as a line for people."""

from __future__ import annotations

import json
import struct

import pytest

from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.records.shown import RecordView, as_json, as_line
from streamlet.records.types import DataType, EscapedText


def view(key: str, value: str) -> RecordView:
    return RecordView(DataType.of(key, "--key"), DataType.of(value, "--value"))


def batch(key: bytes | None, value: bytes | None, headers: Headers | None = None) -> PartitionBatch:
    return PartitionBatch("t", 2, range(7, 8), [key], [value], [1_000], [headers])


def test_a_record_is_a_document_with_all_there_is() -> None:
    found = view("str", "int").documents(
        batch(b"a", bytes(7) + b"\x05", [("h", b"x"), ("n", None)])
    )
    assert found == [
        {
            "topic": "t",
            "partition": 2,
            "offset": 7,
            "timestamp": 1_000,
            "key": "a",
            "value": 5,
            "headers": [["h", "x"], ["n", None]],
        }
    ]
    assert as_line(found[0], headers=False) == "a\t5"
    assert as_line(found[0], headers=True) == "a\t5\th:x,n:null"


def test_nulls_and_documents_are_shown_as_in_json() -> None:
    (document,) = view("str", "json").documents(batch(None, b'{"a":"\xc3\xa4"}'))
    assert (document["key"], document["value"]) == (None, {"a": "ä"})
    assert as_line(document, headers=False) == 'null\t{"a": "ä"}'
    assert json.loads(as_json(document)) == document


def test_what_is_not_of_its_type_is_base64_and_an_error() -> None:
    (document,) = view("int", "str").documents(batch(b"a", b"\xff", [("h", b"\xfe")]))
    assert (document["key"], document["value"], document["headers"]) == (
        "YQ==",
        "/w==",
        [["h", "/g=="]],
    )
    key, hint, value, headers = document["error"].split("; ")
    assert "streamlet.json()" in hint
    assert key.startswith("key: int: cannot decode b'a'")
    assert value.startswith("value: str: cannot decode")
    assert headers == "headers: h is not UTF-8"
    assert as_line(document, headers=False).startswith("YQ==\t/w==\t(not decoded: key: int:")


def test_what_has_no_type_is_text_with_escapes_for_people() -> None:
    shown = RecordView(EscapedText(), EscapedText())
    (document,) = shown.documents(batch(b"\xc3\xa4\ta\x1b[2J\xff", bytes(7) + b"\x05"))
    assert as_line(document, headers=False) == (
        "ä\ta\\x1b[2J\\xff\t\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x05"
    )
    (document,) = shown.documents(batch(None, None))
    assert as_line(document, headers=False) == "null\tnull"


@pytest.mark.parametrize(
    ("raw", "escaped"),
    [
        (b"a\tb\n", []),
        ("ä\u200b".encode(), []),
        (b"\xff", [b"\xff"]),
        (bytes(7) + b"\x05", [bytes(7) + b"\x05"]),
    ],
)
def test_the_first_bytes_that_needed_escapes_are_noted(raw: bytes, escaped: list[bytes]) -> None:
    text = EscapedText()
    for one in (b"plain", raw, None, raw):
        text.decode(one)
    assert text.escaped == escaped


def test_bytes_are_base64_without_an_error() -> None:
    (document,) = view("bytes", "bytes").documents(batch(b"\xff", b"a"))
    assert (document["key"], document["value"]) == ("/w==", "YQ==")
    assert "error" not in document


def test_a_float_that_json_does_not_have_is_text() -> None:
    (document,) = view("str", "float").documents(batch(b"a", struct.pack(">d", float("nan"))))
    assert json.loads(as_json(document))["value"] == "nan"
