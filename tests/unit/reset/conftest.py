"""The application that the tests of this folder reset or delete."""

from __future__ import annotations

import pytest

from tests.unit.reset.scene import Scene, ran


@pytest.fixture
def scene() -> Scene:
    """It has run, and is stopped."""
    return ran()
