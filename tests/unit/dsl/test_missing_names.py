"""Names and signs that no object has are answered in words: what has them, or what there is."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

import streamlet as sl
from streamlet.absent import is_explained
from streamlet.absent_names import HABITS
from streamlet.change_events import ChangeEvent
from streamlet.consumer import ConsumerRecord
from streamlet.dsl.processors.record import RecordMetadata
from streamlet.errors import ProcessingError, WrongTypeError
from streamlet.hosting.run import OutputValue
from streamlet.lazy_names import public_names
from streamlet.origins import Origin
from streamlet.serdes import Serde, serde
from streamlet.testing import TopologyTestDriver
from tests.unit.dsl.test_habits import ROWS, objects, of_a_processor, set_item

#: Names that neighbours have: Java's, Quix', Faust's, of frames and of dicts.
NEIGHBOURS = (
    *("branch", "defaultBranch", "default_branch", "flatTransform", "through", "toTable", "as_"),
    *("tumbling_window", "to_topic", "set_timestamp", "isin", "contains", "dataframe", "sdf"),
    *("agent", "take", "noack_take", "echo", "events", "relative_to_now", "contribute_to_stream"),
    *("withColumn", "with_column", "isNull", "eqNullSafe", "groupBy", "agg", "writeStream", "show"),
    *("iloc", "head", "fillna", "drop_duplicates", "rolling", "between", "astype", "apply"),
    *("getStateStore", "putIfAbsent", "approximateNumEntries", "prefixScan", "isOpen", "flush"),
    *("currentStreamTimeMs", "createInputTopic", "getKeyValueStore", "pipeInput", "getTopics"),
    *("setdefault", "popitem", "items", "nonsense", "filtre", "subscribe", "with_components"),
)


def more_objects() -> dict[str, Any]:
    return {
        **objects(),
        "Expression": sl.col("name"),
        "Materialized": sl.Materialized("kept"),
        "Topology": objects()["App"].topology(),
        "TimeWindows": sl.tumbling("1m"),
        "SessionWindows": sl.session("1m"),
        "JoinWindows": sl.join_windows("1m"),
        "Suppressed": sl.until_window_closes(),
        "Aggregation": sl.sum_(sl.value()),
        "RecordBatch": sl.RecordBatch(["a"], [1], [0]),
        "Position": sl.Position(),
        "PositionBound": sl.PositionBound.unbounded(),
        "Query": sl.KeyQuery("a"),
        "StateQueryRequest": sl.StateQueryRequest("rows", sl.KeyQuery("a")),
        "OutputValue": OutputValue("out", "a", 1, 0),
        "RunStatus": sl.App("habits").status,
        "Settings": sl.App("habits").load_settings(environ={}),
        "Retry": sl.Retry(3),
        "RepeatFilter": sl.RepeatFilter(),
        "Debezium": sl.debezium(key=str, value=dict),
        "ProcessorWrapper": sl.ProcessorWrapper(),
        "ConsumerRecord": ConsumerRecord("in", 0, 0, b"a", b"1", 0),
        "Windowed": sl.Windowed("a", 0, 60_000),
        "ValueAndTimestamp": sl.ValueAndTimestamp(1, 0),
        "VersionedRecord": sl.VersionedRecord(1, 0),
        "LateRecord": sl.LateRecord("a", 1, 0, (), "in", 0, 0, sl.Windowed("a", 0, 1), 9),
        "Timer": sl.Timer("a", "end", 0),
    }


#: Public classes that users write classes of their own below.
BASES = {"Processor", "StandbyUpdateListener", "StateRestoreListener"}


@pytest.mark.parametrize("package", ["streamlet", "streamlet.testing"])
def test_each_public_class_explains_itself(package: str) -> None:
    found = [getattr(import_module(package), name) for name in public_names(package)]
    classes = [one for one in found if isinstance(one, type) and not issubclass(one, Exception)]
    assert len(classes) > 5
    names = {one.__name__ for one in classes if not is_explained(one)}
    assert names - BASES == set()


def test_each_name_of_a_neighbour_is_answered_by_each_object() -> None:
    made = more_objects()
    with TopologyTestDriver(made["App"]) as driver:
        for kind, one in {**made, "TopologyTestDriver": driver}.items():
            for name in NEIGHBOURS:
                if hasattr(type(one), name):
                    continue
                with pytest.raises(AttributeError) as raised:
                    getattr(one, name)
                said = str(raised.value)
                assert said.startswith(f"{kind} has no {name}: "), said
                assert len(said) > len(f"{kind} has no {name}: ") + 5
            with pytest.raises(AttributeError, match=r"^'.* object has no attribute '_inner'$"):
                one._inner  # noqa: B018 - the look-up is what is tested


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("KStream", "default_branch", "BranchedKStream has it, which split() of a stream makes"),
        ("KTable", "child", "KStream has it, and App.stream(topic) makes one"),
        ("KStream", "pipe_input", "TopologyTestDriver has it, of streamlet.testing"),
        ("KStream", "groupby", "its name is group_by"),
        ("KStream", "filtre", "did you mean filter?"),
        ("KStream", "withColumn", "compute the new value with map_values(function)"),
        ("KTable", "drop_duplicates", "call to_stream() first, then deduplicate(within)"),
        ("KTable", "head", "App.store(name).all() reads its rows"),
        ("KGroupedStream", "agg", "call aggregate() of grouped records"),
        ("Expression", "isin", "join comparisons by |"),
        ("Expression", "isNull", "its name is is_null"),
        ("Expression", "notna", "call is_not_null()"),
        ("Expression", "upper", "it has == != < <= > >="),
        ("Position", "merge", "call merged(other)"),
        ("RecordBatch", "iterrows", "call to_pandas()"),
        ("Topology", "nonsense", "it has application, "),
        ("ConsumerRecord", "error", "poll() raises what fails"),
        ("ConsumerRecord", "nonsense", "it has headers, key, offset, partition, timestamp, topic"),
        ("Windowed", "window", "the bounds of the window are start and end"),
    ],
)
def test_what_is_said_of_names(kind: str, name: str, said: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(f"{kind} has no {name}: {said}")):
        getattr(more_objects()[kind], name)


@pytest.mark.parametrize(
    "use", [lambda one: one["key"], list, len, lambda one: one + 1, lambda one: 1 + one]
)
def test_a_record_says_its_parts_wherever_it_is(use: Callable[[Any], object]) -> None:
    record = sl.Record("a", 1, 0)
    with pytest.raises(WrongTypeError, match=r"^Record has no .*: its parts are key, value, time"):
        use(record)
    assert record, "an if does not call them"


#: Of objects that functions get once for each record.
LIGHT = {
    "Record": sl.Record("a", 1, 0),
    "RecordMetadata": RecordMetadata("in", 0, 7),
    "Origin": Origin("in", 0, 7, 0),
    "ChangeEvent": ChangeEvent("create", None, {"id": 1}, {}),
    "Serde": serde(int),
}


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("Record", "topic", "read it of context.record_metadata"),
        ("Record", "payload", "its name is value"),
        ("Record", "withValue", "its name is with_value"),
        ("Record", "getHeader", "call header(name)"),
        ("RecordMetadata", "timestamp", "read it of the record"),
        ("Origin", "value", "read it of the record"),
        ("ChangeEvent", "op", "its name is operation"),
        ("ChangeEvent", "atMs", "its name is at_ms"),
        ("ChangeEvent", "row", "the row is after, and before where it is deleted"),
        ("Serde", "serialize", "call encode(value)"),
    ],
)
def test_a_light_object_answers_habits_without_a_function_around(
    kind: str, name: str, said: str
) -> None:
    one = LIGHT[kind]
    with pytest.raises(AttributeError, match=f"^{re.escape(f'{kind} has no {name}: {said}')}"):
        getattr(one, name)
    assert not hasattr(one, name)
    assert not hasattr(type(one), name)
    assert name not in dir(one)


def test_a_light_object_pays_nothing_for_its_answers() -> None:
    for one in LIGHT.values():
        assert not hasattr(type(one), "__getattr__"), "it makes each look-up four times slower"
        assert type(one).__getattribute__ is object.__getattribute__


def test_a_serde_of_a_user_may_have_any_name() -> None:
    class Own(Serde[int]):
        serialize = 7

    assert Own.serialize == 7
    made = Own("own", lambda one: b"%d" % one, int)
    assert made.serialize == 7


def test_a_record_that_is_to_change_names_the_methods_that_give_another_one() -> None:
    record = sl.Record("a", 1, 0)
    for change in (lambda: setattr(record, "value", 2), lambda: delattr(record, "value")):
        with pytest.raises(AttributeError, match=r"^a Record never changes: with_key\(\), with_v"):
            change()
    with pytest.raises(
        TypeError, match=r"headers as pairs of a name and bytes.*, got \{'id': b'7'"
    ):
        record.with_headers({"id": b"7"})  # type: ignore[arg-type]
    assert record == sl.Record("a", 1, 0)


def test_a_branch_that_is_not_there_names_those_that_are() -> None:
    split = sl.App("a").stream("in", key=str, value=str).split()
    with pytest.raises(KeyError, match=r"no branch is called 'big'; there are: small, 0"):
        split.branch(lambda _, value: bool(value), name="small").default_branch()["big"]


def test_what_users_call_their_classes_is_no_name_of_ours() -> None:
    class KeyValueStore(sl.Processor[str, int, str, int]):
        pass

    with pytest.raises(AttributeError, match=r"^Processor has no forward: call self.context"):
        KeyValueStore().forward  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"^'KeyValueStore' object has no attribute 'items'$"):
        KeyValueStore().items  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("name", [*HABITS["TopologyTestDriver"], "nonsense"])
def test_names_of_other_drivers_are_told_of(name: str) -> None:
    said = f"^TopologyTestDriver has no {name}: "
    with (
        TopologyTestDriver(objects()["App"]) as driver,
        pytest.raises(AttributeError, match=said),
    ):
        getattr(driver, name)


class Forwards(sl.Processor[str, int, str, int]):
    def process(self, record: sl.Record[str, int]) -> None:
        self.forward(record)  # type: ignore[attr-defined]


def test_a_processor_says_that_its_context_forwards() -> None:
    app = sl.App("habits")
    app.stream("in", key=str, value=int).process(Forwards)
    said = r"Processor has no forward: call self.context.forward\(\);"
    with TopologyTestDriver(app) as driver, pytest.raises(ProcessingError, match=said):
        driver.pipe_input("in", "a", 1)
    with pytest.raises(AttributeError, match=r"^'Forwards' object has no attribute 'seen'$"):
        Forwards().seen  # type: ignore[attr-defined]  # noqa: B018


def test_a_serde_says_its_own_words() -> None:
    said = of_a_processor(lambda record, context: ROWS.value.serialize(1))  # type: ignore[attr-defined]
    assert "Serde has no serialize: call encode(value);" in said


def test_a_record_says_where_its_topic_stands() -> None:
    said = of_a_processor(lambda record, context: record.topic)  # type: ignore[attr-defined]
    assert "Record has no topic: read it of context.record_metadata;" in said
    said = of_a_processor(lambda record, context: record.key.missing)  # type: ignore[attr-defined]
    assert "'str' object has no attribute 'missing'" in said


#: Objects that have some of Python's operators, and those that they have.
HAVE = {"Expression": ("+", "~"), "RecordBatch": ("len()",), "Settings": ("items",)}


@pytest.mark.parametrize(
    ("sign", "use"),
    [
        *(("+", lambda one: one + 1), ("+", lambda one: 1 + one), ("%", lambda one: one % 2)),
        *(("//", lambda one: one // 2), ("-", lambda one: -one), ("**", lambda one: one**2)),
        *(("~", lambda one: ~one), ("<<", lambda one: one << 1), ("abs()", abs), ("len()", len)),
        *(("items", lambda one: one["a"]), ("items", list), ("items", lambda one: "a" in one)),
        *(("items", set_item), ("round()", round)),
    ],
)
def test_signs_of_python_are_told_of(sign: str, use: Callable[[Any], object]) -> None:
    for kind, one in more_objects().items():
        if sign in HAVE.get(kind, ()) or isinstance(one, tuple):
            continue
        with pytest.raises(WrongTypeError, match=rf"^{kind} has no {re.escape(sign)}: \w.{{12}}"):
            use(one)
        if kind == "Expression":
            with pytest.raises(WrongTypeError, match="no truth yet"):
                bool(one)
        else:
            assert one, "an if does not call them"


def test_the_length_of_a_store_is_asked_for_by_name() -> None:
    said = of_a_processor(lambda record, context: len(context.store(ROWS)))
    assert "KeyValueStore has no len(): call approximate_num_entries()" in said
    for kind in ("KStream", "KTable"):
        with pytest.raises(WrongTypeError, match=rf"^{kind} has no len\(\): .*count"):
            len(objects()[kind])
