"""Topics that are written and are not there: a start names them, before the first record fails."""

from __future__ import annotations

import pytest

from streamlet import App
from streamlet.config import Settings
from streamlet.runtime.catalog import Catalog
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog


def test_outputs_that_are_missing_are_named_once_at_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = MemoryLog()
    log.create("in", 2)
    app = App("app")
    app.stream("in", key=str, value=int).to("out")
    settings = Settings.load(overrides=["metadata.max.age.ms=10"])
    catalog = Catalog(app.topology(), MemoryAdmin(log), settings, None)
    catalog.prepare()
    catalog.look(0, at_once=True)
    missing = [line for line in caplog.messages if "is written and does not exist" in line]
    assert [line.partition(":")[0] for line in missing] == [
        "topic 'out' is written and does not exist, or may not be seen"
    ]
    caplog.clear()
    log.create("out", 1)
    Catalog(app.topology(), MemoryAdmin(log), settings, None).prepare()
    assert not caplog.records
