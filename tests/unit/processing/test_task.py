"""The task on hand-made subtopologies: decoding, forks, failures, outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from streamlet.batch import Batch, OperatorFailed
from streamlet.errors import ProcessingError
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.outputs import Output
from streamlet.processing.policy import ErrorPolicy
from streamlet.processing.task import Task
from streamlet.serdes import serde
from streamlet.state.task_state import TaskState
from streamlet.topology.graph import Graph
from streamlet.topology.nodes import ProcessorNode, SinkNode, SourceNode
from streamlet.types import TaskId, TopicPartition

STR, INT = serde(str), serde(int)
IN = TopicPartition("in", 0)


@attrs.frozen
class Each:
    """An operator that applies a function to every value."""

    function: Callable[[Any], Any]

    def process(self, batch: Batch) -> Batch:
        out: list[Any] = []
        try:
            out.extend(map(self.function, batch.values))
        except Exception as error:
            done = batch.slice(0, len(out)).with_values(out)
            raise OperatorFailed(len(out), done, again=True) from error
        return batch.with_values(out)


def each(name: str, parents: tuple[str, ...], function: Callable[[Any], Any]) -> ProcessorNode:
    return ProcessorNode(name, parents, lambda context: Each(function))


def graph(*nodes: ProcessorNode | SinkNode, **source: Any) -> Graph:
    built = Graph("app")
    built.add_source(SourceNode("source", ("in",), STR, STR, **source))
    for node in nodes:
        if isinstance(node, SinkNode):
            built.add_sink(node)
        else:
            built.add_processor(node)
    return built


def sink(*parents: str, topic: str = "out", value: Any = STR, **more: Any) -> SinkNode:
    return SinkNode(f"to-{topic}-from-{'-'.join(parents)}", parents, topic, STR, value, **more)


def task(built: Graph, policy: ErrorPolicy | None = None, **more: Any) -> Task:
    part = built.freeze().subtopology(0)
    state = TaskState(None, part.stores, 1 << 20)
    return Task(TaskId(0, 0), part, state, {IN: 0}, policy=policy, **more)


def raw(*values: str | bytes | None, first: int = 0) -> PartitionBatch:
    data = [v.encode() if isinstance(v, str) else v for v in values]
    count = len(data)
    keys: list[bytes | None] = [b"k%d" % i for i in range(count)]
    times = [1000 + i for i in range(count)]
    return PartitionBatch("in", 0, range(first, first + count), keys, data, times)


def values(outputs: list[Output], topic: str = "out") -> list[bytes | None]:
    return [value for out in outputs if out.topic == topic for value in out.values]


def upper(value: str) -> str:
    if value == "bad":
        raise ValueError("no such word")
    return value.upper()


def test_records_go_from_source_to_sink_with_their_times() -> None:
    running = task(graph(each("up", ("source",), upper), sink("up")))
    (out,) = running.process(raw("a", "b"))
    assert (out.keys, out.values, out.timestamps) == ([b"k0", b"k1"], [b"A", b"B"], [1000, 1001])
    assert running.positions == {IN: 2}
    assert running.stream_time == 1001


def test_a_failing_record_stops_the_task_and_names_itself() -> None:
    """What was before it went on to the sink; the caller drops the task."""
    running = task(graph(each("up", ("source",), upper), sink("up")))
    with pytest.raises(ProcessingError, match=r"in-0 offset 8, operator up") as caught:
        running.process(raw("a", "bad", "b", first=7))
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_failing_record_tells_the_line_of_the_program_it_failed_on() -> None:
    running = task(graph(each("upper", ("source",), upper), sink("upper")))
    line = upper.__code__.co_firstlineno + 2
    said = (
        rf"test_task\.py:{line} in upper, `raise ValueError\(.*\)`: ValueError: no such word; a rec"
    )
    with pytest.raises(ProcessingError, match=said):
        running.process(raw("bad"))


def test_a_failing_record_is_skipped_and_counted() -> None:
    running = task(graph(each("up", ("source",), upper), sink("up")), ErrorPolicy.of("skip"))
    assert values(running.process(raw("a", "bad", "b", "bad"))) == [b"A", b"B"]
    assert running.counters.skipped == 2
    assert running.positions == {IN: 4}


def test_a_dead_letter_is_the_record_as_it_was_read_with_the_reason() -> None:
    policy = ErrorPolicy.of(("dead_letter", "dlq"))
    running = task(graph(each("up", ("source",), upper), sink("up")), policy)
    outputs = running.process(raw("a", "bad", "b"))
    assert values(outputs) == [b"A", b"B"]
    (letter,) = [out for out in outputs if out.topic == "dlq"]
    assert (letter.keys, letter.values) == ([b"k1"], [b"bad"])
    assert letter.headers is not None
    assert letter.headers[0] is not None
    headers = dict(letter.headers[0])
    assert headers["streamlet.error"] == b"ValueError"
    assert headers["streamlet.offset"] == b"1"
    assert headers["streamlet.operator"] == b"up"


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_an_undecodable_record_meets_the_policy_and_spares_its_neighbours(bad: int) -> None:
    data: list[str | bytes | None] = ["a", "b", "c"]
    data[bad] = b"\xff\xfe"
    running = task(graph(sink("source")), ErrorPolicy.of(("dead_letter", "dlq")))
    outputs = running.process(raw(*data))
    assert values(outputs) == [v.encode() for v in "abc" if "abc".index(v) != bad]
    assert values(outputs, "dlq") == [b"\xff\xfe"]
    assert running.positions == {IN: 3}
    with pytest.raises(ProcessingError, match=f"offset {bad}, operator source"):
        task(graph(sink("source"))).process(raw(*data))


def test_a_value_the_sink_cannot_encode_meets_the_policy() -> None:
    numbers = each("number", ("source",), lambda text: int(text) if text.isdigit() else text)
    running = task(graph(numbers, sink("number", value=INT)), ErrorPolicy.of("skip"))
    assert values(running.process(raw("1", "x", "3"))) == [INT.encode(1), INT.encode(3)]
    with pytest.raises(ProcessingError, match="offset 1, operator to-out"):
        task(graph(numbers, sink("number", value=INT))).process(raw("1", "x", "3"))


def test_a_tombstone_is_a_value() -> None:
    running = task(graph(sink("source")))
    (out,) = running.process(raw("a", None, ""))
    assert out.values == [b"a", None, b""]


def test_branches_that_end_in_one_topic_take_records_in_turn() -> None:
    """As if records had come singly: for each key the first branch's output comes first."""
    built = graph(
        each("left", ("source",), lambda v: v + "<"),
        each("right", ("source",), lambda v: v + ">"),
        sink("left"),
        sink("right"),
    )
    outputs = task(built).process(raw("a", "b"))
    assert values(outputs) == [b"a<", b"a>", b"b<", b"b>"]
    assert len(outputs) == 1, "single records are joined into one output again"


