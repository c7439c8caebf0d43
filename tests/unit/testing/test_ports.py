"""The log in memory behaves as a broker's log does where the runtime can tell."""

import pytest

from streamlet.errors import BrokerError, DeliveryError, MissingTopicError
from streamlet.kafka.murmur2 import murmur2
from streamlet.kafka.ports import Admin, NewTopic, OutgoingRecords, RecordSink, RecordSource
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog, MemorySink, MemorySource
from streamlet.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    log.create("t", 2)
    return log


def test_the_doubles_fit_the_ports(log: MemoryLog) -> None:
    source: RecordSource = MemorySource(log)
    sink: RecordSink = MemorySink(log)
    admin: Admin = MemoryAdmin(log)
    assert admin.topics()["t"].partitions == 2
    sink.close()
    source.close()


def test_murmur2_agrees_with_the_vectors_of_kafkas_own_test() -> None:
    """From org.apache.kafka.common.utils.UtilsTest, as signed 32-bit numbers."""
    vectors = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }
    signed = {key: (murmur2(key) ^ 0x80000000) - 0x80000000 for key in vectors}
    assert signed == vectors


def test_partitions_take_turns_within_one_poll(log: MemoryLog) -> None:
    for partition in (T0, T1):
        log.append(partition, [b"k"] * 5, [b"v"] * 5)
    source = MemorySource(log)
    source.assign({T0: 0, T1: 1})
    first = source.poll(4, 0)
    assert [(b.partition, b.offsets) for b in first] == [(0, range(0, 2)), (1, range(1, 3))]
    source.pause([T0])
    assert [(b.partition, b.offsets) for b in source.poll(10, 0)] == [(1, range(3, 5))]
    source.resume([T0])
    source.unassign([T1])
    assert [(b.partition, b.offsets) for b in source.poll(10, 0)] == [(0, range(2, 5))]


def test_offsets_show_gaps_and_positions_pass_them(log: MemoryLog) -> None:
    log.append(T0, [b"a", b"b", b"a"], [b"1", b"2", b"3"])
    log.gap(T0, 2)
    log.append(T0, [b"c"], [None])
    log.gap(T0)
    log.compact(T0)
    source = MemorySource(log)
    source.assign({T0: 0})
    (batch,) = source.poll(10, 0)
    assert list(batch.offsets) == [1, 2, 5]
    assert source.positions([T0]) == {T0: 7}
    log.compact(T0, drop_tombstones=True)
    assert [r.key for r in log.records(T0)] == [b"b", b"a"]


def test_an_offset_out_of_range_is_an_error(log: MemoryLog) -> None:
    log.append(T0, [b"a"] * 3, [b"1"] * 3)
    MemoryAdmin(log).delete_records({T0: 2})
    source = MemorySource(log)
    source.assign({T0: 1})
    with pytest.raises(BrokerError, match="out of range"):
        source.poll(1, 0)
    log.lose_tail(T0, 2)
    source.assign({T0: 3})
    with pytest.raises(BrokerError, match="out of range"):
        source.poll(1, 0)


def test_a_topic_made_anew_has_another_id(log: MemoryLog) -> None:
    admin = MemoryAdmin(log)
    before = admin.topics()["t"].topic_id
    assert admin.topic_ids(["t", "unknown"]) == {"t": before}
    admin.delete_topics(["t", "unknown"])
    with pytest.raises(MissingTopicError):
        log.end(T0)
    admin.create_topics([NewTopic("t", 1, config=(("cleanup.policy", "compact"),))])
    assert admin.topics()["t"].topic_id != before
    assert log.config("t") == {"cleanup.policy": "compact"}


def test_held_records_appear_on_delivery_and_are_lost_with_the_sink(log: MemoryLog) -> None:
    sink = MemorySink(log, hold=True)
    sink.send(OutgoingRecords("t", [b"a", b"b"], [b"1", b"2"], partitions=0, timestamps=[7, 8]))
    assert log.end(T0) == 0
    sink.deliver(1)
    assert [(r.key, r.timestamp) for r in log.records(T0)] == [(b"a", 7)]
    sink.close()
    sink.flush(0)
    assert log.end(T0) == 1


def test_a_failing_sink_says_so_at_flush(log: MemoryLog) -> None:
    sink = MemorySink(log)
    sink.fail("broker gone")
    sink.send(OutgoingRecords("t", [b"a"], [b"1"]))
    with pytest.raises(DeliveryError, match="broker gone"):
        sink.flush(0)
    with pytest.raises(DeliveryError, match="no topic"):
        sink.send(OutgoingRecords("unknown", [b"a"], [b"1"]))
