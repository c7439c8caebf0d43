"""Classes of pydantic with a registry: JSON that pydantic checks, and nothing else."""

from __future__ import annotations

import json

import pydantic
import pytest

import streamlet as sl
from streamlet.errors import SerdeError
from tests.registry_server import RegistryServer


class Priced(pydantic.BaseModel):
    price: pydantic.PositiveInt = pydantic.Field(alias="Price")


def test_a_model_of_pydantic_is_json_with_its_own_schema(
    server: RegistryServer, registry: sl.registry.Registry
) -> None:
    serde = sl.registry.json(Priced, registry=registry)
    raw = serde.encode(Priced(Price=3))
    found = json.loads(server.schemas[0]["schema"])
    assert (found["title"], found["required"]) == ("Priced", ["Price"])
    assert serde.decode(raw) == Priced(Price=3)
    with pytest.raises(SerdeError, match="greater than 0"):
        serde.decode(raw.replace(b"3", b"0"))
    with pytest.raises(SerdeError, match="Priced is pydantic's, whose checks hold only in JSON"):
        sl.registry.avro(Priced, registry=registry)