def test_branches_that_end_apart_take_the_whole_batch() -> None:
    built = graph(
        each("left", ("source",), lambda v: v + "<"),
        each("right", ("source",), lambda v: v + ">"),
        sink("left", topic="one"),
        sink("right", topic="two"),
    )
    assert [out.values for out in task(built).process(raw("a", "b"))] == [
        [b"a<", b"b<"],
        [b"a>", b"b>"],
    ]


def test_the_users_partitioner_is_asked_for_each_record() -> None:
    node = sink("source", partitioner=lambda key, value, count: len(value) % count)
    (out,) = task(graph(node), partition_counts={"out": 3}).process(raw("a", "abcd", "ab"))
    assert out.partitions == [1, 1, 2]


def test_a_failing_partitioner_meets_the_policy() -> None:
    def choose(key: str, value: str, count: int) -> int:
        return {"a": 0, "b": 1}[value]

    running = task(
        graph(sink("source", partitioner=choose)),
        ErrorPolicy.of("skip"),
        partition_counts={"out": 2},
    )
    (out,) = running.process(raw("a", "c", "b"))
    assert (out.values, out.partitions) == ([b"a", b"b"], [0, 1])


def test_records_to_no_partition_before_one_that_fails_are_no_output() -> None:
    node = sink("source", partitioner=lambda key, value, count: {"a": ()}[value])
    running = task(graph(node), ErrorPolicy.of("skip"), partition_counts={"out": 2})
    assert running.process(raw("a", "c")) == []
    assert (running.counters.dropped, running.counters.skipped) == (1, 1)


