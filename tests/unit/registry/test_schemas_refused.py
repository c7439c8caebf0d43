"""Schemas of a registry that would take any time, or the process with them."""

from __future__ import annotations

from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import SerdeError
from tests.registry_server import RegistryServer


@pytest.mark.parametrize("types", [1_900, 20_000])
def test_a_schema_of_many_types_takes_little_time(
    server: RegistryServer, registry: sl.registry.Registry, types: int
) -> None:
    """fastavro notes all types at each of a union: copied with it they would be millions."""
    one = {"name": "x", "type": "int"}
    union = [{"type": "record", "name": f"A{n}", "fields": [one]} for n in range(types)]
    raw = b"\0" + server.add(union).to_bytes(4, "big") + b"\0\2"
    serde = sl.registry.avro(registry=registry)
    if types < 2_000:
        assert serde.decode(raw) == ("A0", {"x": 1})
        return
    with pytest.raises(SerdeError, match=r"more than 2,000 named types"):
        serde.decode(raw)


def test_notes_of_a_stranger_in_a_schema_are_not_believed(
    server: RegistryServer, registry: sl.registry.Registry
) -> None:
    known = server.add({"type": "record", "name": "R", "fields": 5, "__fastavro_parsed": True})
    with pytest.raises(SerdeError, match="not a valid schema"):
        sl.registry.avro(registry=registry).decode(b"\0" + known.to_bytes(4, "big") + b"\2")


@pytest.mark.parametrize("other", ["Other", "B"])
def test_references_that_define_another_type_or_each_other_are_an_error(
    server: RegistryServer, registry: sl.registry.Registry, other: str
) -> None:
    def uses(name: str, of: str) -> dict[str, Any]:
        return {"type": "record", "name": name, "fields": [{"name": "a", "type": of}]}

    server.add(uses(other, "C"), "b")
    server.add(uses("C", "B"), "c")
    both = [{"name": name.upper(), "subject": name, "version": 1} for name in "bc"]
    known = server.add(uses("A", "B"), references=both)
    with pytest.raises(SerdeError, match=r"of another type: Other|use each other"):
        sl.registry.avro(registry=registry).decode(b"\0" + known.to_bytes(4, "big") + b"\2")
