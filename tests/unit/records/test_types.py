"""The types that a command line names: text and JSON to a record's bytes, and back."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from streamlet.errors import ConfigError, SerdeError
from streamlet.records.types import DataType
from streamlet.serdes import Windowed, session_windowed, time_windowed

SCHEMA = {
    "type": "record",
    "name": "Flight",
    "fields": [{"name": "to", "type": "string"}, {"name": "late", "type": "int"}],
}


def of(name: str) -> DataType:
    return DataType.of(name, "--value")


@pytest.fixture
def avro(tmp_path: Path) -> DataType:
    (tmp_path / "flight.avsc").write_text(json.dumps(SCHEMA))
    return of(f"avro:{tmp_path / 'flight.avsc'}")


@pytest.mark.parametrize(
    ("name", "text", "raw", "shown"),
    [
        ("str", "ä b", "ä b".encode(), "ä b"),
        ("str", "", b"", ""),
        ("int", "-7", (-7).to_bytes(8, signed=True), -7),
        ("int32", "-7", (-7).to_bytes(4, signed=True), -7),
        ("int16", "7", b"\x00\x07", 7),
        ("float32", "1.5", struct.pack(">f", 1.5), 1.5),
        ("float", "1e3", struct.pack(">d", 1000.0), 1000.0),
        ("json", '{"a": [1, null]}', b'{"a":[1,null]}', {"a": [1, None]}),
        ("json", "null", None, None),
        ("bytes", "a\udcff", b"a\xff", "Yf8="),
        (
            "windowed:str",
            '{"key": "ann", "start": 600000}',
            time_windowed(str).encode(Windowed("ann", 600_000, 0)),
            {"key": "ann", "start": 600_000},
        ),
        (
            "session:int",
            '{"key": 7, "start": 1, "end": 5}',
            session_windowed(int).encode(Windowed(7, 1, 5)),
            {"key": 7, "start": 1, "end": 5},
        ),
        ("windowed:bytes", "null", None, None),
    ],
)
def test_text_becomes_bytes_and_is_shown_as_a_value(
    name: str, text: str, raw: bytes | None, shown: Any
) -> None:
    assert of(name).encode_text(text) == raw
    assert of(name).decode(raw) == (shown, None)
    assert of(name).encode_json(shown) == raw


def test_avro_is_json_on_the_command_line(avro: DataType) -> None:
    flight = {"to": "OSL", "late": 4}
    raw = avro.encode_text(json.dumps(flight))
    assert raw is not None
    assert raw == avro.encode_json(flight)
    assert avro.decode(raw) == (flight, None)
    with pytest.raises(SerdeError, match=r"avro\(Flight\): cannot encode"):
        avro.encode_text('{"to": "OSL"}')


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("int", "9" * 5_000, "expected a whole number, got '9"),
        ("int", "1_000", "expected a whole number, got '1_000'"),
        ("int", str(2**63), "cannot encode"),
        ("int32", "1.0", "int32: expected a whole number, got '1.0'"),
        ("int16", "40000", "int16: cannot encode"),
        ("float", "much", "expected a number, got 'much'"),
        ("json", "{", "json: cannot decode"),
        ("str", "a\udcff", "str: cannot encode"),
        ("windowed:str", '{"key": "a"}', "windowed: expected an object with key and start"),
        ("session:str", '{"key": "a", "start": 1, "end": "2"}', "session: expected times in ms"),
        ("windowed:int", '{"key": "a", "start": 1}', "int: expected int, got str"),
        ("windowed:str", '{"key": null, "start": 1}', "a windowed key cannot be None"),
    ],
)
def test_text_of_another_type_is_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(SerdeError, match=message):
        of(name).encode_text(text)


def test_windows_of_windows_are_no_type() -> None:
    with pytest.raises(ConfigError, match="windowed:session:str: expected str, int"):
        of("windowed:session:str")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("int", "1", "int: expected int, got str"),
        ("str", 1, "str: expected str, got int"),
        ("bytes", "?", "bytes: not base64"),
        ("bytes", 1, "bytes: expected text in base64, got int"),
    ],
)
def test_json_values_of_another_type_are_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(SerdeError, match=message):
        of(name).encode_json(value)


def test_a_value_that_nests_deeply_is_shown_in_base64() -> None:
    """Printing it would end the command, and any producer can write one."""
    raw = b"[" * 900 + b"]" * 900
    assert DataType.of("json", "--value").decode(raw) == (
        base64.b64encode(raw).decode(),
        "json: it nests too deeply to be shown",
    )


def test_bytes_that_are_of_another_type_are_shown_in_base64_with_the_reason() -> None:
    shown, error = of("int").decode(b"abc")
    assert shown == "YWJj"
    assert error is not None
    assert error.startswith("int: cannot decode b'abc'")

    shown, error = of("windowed:str").decode(b"ann")
    assert shown == "YW5u"
    assert error is not None
    shown, error = of("windowed:str").decode(b"\xff" + bytes(8))
    assert shown == {"key": "/w==", "start": 0}
    assert error is not None
    assert error.startswith("str: cannot decode")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("long", "--value long: expected str, int, int32, int16, float, float32, bytes, json or"),
        ("avro", "--value avro: expected str, int"),
        ("avro:nowhere.avsc", "--value avro:nowhere.avsc: avro: cannot read the schema"),
        ("windowed", "--value windowed: expected str, int"),
        ("windowed:long", "--value long: expected str, int"),
    ],
)
def test_a_type_that_there_is_not_is_refused(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        of(name)
