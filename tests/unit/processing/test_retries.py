"""Records that are tried again: with pauses, in order, a bounded number of times."""

from __future__ import annotations

from typing import Any, cast

import pytest

import streamlet as sl
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.edges.plan import KnownEnd, TaskEdges
from streamlet.processing.policy import ErrorPolicy
from streamlet.processing.task import Task
from streamlet.state.task_state import TaskState
from streamlet.testing import TopologyTestDriver
from streamlet.types import TaskId, TopicPartition
from tests.unit.processing.test_task import IN, each, graph, raw, sink, task, values


class Flaky:
    """A function that fails on a value so many times, and notes its calls."""

    def __init__(self, **failures: int) -> None:
        self.left = failures
        self.calls: list[Any] = []

    def __call__(self, value: Any) -> Any:
        self.calls.append(value)
        if self.left.get(value, 0):
            self.left[value] -= 1
            raise ConnectionError(value)
        return value


def tried(answer: Any, flaky: Flaky, **more: Any) -> Task:
    built = graph(each("up", ("source",), flaky), sink("up"))
    return task(built, ErrorPolicy.of(answer), **more)


RETRY = sl.Retry(4, backoff=100, longest=250)


def test_pauses_double_up_to_the_longest() -> None:
    assert [RETRY.pause_ms(attempt) for attempt in range(1, 5)] == [100, 200, 250, 250]
    assert sl.Retry(1_000, backoff=1).pause_ms(999) == 10_000


def test_a_task_in_parts_comes_back_to_the_record_when_it_is_due() -> None:
    flaky = Flaky(b=2)
    running = tried(RETRY, flaky, in_parts=True)
    assert values(running.process(raw("a", "b", "c"), now_ms=1_000)) == [b"a"]
    assert (running.pausing, running.retrying, running.under_way) == (True, True, True)
    assert running.positions == {IN: 0}
    assert [running.waits(1_099), running.waits(1_100)] == [False, True]
    assert values(running.process(raw("d", first=3), now_ms=1_050)) == []
    assert running.buffered() == {IN: 1}
    assert values(running.resume(1_100)) == []
    assert values(running.resume(1_299)) == []
    assert values(running.resume(1_300)) == [b"b", b"c", b"d"]
    assert (running.positions, running.pausing) == ({IN: 4}, False)
    assert flaky.calls == ["a", "b", "b", "b", "c", "d"]


def test_a_task_that_is_run_whole_waits_for_the_pauses_itself() -> None:
    pauses: list[int] = []
    running = tried(RETRY, Flaky(a=1, c=3), pause=pauses.append)
    assert values(running.process(raw("a", "b", "c"))) == [b"a", b"b", b"c"]
    assert pauses == [100, 100, 200, 250]


def test_a_commit_of_a_stopped_task_waits_for_the_pauses() -> None:
    pauses: list[int] = []
    running = tried(RETRY, Flaky(b=2), in_parts=True, pause=pauses.append)
    running.process(raw("a", "b"))
    assert values(running.settle()) == [b"b"]
    assert (pauses, running.positions) == ([100, 200], {IN: 2})


class Replays:
    """The edges of a task behind a repartition topic, some of whose records came before."""

    silent = blocked = may_go_on = False

    def __init__(self, *offsets: int) -> None:
        self._offsets = {*offsets}

    def more(self) -> list[PartitionBatch]:
        """Nothing."""
        return []

    def at(self, now_ms: int, known_end: KnownEnd) -> KnownEnd:
        """As they are."""
        return known_end

    def take(self, batch: PartitionBatch) -> tuple[PartitionBatch, int]:
        """The others."""
        kept = [i for i, offset in enumerate(batch.offsets) if offset not in self._offsets]
        columns = (batch.offsets, batch.keys, batch.values, batch.timestamps)
        lists = ([column[i] for i in kept] for column in columns)
        return PartitionBatch(batch.topic, batch.partition, *lists), batch.offsets[-1] + 1


@pytest.mark.parametrize("replayed", [(0, 1, 2), (2,), (1, 2)])
def test_positions_are_behind_records_that_came_before(replayed: tuple[int, ...]) -> None:
    running = tried("fail", Flaky(), in_parts=True)
    running.edges = cast(TaskEdges, Replays(*replayed))
    left = [text for offset, text in enumerate((b"a", b"b", b"c")) if offset not in replayed]
    assert values(running.process(raw("a", "b", "c"))) == left
    assert running.positions == {IN: 3}


def test_positions_are_behind_them_also_after_a_record_was_decoded_again() -> None:
    running = task(graph(sink("source")), ErrorPolicy.of(sl.Retry(2, backoff=0, then="skip")))
    running.edges = cast(TaskEdges, Replays(2))
    assert values(running.process(raw("a", b"\xff", "c"))) == [b"a"]
    assert running.positions == {IN: 3}


@pytest.mark.parametrize(
    ("then", "left"), [("skip", [b"a", b"c"]), (("dead_letter", "dead"), [b"a", b"c"])]
)
def test_the_last_failure_has_the_other_answer(then: Any, left: list[bytes]) -> None:
    flaky = Flaky(b=99)
    running = tried(sl.Retry(3, backoff=0, then=then), flaky)
    outputs = running.process(raw("a", "b", "c"))
    assert values(outputs) == left
    assert flaky.calls.count("b") == 3
    assert values(outputs, "dead") == ([] if then == "skip" else [b"b"])
    assert running.counters.skipped == 1


