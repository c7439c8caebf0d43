"""A registry on loopback, and a client of it that does not wait between its tries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import streamlet as sl
from tests.registry_server import RegistryServer


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


@pytest.fixture
def registry(server: RegistryServer) -> sl.registry.Registry:
    found = sl.registry.Registry(server.url)
    found._connection.block = lambda ms: None
    return found