def test_the_users_timestamp_is_taken_and_a_negative_one_drops_the_record() -> None:
    built = graph(sink("source"), timestamp=lambda key, value, time: int(value))
    running = task(built)
    (out,) = running.process(raw("5", "-1", "7"))
    assert (out.values, out.timestamps) == ([b"5", b"7"], [5, 7])
    assert running.counters.dropped == 1


def test_a_record_whose_own_time_is_negative_meets_the_policy() -> None:
    batch = attrs.evolve(raw("a", "b", "c"), timestamps=[5, -1, 7])
    with pytest.raises(ProcessingError, match=r"negative timestamp \(ValueError: -1 ms; it was"):
        task(graph(sink("source"))).process(batch)
    running = task(graph(sink("source")), ErrorPolicy.of("skip"))
    (out,) = running.process(batch)
    assert (out.values, out.timestamps) == ([b"a", b"c"], [5, 7])
    assert (running.counters.skipped, running.counters.dropped) == (1, 0)


def test_a_time_of_0_is_a_time() -> None:
    (out,) = task(graph(sink("source"))).process(attrs.evolve(raw("a"), timestamps=[0]))
    assert out.timestamps == [0]


def test_an_extractor_may_see_the_highest_time_that_it_gave_the_partition_before() -> None:
    def extract(key: str, value: str, time: int, highest: int) -> int:
        return highest if value == "?" else int(value)

    built = graph(sink("source"), timestamp=extract, partition_time=True)
    running = task(built, ErrorPolicy.of("skip"))
    (out,) = running.process(raw("?", "5", "?", "3", "x", "?", "-1"))
    assert out.timestamps == [5, 5, 3, 5], "before the first it is -1, which drops the record"
    (out,) = running.process(attrs.evolve(raw("?"), offsets=range(7, 8)))
    assert out.timestamps == [5]
    assert (running.counters.dropped, running.counters.skipped) == (2, 1)


def test_an_extractor_that_raises_stop_iteration_fails_on_its_record() -> None:
    built = graph(
        sink("source"), timestamp=lambda key, value, time: next(iter([int(value)][: value != "0"]))
    )
    running = task(built, ErrorPolicy.of("skip"))
    (out,) = running.process(raw("5", "0", "7"))
    assert (out.timestamps, running.counters.skipped) == ([5, 7], 1)


def test_a_timestamp_that_cannot_be_read_meets_the_policy() -> None:
    built = graph(sink("source"), timestamp=lambda key, value, time: int(value))
    running = task(built, ErrorPolicy.of("skip"))
    (out,) = running.process(raw("5", "x", "7"))
    assert out.timestamps == [5, 7]


@pytest.mark.parametrize("given", [None, "5", 1.5, True, 1 << 63])
def test_a_timestamp_that_is_none_meets_the_policy(given: Any) -> None:
    built = graph(sink("source"), timestamp=lambda key, value, time: given if value == "x" else 7)
    running = task(built, ErrorPolicy.of("skip"))
    (out,) = running.process(raw("5", "x", "7"))
    assert out.timestamps == [7, 7]
    assert running.counters.skipped == 1


@pytest.mark.parametrize("given", [[None], "0", 1.0, True, -1, 2])
def test_a_partition_that_there_is_not_meets_the_policy(given: Any) -> None:
    node = sink("source", partitioner=lambda key, value, count: given if value == "x" else 1)
    running = task(graph(node), ErrorPolicy.of("skip"), partition_counts={"out": 2})
    (out,) = running.process(raw("a", "x", "b"))
    assert (out.values, out.partitions) == ([b"a", b"b"], [1, 1])
    assert running.counters.skipped == 1


def test_the_origin_of_an_output_is_found_behind_filters_and_joined_outputs() -> None:
    built = graph(
        each("left", ("source",), lambda v: v),
        each("right", ("source",), lambda v: v),
        sink("left"),
        sink("right"),
    )
    (out,) = task(built).process(raw("a", "b", first=40))
    assert [out.origin(i) for i in range(4)] == [(IN, 40), (IN, 40), (IN, 41), (IN, 41)]
    rest = out.behind(1)
    assert (rest.values, rest.origin(0)) == ([b"b", b"b"], (IN, 41))
