"""Avro bytes and schemas that fastavro has no bounds for."""

from __future__ import annotations

import io
import json
import sys
from contextlib import suppress
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import pytest

from streamlet.errors import SerdeError
from streamlet.serdes import avro
from streamlet.serdes.avro_bounds import MOST_DECIMAL_BYTES, MOST_LEVELS, bounds_check

#: More levels than any stack of 8 MiB has room for.
MANY = 100_000


def record(name: str, **fields: Any) -> dict[str, Any]:
    """A record's schema."""
    listed = [{"name": one, "type": of} for one, of in fields.items()]
    return {"type": "record", "name": name, "fields": listed}


def items_of(of: Any) -> dict[str, Any]:
    """An array's schema."""
    return {"type": "array", "items": of}


CHAIN = record("N", next=["null", "N"])


@pytest.mark.parametrize(
    ("schema", "raw"),
    [
        (CHAIN, b"\2" * MANY),
        (record("N", next=items_of("N")), b"\2" * MANY),
        (record("N", next=items_of("N")), b"\1\2" * MANY),
        (record("N", next={"type": "map", "values": "N"}), b"\2\0" * MANY),
        (record("N", before="string", next=["null", "N"]), b"\2x\2" * MANY),
        (["null", record("N", id="long", next=["N", "null"])], b"\2" + b"\x80\1\0" * MANY),
        (record("N", next=["N", "null"]), b"\3" * MANY),
    ],
)
def test_bytes_that_nest_without_end_are_an_error_and_no_end_of_the_process(
    schema: Any, raw: bytes
) -> None:
    with pytest.raises(SerdeError, match=f"nests deeper than {MOST_LEVELS} levels"):
        avro(schema).decode(raw)
    with pytest.raises(SerdeError, match="nests deeper"):
        avro(record("N"), writer=schema).decode(raw)


def test_a_value_as_deep_as_can_be_written_is_read(request: pytest.FixtureRequest) -> None:
    request.addfinalizer(partial(sys.setrecursionlimit, sys.getrecursionlimit()))
    sys.setrecursionlimit(1_000)  # other tests of the process may have raised it
    serde = avro(CHAIN)
    values: list[dict[str, Any]] = [{"next": None}]
    while len(values) < MOST_LEVELS:
        values.append({"next": values[-1]})
    written = []
    for value in values[99::100]:
        with suppress(SerdeError):
            written.append(serde.encode(value))
    assert 2 <= len(written) < 5  # calls of Python end between
    for raw in written:
        assert serde.encode(serde.decode(raw)) == raw


def test_the_check_goes_through_bytes_as_the_reader_does() -> None:
    """It sees the end of each value, or it would find levels where there are none."""
    schema = record(
        "N",
        whole="int",
        text="string",
        raw="bytes",
        yes="boolean",
        small="float",
        large="double",
        nothing="null",
        four={"type": "fixed", "name": "F", "size": 4},
        letter={"type": "enum", "name": "E", "symbols": ["a", "b"]},
        day={"type": "int", "logicalType": "date"},
        pairs={"type": "map", "values": ["null", "E"]},
        rest=items_of("N"),
    )
    leaf: dict[str, Any] = {
        "whole": -70_000,
        "text": "\2" * 3_000,
        "raw": b"\2" * 3_000,
        "yes": True,
        "small": 0.5,
        "large": 0.1,
        "nothing": None,
        "four": b"\2\2\2\2",
        "letter": "b",
        "day": 3,
        "pairs": {"a": "b", "c": None},
        "rest": [],
    }
    value = {**leaf, "rest": [{**leaf, "rest": [leaf] * 3}] * 700}
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), value)
    check = bounds_check(schema, {"N": schema, "E": {"type": "enum"}})
    assert check is not None
    check(file.getvalue())


def test_a_record_in_each_of_its_own_values_is_no_schema() -> None:
    for within in ("N", record("M", back="N"), record("M", one="int", back=record("O", end="N"))):
        with pytest.raises(SerdeError, match="each value of a record has another one in it"):
            avro(record("N", next=within))
        with pytest.raises(SerdeError, match="each value of a record has another one in it"):
            avro(record("N"), writer=record("N", before=["null", "N"], next=within))


def test_bytes_too_few_to_nest_are_not_looked_at() -> None:
    tree = record("N", left=["null", "N"], right=["null", "N"])
    check = bounds_check(tree, {"N": tree})
    assert check is not None
    check(b"\xff" * (MOST_LEVELS // 3))
    with pytest.raises(ValueError, match="a number takes more"):
        check(b"\xff" * (MOST_LEVELS // 3 + 1))


def test_what_cannot_nest_is_not_looked_at() -> None:
    assert bounds_check(record("R", a=items_of(["null", record("S", b="long")])), {}) is None


@pytest.mark.parametrize("size", [MOST_DECIMAL_BYTES, MOST_DECIMAL_BYTES + 1, 1_000_000])
def test_a_decimal_of_a_megabyte_is_an_error_and_not_two_minutes(size: int) -> None:
    of = {"type": "bytes", "logicalType": "decimal", "precision": 9_000, "scale": 2}
    serde = avro(record("R", text="string", price=of))
    raw = serde.encode({"text": "x" * size, "price": Decimal("1.25")})
    assert serde.decode(raw)["price"] == Decimal("1.25")
    file = io.BytesIO()
    fastavro.schemaless_writer(file, "bytes", b"\1" * size)
    if size == MOST_DECIMAL_BYTES:
        assert serde.decode(b"\0" + file.getvalue())["price"] > 10**9_000
        return
    with pytest.raises(SerdeError, match=f"a decimal takes more than {MOST_DECIMAL_BYTES} bytes"):
        serde.decode(b"\0" + file.getvalue())


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"A": record("Other")}, "the schema of A is of another type: Other"),
        ({"A": record("A", b="B"), "B": record("B", a="A")}, "use each other"),
        ({"A": record("A", a=["null", "A"], b="B"), "B": record("B", a=items_of("A"))}, "use each"),
        ({"A": ["null", "long"]}, "the schema of A is of another type: None"),
    ],
)
def test_files_that_fastavro_would_read_without_end_are_named(
    tmp_path: Path, files: dict[str, Any], message: str
) -> None:
    for name, schema in files.items():
        (tmp_path / f"{name}.avsc").write_text(json.dumps(schema))
    wanted = tmp_path / "wanted.avsc"
    wanted.write_text(json.dumps(record("Wanted", a="A")))
    with pytest.raises(SerdeError, match=message):
        avro(wanted)


def test_types_in_a_namespace_that_several_use_are_read(tmp_path: Path) -> None:
    for name, schema in {
        "shop.Id": {**record("Id", n="long"), "namespace": "shop"},
        "shop.Line": {**record("Line", id="Id", next=["null", "Line"]), "namespace": "shop"},
        "wanted": record("shop.Order", a="Id", lines=items_of("Line"), b="shop.Id"),
    }.items():
        (tmp_path / f"{name}.avsc").write_text(json.dumps(schema))
    order = {"a": {"n": 1}, "lines": [{"id": {"n": 2}, "next": None}], "b": {"n": 3}}
    serde = avro(tmp_path / "wanted.avsc")
    assert serde.decode(serde.encode(order)) == order
