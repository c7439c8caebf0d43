"""``process`` and ``process_values``: what processors get, keep in stores, and forward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import streamlet as sl
from streamlet.dsl.processors.process_operator import PART
from streamlet.errors import ProcessingError, StreamletError, TopologyError
from streamlet.testing.driver import TopologyTestDriver

Records = list[tuple[Any, Any]]
Context = sl.ProcessorContext[Any, Any]


def run(
    build: Callable[[sl.KStream[str, str]], sl.KStream[Any, Any]], records: Records, **app: Any
) -> list[tuple[Any, Any, int]]:
    """What comes out when the records are piped in as one batch, and the same one by one."""
    outputs = []
    for at_once in (True, False):
        made = sl.App("a", **app)
        build(made.stream("in", key=str, value=str)).to("out")
        with TopologyTestDriver(made, start_ms=0) as driver:
            for chunk in [records] if at_once else [[record] for record in records]:
                driver.pipe_inputs("in", chunk, 7)
            outputs.append([(r.key, r.value, r.timestamp) for r in driver.read_output("out")])
    assert outputs[0] == outputs[1]
    return outputs[0]


class Counting(sl.Processor[str, str, str, int]):
    def process(self, record: sl.Record[str, str]) -> sl.Record[str, int]:
        store = self.context.store("counts")
        store.put(record.key, (store.get(record.key) or 0) + 1)
        return record.with_value(store.get(record.key))


SHARED = Counting()


def counts() -> sl.StoreBuilder[Any]:
    return sl.key_value_store("counts", key=str, value=int)


def test_a_class_keeps_a_store_and_forwards_what_it_returns() -> None:
    built = run(lambda s: s.process(Counting, stores=[counts()]), [("a", "x"), ("b", "x")] * 2)
    assert built == [("a", 1, 7), ("b", 1, 7), ("a", 2, 7), ("b", 2, 7)]


def test_a_generator_forwards_records_and_pairs() -> None:
    def twice(record: sl.Record[str, str]) -> Iterator[Any]:
        yield record.with_timestamp(9)
        yield record.value, record.key

    built = run(lambda s: s.process(twice, key=str, value=str), [("a", "x"), ("b", "y")])
    assert built == [("a", "x", 9), ("x", "a", 7), ("b", "y", 9), ("y", "b", 7)]


def test_process_values_keeps_the_key_and_takes_values() -> None:
    def lengths(record: sl.Record[str, str]) -> int | None:
        return len(record.value) or None

    def many(record: sl.Record[str, str]) -> Iterator[str]:
        yield from record.value

    assert run(lambda s: s.process_values(lengths), [("a", "xy"), ("b", "")]) == [("a", 2, 7)]
    assert run(lambda s: s.process_values(many), [("a", "xy")]) == [("a", "x", 7), ("a", "y", 7)]


def test_process_values_refuses_another_key() -> None:
    def other(record: sl.Record[str, str]) -> sl.Record[str, str]:
        return record.with_key("other")

    with pytest.raises(ProcessingError, match="keeps the key 'a', but 'other' was forwarded"):
        run(lambda s: s.process_values(other, value=str), [("a", "x")])


def test_headers_and_metadata_are_those_of_the_record() -> None:
    def told(record: sl.Record[str, str], context: Context) -> Any:
        assert context.record_metadata is not None
        place = context.record_metadata
        text = f"{place.topic} {place.partition} {place.offset} {context.task_id}"
        return record.with_value(text).with_header("seen", record.header("h"))

    app = sl.App("a")
    app.stream("in", key=str, value=str).process(told, key=str, value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", "x", headers=[("h", b"1"), ("h", b"2")])
        driver.pipe_input("in", "a", "x")
        first, second = driver.read_output("out")
    assert (first.value, second.value) == ("in 0 0 0_0", "in 0 1 0_0")
    assert list(first.headers or ()) == [("h", b"1"), ("h", b"2"), ("seen", b"2")]
    assert list(second.headers or ()) == [("seen", None)]


def test_a_named_child_gets_what_is_forwarded_to_it_and_to_all() -> None:
    def sort(record: sl.Record[str, str], context: Context) -> None:
        context.forward(record, {"x": "left", "y": "right"}.get(record.value))

    app = sl.App("a")
    sorted_ = app.stream("in", key=str, value=str).process(sort, key=str, value=str)
    sorted_.child("left").merge(sorted_.child("right")).to("both")
    sorted_.child("left").to("left")
    sorted_.to("rest")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("1", "x"), ("2", "y"), ("3", "z"), ("4", "x")])
        found = {t: [r.key for r in driver.read_output(t)] for t in ("both", "left", "rest")}
    assert found == {"both": ["1", "2", "3", "3", "4"], "left": ["1", "3", "4"], "rest": ["3"]}


def test_a_child_that_is_not_there_fails_the_record() -> None:
    def lost(record: sl.Record[str, str], context: Context) -> None:
        context.forward(record, "nobody")

    with pytest.raises(ProcessingError, match="has no child 'nobody'"):
        run(lambda s: s.process(lost, key=str, value=str), [("a", "x")])


def test_a_record_that_fails_forwards_nothing_and_the_next_one_goes_on() -> None:
    def bad(record: sl.Record[str, str], context: Context) -> Any:
        context.forward(record)
        if record.value == "bad":
            raise ValueError("bad")

    records = [("a", "1"), ("b", "bad"), ("c", "3")]
    kept = run(lambda s: s.process(bad, key=str, value=str), records, on_error="skip")
    assert kept == [("a", "1", 7), ("c", "3", 7)]


def test_more_than_a_part_comes_in_order() -> None:
    def many(record: sl.Record[str, str]) -> Iterator[tuple[str, int]]:
        yield from ((record.key, number) for number in range(PART + 1))

    built = run(lambda s: s.process(many, key=str, value=int), [("a", ""), ("b", "")])
    wanted = [(key, number, 7) for key in "ab" for number in range(PART + 1)]
    assert built == wanted


def test_processors_share_a_store_and_read_those_of_operators() -> None:
    def put(record: sl.Record[str, str], context: Context) -> None:
        context.store("shared").put(record.key, record.value)

    def ask(record: sl.Record[str, str], context: Context) -> str:
        row = context.store("table").get(record.key)
        return f"{context.store('shared').get(record.key)} {row and row.value}"

    app = sl.App("a")
    shared = sl.key_value_store("shared", key=str, value=str)
    app.stream("in", key=str, value=str).process(put, stores=[shared])
    app.table("rows", key=str, value=str, store="table")
    asked = app.stream("ask", key=str, value=str)
    asked.process_values(ask, stores=["shared", "table"], value=str).to("out")
    assert len(app.topology().subtopologies) == 1
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", "x")
        driver.pipe_input("ask", "a", "?")
        driver.pipe_input("rows", "a", "row")
        driver.pipe_input("ask", "a", "?")
        assert [r.value for r in driver.read_output("out")] == ["x None", "x row"]


def test_a_value_that_a_processor_changes_is_not_the_stored_one() -> None:
    def change(record: sl.Record[str, str], context: Context) -> str:
        store = context.store("lists")
        mine = store.get(record.key) or []
        store.put(record.key, mine)
        mine.append(record.value)
        return str(store.get(record.key))

    lists = sl.key_value_store("lists", key=str, value=list[str])
    built = run(lambda s: s.process_values(change, stores=[lists], value=str), [("a", "x")] * 2)
    assert [value for _, value, _ in built] == ["[]", "[]"]


class Closing(sl.Processor[Any, Any, str, str]):
    events: list[str]

    def init(self, context: Context) -> None:
        self.events.append(f"init {context.task_id}")

    def process(self, record: sl.Record[Any, Any]) -> None:
        self.events.append("process")

    def close(self) -> None:
        self.events.append("close")


def test_each_task_has_a_processor_that_is_begun_and_closed() -> None:
    Closing.events = []
    app = sl.App("a")
    app.stream("in", key=str, value=str).process(Closing)
    with TopologyTestDriver(app, partitions={"in": 2}) as driver:
        driver.pipe_input("in", "a", "x", partition=1)
    assert Closing.events == ["init 0_0", "init 0_1", "process", "close", "close"]


def test_an_init_that_fails_says_whose_it_is() -> None:
    class Failing(sl.Processor[Any, Any, Any, Any]):
        def init(self, context: Context) -> None:
            raise ValueError("no service")

        def process(self, record: sl.Record[Any, Any]) -> None:
            raise AssertionError

    app = sl.App("a")
    app.stream("in", key=str, value=str).process(Failing, name="checked")
    with pytest.raises(StreamletError, match=r"checked: init\(\) failed: .*no service"):
        TopologyTestDriver(app)


def test_only_a_record_is_forwarded_and_only_while_one_is_processed() -> None:
    kept: list[Context] = []

    def keep(record: sl.Record[str, str], context: Context) -> None:
        kept.append(context)

    app = sl.App("a")
    app.stream("in", key=str, value=str).process(keep)
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", "x")
        with pytest.raises(StreamletError, match="only process"):
            kept[0].forward(sl.Record("a", "x", 1))


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (("a", "x"), "expected a streamlet.Record"),
        (sl.Record("a", "x", -1), "expected a timestamp"),
        (sl.Record("a", "x", 1).with_headers([("h", "text")]), "expected a header"),  # type: ignore[list-item]
    ],
)
def test_what_kafka_cannot_keep_is_refused(record: Any, message: str) -> None:
    def send(_: sl.Record[str, str], context: Context) -> None:
        context.forward(record)

    with pytest.raises(ProcessingError, match=message):
        run(lambda s: s.process(send, key=str, value=str), [("a", "x")])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "expects a class or a function"),
        (Counting(), "takes the class Counting"),
        (lambda: 3, "has no method process"),
        (type("Idle", (sl.Processor,), {}), "Idle has no method process"),
        (lambda: SHARED, "returns the same processor for each task"),
        (lambda a, b, c: None, r"it takes \(a, b, c\)"),
    ],
)
def test_what_is_no_processor_is_refused(given: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        sl.App("a").stream("in", key=str, value=str).process(given)


def test_stores_are_checked_when_the_topology_is_built() -> None:
    stream = sl.App("a").stream("in", key=str, value=str)
    with pytest.raises(TopologyError, match=r"there is no store 'none': .* as key_value_store"):
        stream.process(Counting, stores=["none"])
    with pytest.raises(TopologyError, match="twice"):
        stream.process(Counting, stores=[one := counts(), one])
    with pytest.raises(TopologyError, match="two builders make a store named 'counts'"):
        stream.process(Counting, stores=[counts()])
    with pytest.raises(TopologyError, match="not that of a processor"):
        stream.child("x")


def test_results_of_process_are_repartitioned_and_those_of_process_values_are_not() -> None:
    app = sl.App("a")
    stream = app.stream("in", key=str, value=str)
    stream.process_values(lambda record: record.value, value=str).group_by_key().count()
    assert app.topology().repartition_topics == ()
    app = sl.App("a")
    stream = app.stream("in", key=str, value=str)
    stream.process(lambda record: record, key=str, value=str).group_by_key().count()
    assert len(app.topology().repartition_topics) == 1
