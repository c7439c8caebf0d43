"""The outputs of a task are few, and each topic's records stay in their order."""

from __future__ import annotations

from streamlet.processing.merged_batch import InputPlaces
from streamlet.processing.output_order import OutputQueue
from streamlet.processing.outputs import Output
from streamlet.types import TopicPartition

IN = TopicPartition("in", 0)


def _output(topic: str, *offsets: int, partition: int | None = None) -> Output:
    """One record for each offset, whose value is that offset."""
    values: list[bytes | None] = [b"%d" % offset for offset in offsets]
    partitions = None if partition is None else [partition] * len(offsets)
    times = [0] * len(offsets)
    return Output(topic, [b"k"] * len(values), values, times, partitions, None, [(1, IN, offsets)])


def _taken(queue: OutputQueue) -> list[tuple[str, list[bytes | None]]]:
    return [(output.topic, output.values) for output in queue.take()]


def test_outputs_of_one_topic_are_joined_across_those_of_another() -> None:
    queue = OutputQueue()
    for offset in range(3):
        queue.emit(_output("a", offset))
        queue.emit(_output("b", offset))
    joined = queue.take()
    assert [(one.topic, one.values) for one in joined] == [
        ("a", [b"0", b"1", b"2"]),
        ("b", [b"0", b"1", b"2"]),
    ]
    assert joined[1].origin(2) == (IN, 2)


def test_outputs_with_other_columns_stay_in_their_order() -> None:
    queue = OutputQueue()
    queue.emit(_output("a", 0))
    queue.emit(_output("a", 1, partition=3))
    queue.emit(_output("a", 2))
    assert _taken(queue) == [("a", [b"0"]), ("a", [b"1"]), ("a", [b"2"])]


def test_nothing_is_joined_with_what_was_taken_or_stands_before_a_merged_batch() -> None:
    queue = OutputQueue()
    queue.emit(_output("a", 0))
    assert _taken(queue) == [("a", [b"0"])]
    queue.emit(_output("a", 1))
    queue.gather()
    queue.emit(_output("a", 2))
    assert queue.arrange({IN: InputPlaces.at([2], [0])}) == 1
    queue.emit(_output("a", 3))
    assert [value for _, values in _taken(queue) for value in values] == [b"1", b"2", b"3"]
