"""Avro without a registry."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from streamlet.errors import SerdeError
from streamlet.serdes import ColumnError, avro

FLIGHT = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "delay", "type": ["null", "int"], "default": None},
    ],
}


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    file = tmp_path / "flight.avsc"
    file.write_text(json.dumps(FLIGHT))
    flight = {"carrier": "AA", "delay": 3}
    for schema in (FLIGHT, json.dumps(FLIGHT), file):
        one = avro(schema)
        assert one.name == "avro(Flight)"
        assert one.encode(flight) == b"\x04AA\x02\x06"
        assert one.decode_column([b"\x04AA\x02\x06", None]) == [flight, None]
        assert one.copy(flight) == flight
        assert one.copy(flight) is not flight


def test_a_primitive_schema_is_its_name() -> None:
    assert avro("long").decode(avro("long").encode(5)) == 5


def test_bytes_of_an_older_schema_are_read_into_the_newer() -> None:
    newer = {**FLIGHT, "fields": [*FLIGHT["fields"], {"name": "x", "type": "int", "default": 7}]}
    one = avro(newer, writer=FLIGHT)
    assert one.decode(b"\x04AA\x00") == {"carrier": "AA", "delay": None, "x": 7}


def test_leftover_and_missing_bytes_are_refused() -> None:
    one = avro(FLIGHT)
    with pytest.raises(SerdeError, match=r"avro\(Flight\): cannot decode .*1 bytes are left over"):
        one.decode(b"\x04AA\x00\x00")
    with pytest.raises(SerdeError, match="cannot decode"):
        one.decode(b"\x04A")


def test_a_value_that_does_not_fit_is_found_in_its_column() -> None:
    with pytest.raises(ColumnError, match="cannot encode") as caught:
        avro(FLIGHT).encode_column([{"carrier": "AA", "delay": 1}, None, {"carrier": 3}])
    assert caught.value.index == 2


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, '{"type": ', Path("nowhere.avsc")])
def test_a_bad_schema_is_refused(schema: object) -> None:
    with pytest.raises(SerdeError, match="avro: "):
        avro(schema)  # type: ignore[arg-type]


def test_without_fastavro_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(SerdeError, match=r"pip install 'streamlet\[avro\]'"):
        avro("long")
