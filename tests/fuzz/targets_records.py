"""Keys and values of records, and settings."""

from __future__ import annotations

from itertools import islice
from typing import Any

import attrs

import streamlet as sl
from streamlet.config import Settings
from streamlet.dsl.folds.table_folds import changes_of
from streamlet.errors import (
    ConfigError,
    SerdeError,
)
from streamlet.records.lines import Format, LineReader
from streamlet.records.shown import RecordView, as_json, as_line
from streamlet.records.types import DataType
from streamlet.serdes import Serde, list_of, serde
from tests.fuzz.target import Target, batch_of


@attrs.frozen
class Order:
    """A type of documents."""

    id: int
    names: list[str]
    prices: dict[str, float | None] = attrs.field(factory=dict)


def _serde(name: str, of: Serde[Any], *values: object, found: tuple[bytes, ...] = ()) -> Target:
    def read(raw: bytes) -> None:
        value = of.decode(raw)
        if not of.accepts or type(value) in of.accepts:
            of.encode(value)  # as a step writes on what it has read

    seeds = tuple(of.encode(value) for value in values)
    return Target(f"serde {name}", read, (SerdeError,), seeds, found)


_AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "names", "type": {"type": "array", "items": "string"}},
        {"name": "more", "type": ["null", {"type": "map", "values": "double"}], "default": None},
    ],
}
_TYPES = {name: DataType.of(name, "--value") for name in ("str", "int", "float", "bytes", "json")}


def _shown(raw: bytes) -> None:
    """A record as commands print it, whatever type its value is said to be of."""
    for kind in (*_TYPES.values(), DataType.of("windowed:int", "--value")):
        view = RecordView(kind, kind)
        for document in view.documents(batch_of([raw])):
            as_line(document, True)
            as_json(document)


def _lines(raw: bytes) -> None:
    lines = raw.decode(errors="surrogateescape").splitlines(keepends=True)
    form, name = [*Format][len(raw) % 4], ("int", "json")[len(raw) // 4 % 2]
    # It takes its time for each line, not for each byte, and most lines of a long input are empty.
    [*islice(LineReader(form, _TYPES["str"], _TYPES[name]).records(lines), 10_000)]


RECORDS = (
    *(
        _serde(str(of.__name__), serde(of), *values)
        for of, values in (
            (str, ("grüße", "")),
            (bytes, (b"bytes", b"")),
            (int, (5, -(1 << 62))),
            (float, (1.5,)),
            (bool, (True,)),
            (dict, ({"a": [1, {"b": None}], "c": "d"},)),
            (list, ([1, "two", {"3": 4.5}],)),
            (Order, (Order(5, ["a", "b"], {"c": 1.5, "d": None}),)),
        )
    ),
    _serde("list of str", list_of(str), ["a", None, "bb"], []),
    _serde("list of int", list_of(int), [1, None, 3], [7] * 9),
    _serde("avro", sl.avro(_AVRO), {"id": 5, "names": ["a"], "more": {"b": 1.5}}),
    _serde("time windowed", sl.time_windowed(str, 1000), sl.Windowed("k", 1000, 2000)),
    _serde("session windowed", sl.session_windowed(str), sl.Windowed("k", 1000, 2000)),
    _serde("changes of a table", changes_of(serde(str)), ("new", None), ("new", "old")),
    Target(
        "record shown",
        _shown,
        (),
        (b'{"a":[1,{"b":null}],"c":1e308}', b"12345678", b"caf\xc3\xa9"),
        (b"[" * 900 + b"]" * 900,),
    ),
    Target(
        "lines to write",
        _lines,
        (ConfigError,),
        (
            b'{"key":"a","value":1,"timestamp":5,"headers":[["h","x"]]}\n{"value":2}\n',
            b"key,value,timestamp\na,1,5\nb,2,7\n",
            b"a:1\nb:2\n",
        ),
        (b"9" * 5_000, b"value,timestamp\n1," + b"9" * 5_000),
    ),
)


def _settings(raw: bytes) -> None:
    lines = raw.decode(errors="replace").split("\n")
    Settings.load(overrides=[line for line in lines if line], environ={})


SETTINGS = (
    Target(
        "settings",
        _settings,
        (ConfigError,),
        (
            b"bootstrap.servers=localhost:9092\nsession.timeout.ms=45000\nstate.dir=/s",
            b"consumer.fetch.max.bytes=1 MiB\nprocessing.guarantee=at_least_once\ncache.bytes=10%",
        ),
        (b"\n".join(b"cache.%d=1" % n for n in range(10_000)),),
        batch=20,
    ),
)
