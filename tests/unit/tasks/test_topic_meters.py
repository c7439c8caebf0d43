"""What a worker counts of the topics that it reads and writes."""

from __future__ import annotations

from streamlet.clock import ManualClock
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.outputs import Output
from streamlet.tasks.topic_meters import MAX_MS, MOST_TOPICS, OTHERS, TopicMeters


def output(topic: str, *timestamps: int) -> Output:
    count = len(timestamps)
    return Output(topic, [b"12"] * count, [b"3456"] * count, list(timestamps))


def test_each_output_is_as_late_as_its_timestamp_is_old() -> None:
    clock = ManualClock(100_000)
    topics = TopicMeters(clock)
    topics.written([output("a", 99_997, 99_400, 100_500), output("b", *range(90_000, 99_000))])
    one = topics.produced["a"]
    assert one.latency.sum == 0.003 + 0.6 + 0.0  # the future counts as now
    assert (sum(one.latency.counts), one.records) == (3, 3)
    some = topics.produced["b"]
    assert (sum(some.latency.counts), some.records) == (9_000, 9_000)
    assert 0.99 <= some.latency.sum / (9_000 * 5.5) <= 1.01, "a few records stand for all"
    assert topics.latency_max() == {("a",): 0.6, ("b",): 10.0}
    clock.advance(MAX_MS)
    topics.written([output("a", 129_999)])
    assert topics.latency_max()["a",] == 0.6
    clock.advance(5_000)
    assert topics.latency_max()["a",] == 0.001


def test_records_and_bytes_are_counted_by_topic_and_way() -> None:
    topics = TopicMeters(ManualClock())
    for first in (0, 2):
        batch = PartitionBatch("a", 0, range(first, first + 2), [None] * 2, [b"value"] * 2, [0, 0])
        topics.read(batch)
    topics.written([output("a", 0)])
    read, written = topics.consumed["a"], topics.produced["a"]
    assert (read.records, written.records) == (4, 1)
    assert (read.bytes, written.bytes) == (4 * (32 + 5), 32 + 6)


def test_topics_without_bound_are_counted_together() -> None:
    topics = TopicMeters(ManualClock())
    topics.written([output(f"t{number}", 0) for number in range(MOST_TOPICS + 5)])
    assert len(topics.produced) == MOST_TOPICS + 1
    assert topics.produced[OTHERS].records == 5
