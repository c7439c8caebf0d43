"""A registry that cannot be asked, for want of an address or for a bug of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import RegistryError
from streamlet.registry.client import default_registry
from streamlet.testing import TopologyTestDriver


@dataclass
class Name:
    text: str


class Broken:
    """A registry that does not know of streamlet's errors."""

    def by_id(self, schema_id: int) -> Any:
        raise LookupError("throttled")

    by_guid = by_id

    def id_of(self, subject: str, schema: Any, *, register: bool) -> int:
        raise LookupError("throttled")


@pytest.mark.parametrize(
    ("registry", "says"), [(None, "set SCHEMA_REGISTRY_URL"), (Broken(), "LookupError: throttled")]
)
def test_a_registry_that_cannot_be_asked_is_no_records_fault(
    monkeypatch: pytest.MonkeyPatch, registry: Any, says: str
) -> None:
    monkeypatch.delenv("SCHEMA_REGISTRY_URL", raising=False)
    default_registry.cache_clear()
    serde = sl.registry.avro(Name, registry=registry)
    with pytest.raises(RegistryError, match=says):
        serde.encode_column([Name("a")])
    app = sl.App("a", on_error="skip")
    app.stream("lines", key=str, value=serde).to("names", value=sl.serde(Name))
    for raw in (b"\0\0\0\0\1\2", b"\1" + bytes(17)):
        with TopologyTestDriver(app) as driver, pytest.raises(RegistryError, match=says):
            driver.pipe_bytes("lines", key=b"a", value=raw)
