"""What a reading of the live page asks brokers for."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import pytest

from streamlet.admin.status_look import StatusLook
from streamlet.clock import ManualClock
from streamlet.control.topic import prepare_control
from streamlet.errors import BrokerError
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog
from streamlet.types import TopicPartition
from streamlet.web.live.reader import SIZES_MS, LiveLook, live_status
from streamlet.web.live.values import DescribedTopology, GraphPart, GraphSubtopology
from tests.unit.scaling.scene import Coordinator, Scene

STORE = GraphPart("counts", changelog="changes")
TOPOLOGY = DescribedTopology((GraphSubtopology(0, stores=(STORE,)),))


def test_topics_are_listed_once_and_sizes_of_slow_brokers_are_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, clock, asked = MemoryLog(), ManualClock(1_000), [Future[Any]() for _ in range(2)]
    prepare_control(MemoryAdmin(log), "flights")
    log.create("changes", 2)
    log.create("in", 3)
    coordinator, answers = Coordinator(), iter(asked)
    monkeypatch.setattr(Coordinator, "log_sizes", lambda *_: next(answers))
    window = Scene(log, coordinator, clock, threading.Event()).cluster()
    window.control.read()
    listed: list[int] = []
    topics = MemoryAdmin.topics

    def counted(admin: MemoryAdmin) -> Any:
        listed.append(1)
        return topics(admin)

    monkeypatch.setattr(MemoryAdmin, "topics", counted)
    look = LiveLook(live_status(StatusLook(window)), TOPOLOGY)
    partitions = [TopicPartition("changes", number) for number in range(2)]
    first = look.read()
    assert (listed, first.sizes, set(first.ends)) == ([1], {}, set(partitions))
    assert first.status["input_lag"] == {"in": {"0": 0}}
    asked[0].set_result({partitions[0]: 700})
    assert look.read().sizes == {partitions[0]: 700}
    clock.advance(SIZES_MS)
    assert look.read().sizes == {partitions[0]: 700}
    asked[1].set_exception(BrokerError("it does not tell"))
    assert look.read().sizes == {}
