"""Fixtures of the tests of scaling."""

from __future__ import annotations

import threading

import pytest

from streamlet.clock import ManualClock
from streamlet.control.topic import prepare_control
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog
from tests.unit.scaling.scene import Coordinator, Scene


@pytest.fixture
def scene() -> Scene:
    log = MemoryLog()
    admin = MemoryAdmin(log)
    prepare_control(admin, "flights")
    log.create("changes", 3)
    log.create("in", 3)
    return Scene(log, Coordinator(), ManualClock(1_000), threading.Event())
