"""Making, reading and writing the control topic, over a log in memory."""

from __future__ import annotations

import pytest

from streamlet.clock import ManualClock
from streamlet.control.records import place_of
from streamlet.control.topic import (
    CONFIG,
    ControlTopic,
    control_topic_name,
    is_control_topic,
    prepare_control,
)
from streamlet.control.values import Mark, ResetEpoch
from streamlet.control.view import ControlView
from streamlet.errors import BrokerError, TopologyError
from streamlet.kafka.ports import OutgoingRecords, PartitionBatch
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog, MemorySink, MemorySource
from streamlet.types import TopicPartition

APP = "flights"
TOPIC = "flights-streamlet-control"


def opened(log: MemoryLog) -> ControlTopic:
    return ControlTopic(APP, MemorySource(log), MemorySink(log), MemoryAdmin(log), ManualClock())


def test_the_topic_is_made_once_and_known_by_its_name() -> None:
    log = MemoryLog()
    assert prepare_control(MemoryAdmin(log), APP) == prepare_control(MemoryAdmin(log), APP) == TOPIC
    assert (log.infos()[TOPIC].partitions, log.config(TOPIC)) == (1, dict(CONFIG))
    assert is_control_topic(control_topic_name("x"))
    assert not is_control_topic("flights-counts-changelog")


@pytest.mark.parametrize(
    ("partitions", "policy", "said"),
    [(2, "compact", "2 partitions"), (1, "delete", "cleanup.policy=delete"), (3, "", "and")],
)
def test_a_topic_of_another_shape_is_refused(partitions: int, policy: str, said: str) -> None:
    log = MemoryLog()
    log.create(TOPIC, partitions, {"cleanup.policy": policy})
    with pytest.raises(TopologyError, match=said):
        prepare_control(MemoryAdmin(log), APP)


def test_reading_goes_to_the_end_and_over_gaps() -> None:
    log = MemoryLog()
    prepare_control(MemoryAdmin(log), APP)
    with opened(log) as writer:
        writer.write(Mark("p1", 1), Mark("p2", 2))
        writer.remove(place_of(Mark("p1", 1)))
        writer.flush()
    log.gap(TopicPartition(TOPIC, 0), 3)
    log.compact(TopicPartition(TOPIC, 0))
    with opened(log) as reader:
        assert reader.read().marks == {"p2": Mark("p2", 2)}
        assert not reader.follow(0)
        with opened(log) as writer:
            writer.write(ResetEpoch(1))
            writer.flush()
        assert reader.follow(0)
        assert reader.view.reset == ResetEpoch(1)


def test_reading_a_topic_that_is_not_there_finds_nothing() -> None:
    with opened(MemoryLog()) as reader:
        assert reader.read().marks == {}


def test_a_topic_that_others_write_to_all_the_time_is_read_for_a_while_only() -> None:
    log, clock = MemoryLog(), ManualClock()
    prepare_control(MemoryAdmin(log), APP)
    writer = opened(log)

    class Busy(MemorySource):
        """Each poll finds a record that was written since the last one."""

        def poll(self, max_records: int, timeout_ms: int, idle_ms: int = 0) -> list[PartitionBatch]:
            clock.advance(1)
            writer.write(Mark("p1", clock.now_ms()))
            writer.flush()
            return super().poll(max_records, timeout_ms, idle_ms)

    with ControlTopic(APP, Busy(log), MemorySink(log), MemoryAdmin(log), clock) as reader:
        writer.write(Mark("p1", 1))
        writer.flush()
        reader.read()
        assert reader.latest().marks["p1"].since_ms > 1


def test_records_that_cannot_be_read_are_counted_named_once_and_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = MemoryLog()
    prepare_control(MemoryAdmin(log), APP)
    keys: list[bytes | None] = [b"caf\xe9", b'{"kind":"mark","instance":"\xff"}', None]
    with opened(log) as topic:
        topic.write(Mark("p1", 1))
        topic.flush()
        MemorySink(log).send(OutgoingRecords(TOPIC, keys, [b"x", b"{}", None], None, 0))
        topic.write(Mark("p2", 2))
        topic.flush()
        assert topic.read().marks.keys() == topic.read().marks.keys() == {"p1", "p2"}
        assert topic.unreadable == 3
    (line,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert line.startswith(f"{TOPIC}: the record at offset 1 (and 2 more up to 3) cannot be read")


def test_the_topic_is_read_once_and_followed_from_then_on() -> None:
    log = MemoryLog()
    source, sink, admin = MemorySource(log), MemorySink(log), MemoryAdmin(log)
    topic = ControlTopic("flights", source, sink, admin, ManualClock())
    assert topic.latest() == ControlView()  # it is not there
    log.create("flights-streamlet-control", 1)
    topic.write(Mark("process", 5))
    assert topic.latest().marks == {"process": Mark("process", 5)}
    topic.remove((Mark, "process"))
    topic.write(Mark("other", 6))
    assert topic.latest().marks == {"other": Mark("other", 6)}


def test_the_topic_is_read_again_after_an_error() -> None:
    """A client that met a fatal error may have left out what it was about to return."""

    class Failing(MemorySource):
        fails = False

        def poll(self, max_records: int, timeout_ms: int, idle_ms: int = 0) -> list[PartitionBatch]:
            found = super().poll(max_records, timeout_ms, idle_ms)
            if self.fails:
                self.fails = False
                raise BrokerError("fatal")
            return found

    log = MemoryLog()
    log.create("flights-streamlet-control", 1)
    source = Failing(log)
    topic = ControlTopic("flights", source, MemorySink(log), MemoryAdmin(log), ManualClock())
    topic.latest()
    topic.write(Mark("process", 5))
    source.fails = True
    with pytest.raises(BrokerError):
        topic.latest()
    assert topic.latest().marks == {"process": Mark("process", 5)}