def test_each_record_has_tries_of_its_own_and_a_handler_hears_their_number() -> None:
    attempts: list[tuple[int, int]] = []

    def handler(context: sl.ErrorContext, record: object, error: BaseException) -> sl.Answer:
        attempts.append((context.offset, context.attempt))
        return sl.Retry(3, backoff=0, then="skip")

    app = sl.App("a", processing_handler=handler)
    flaky = Flaky(x=2, y=9)
    app.stream("in", key=str, value=str).map_values(flaky, value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", "x"), ("a", "y"), ("a", "x")])
        assert [record.value for record in driver.read_output("out")] == ["x", "x"]
    assert attempts == [(0, 1), (0, 2), (1, 1), (1, 2), (1, 3)]


def test_children_of_a_record_have_tries_of_their_own() -> None:
    """They share its offset."""
    flaky = Flaky(x=1, y=1)
    app = sl.App("a", on_error=sl.Retry(2, backoff=0))
    stream = app.stream("in", key=str, value=str)
    stream.flat_map_values(str.split).map_values(flaky, value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", "x y")
        assert [record.value for record in driver.read_output("out")] == ["x", "y"]


def test_what_is_kept_counts_a_record_once() -> None:
    flaky = Flaky(b=2)
    app = sl.App("a", on_error=sl.Retry(3, backoff=0))
    stream = app.stream("in", key=str, value=str)
    stream.group_by_key().count(store="before")
    counted = stream.group_by_key().aggregate(
        str, lambda key, value, row: row + flaky(value), value=str, store="rows"
    )
    counted.to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("k", "a"), ("k", "b"), ("k", "c")])
        assert [record.value for record in driver.read_output("out")] == ["a", "ab", "abc"]
        assert driver.store("before").get("k") == 3


def test_an_aggregate_whose_results_come_at_commits_is_tried_again_too() -> None:
    flaky, app = Flaky(b=2), sl.App("a", on_error=sl.Retry(3))

    def added(key: str, value: str, so_far: str) -> str:
        return so_far + str(flaky(value))

    grouped = app.stream("in", key=str, value=str).group_by_key()
    grouped.aggregate(str, added, emit="on_commit").to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("k", "a"), ("k", "b"), ("k", "c")])
        assert [record.value for record in driver.read_output("out")] == ["abc"]
    assert flaky.calls == ["a", "b", "b", "b", "c"]


def test_what_a_processor_forwarded_before_it_failed_is_sent_once() -> None:
    flaky = Flaky(b=1)

    def twice(record: sl.Record[str, str]) -> Any:
        yield record
        yield record.with_value(flaky(record.value))

    app = sl.App("a", on_error=sl.Retry(2, backoff=0))
    app.stream("in", key=str, value=str).process(twice, key=str, value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("k", "a"), ("k", "b")])
        assert [record.value for record in driver.read_output("out")] == ["a", "a", "b", "b"]


class Registry:
    """A schema registry that is away now and then."""

    def __init__(self) -> None:
        self.away = True

    def decode(self, data: bytes) -> str:
        if data.startswith(b"?") and self.away:
            raise ConnectionError("registry")
        return data.decode()


def reading(registry: Registry, answer: Any, **more: Any) -> Task:
    app = sl.App("a")
    serde = (str.encode, registry.decode)
    app.stream("in", key=str, value=serde).to("out")
    part = app.topology().subtopology(0)
    state = TaskState(None, part.stores, 1 << 20)
    return Task(TaskId(0, 0), part, state, {IN: 0}, policy=ErrorPolicy.of(answer), **more)


def test_a_record_is_decoded_again_and_the_ones_before_it_are_done_meanwhile() -> None:
    registry = Registry()
    running = reading(registry, RETRY, in_parts=True)
    assert values(running.process(raw("a", "?", "c"), now_ms=1_000)) == [b"a"]
    assert (running.pausing, running.under_way, running.positions) == (True, False, {IN: 1})
    assert values(running.process(raw("d", first=3), now_ms=1_000)) == []
    running.skip_to(IN, 9)
    assert (running.buffered(), running.received) == ({IN: 3}, {IN: 9})
    assert values(running.settle()) == [], "a commit need not wait: nothing is begun"
    assert values(running.resume(1_099)) == []
    assert values(running.resume(1_100)) == []
    registry.away = False
    assert values(running.resume(1_299)) == []
    assert values(running.resume(1_300)) == [b"?", b"c", b"d"]
    assert running.positions == {IN: 9}


def test_a_record_that_is_never_decoded_has_the_last_answer_once() -> None:
    running = reading(Registry(), sl.Retry(3, backoff=0, then=("dead_letter", "dead")))
    outputs = running.process(raw("a", "?", "c"))
    assert (values(outputs), values(outputs, "dead")) == ([b"a", b"c"], [b"?"])
    assert running.counters.skipped == 1


def test_a_task_of_two_inputs_waits_with_both_for_a_record_to_be_decoded() -> None:
    app = sl.App("a")
    registry = Registry()
    table = app.table("t", key=str, value=(str.encode, registry.decode))
    app.stream("s", key=str, value=str).left_join(table, lambda text, row: f"{text}{row}").to("out")
    part = app.topology().subtopology(0)
    state = TaskState(None, part.stores, 1 << 20)
    inputs = {TopicPartition("t", 0): 0, TopicPartition("s", 0): 0}
    policy = ErrorPolicy.of(RETRY)
    running = Task(TaskId(0, 0), part, state, inputs, policy=policy, in_parts=True)

    def batch(topic: str, value: bytes, time: int) -> PartitionBatch:
        return PartitionBatch(topic, 0, range(1), [b"k"], [value], [time])

    assert running.process(batch("t", b"?1", 10), 0) == []
    assert running.process(batch("s", b"a", 20), 50) == []
    assert running.buffered() == dict.fromkeys(inputs, 1)
    assert running.positions == inputs
    registry.away = False
    assert values(running.resume(100)) == [b"a?1"]
    assert set(running.positions.values()) == {1}
