"""Records that are written to a topic: how many of them were delivered."""

from __future__ import annotations

import pytest

from streamlet.clock import ManualClock
from streamlet.errors import DeliveryError
from streamlet.records.lines import InputRecord
from streamlet.records.writer import TopicWriter
from streamlet.testing.memory_log import MemoryLog
from streamlet.testing.memory_ports import MemorySink


def test_an_error_of_the_delivery_tells_how_many_were_sent() -> None:
    log = MemoryLog()
    log.create("words", 1)
    sink = MemorySink(log, hold=True)
    writer = TopicWriter(sink, "words", ManualClock(), "words.txt")
    writer.send([InputRecord(line, None, b"x") for line in (1, 2)])
    assert writer.deliver() == 2
    writer.send([InputRecord(3, None, b"x")])
    sink.fail("the topic is gone")
    with pytest.raises(DeliveryError, match="of 3 records sent: the topic is gone"):
        writer.deliver()
