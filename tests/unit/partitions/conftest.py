"""Members of plain consumers' groups around the fake coordinator."""

from __future__ import annotations

import pytest

from tests.unit.coordinator.conftest import World


@pytest.fixture
def world() -> World:
    """Members around a fake coordinator."""
    return World()
