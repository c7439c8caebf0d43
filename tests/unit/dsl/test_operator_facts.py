"""Operators do with nulls, keys, timestamps and headers as the lists in their docstrings say."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from streamlet.app import App
from streamlet.dsl.branched import BranchedKStream
from streamlet.dsl.cogrouped import CogroupedKStream
from streamlet.dsl.grouped import KGroupedStream
from streamlet.dsl.stream import KStream
from streamlet.dsl.suppressing.until import until_time_limit
from streamlet.dsl.table import KTable
from streamlet.dsl.windowing.definitions import tumbling
from streamlet.testing.driver_topics import OutputRecord
from tests.unit.dsl.facts import (
    NULLS,
    RECORDS,
    Calls,
    Pair,
    Tried,
    facts,
    rows_of,
    second,
    stream_of,
    tried,
)

LABELS = {"nulls", "key", "timestamp", "headers"}
OPERATORS = {
    f"{kind.__name__}.{name}": operator
    for kind in (KStream, BranchedKStream, CogroupedKStream, KTable, KGroupedStream)
    for name, operator in inspect.getmembers(kind, inspect.isfunction)
    if not name.startswith("_")
} | {"App.stream": App.stream, "App.table": App.table}


def cogrouped(stream: KStream[str, str]) -> CogroupedKStream[str, str]:
    return stream.group_by_key().cogroup(lambda key, value, kept: kept + value)


#: Operator of a stream -> a topology with it, whose function notes its calls; a new key is "new".
STREAMS: dict[str, Callable[[App, Calls], None]] = {
    "App.stream": lambda app, calls: stream_of(app).to("out"),
    "KStream.filter": lambda app, calls: (
        stream_of(app).filter(calls.returning(lambda k, v: True)).to("out")
    ),
    "KStream.filter_not": lambda app, calls: (
        stream_of(app).filter_not(calls.returning(lambda k, v: False)).to("out")
    ),
    "KStream.map": lambda app, calls: (
        stream_of(app).map(calls.returning(lambda k, v: ("new", v)), key=str, value=str).to("out")
    ),
    "KStream.map_values": lambda app, calls: (
        stream_of(app).map_values(calls.returning(second), value=str).to("out")
    ),
    "KStream.map_values_async": lambda app, calls: (
        stream_of(app).map_values_async(calls.awaited(second), value=str).to("out")
    ),
    "KStream.map_batches": lambda app, calls: (
        stream_of(app)
        .map_batches(lambda b: list(map(calls.returning(second), b.keys, b.values)), value=str)
        .to("out")
    ),
    "KStream.flat_map": lambda app, calls: (
        stream_of(app)
        .flat_map(calls.returning(lambda k, v: [("new", v)] * 2), key=str, value=str)
        .to("out")
    ),
    "KStream.flat_map_values": lambda app, calls: (
        stream_of(app).flat_map_values(calls.returning(lambda k, v: [v, v]), value=str).to("out")
    ),
    "KStream.select_key": lambda app, calls: (
        stream_of(app).select_key(calls.returning(lambda k, v: "new"), key=str).to("out")
    ),
    "KStream.peek": lambda app, calls: stream_of(app).peek(calls.returning(second)).to("out"),
    "KStream.process": lambda app, calls: (
        stream_of(app)
        .process(lambda record: record, key=str, value=str)
        .peek(calls.returning(second))
        .to("out")
    ),
    "KStream.process_values": lambda app, calls: (
        stream_of(app)
        .process_values(lambda record: record, value=str)
        .peek(calls.returning(second))
        .to("out")
    ),
    "KStream.deduplicate": lambda app, calls: stream_of(app).deduplicate(0, grace=1000).to("out"),
    "KStream.child": lambda app, calls: (
        stream_of(app).process(lambda record: record, key=str, value=str).child("all").to("out")
    ),
    "KStream.print": lambda app, calls: (
        stream_of(app).peek(calls.returning(second)).print("printed")
    ),
    "KStream.foreach": lambda app, calls: stream_of(app).foreach(calls.returning(second)),
    "KStream.merge": lambda app, calls: (
        stream_of(app).merge(app.stream("other", key=str, value=str)).to("out")
    ),
    "KStream.split": lambda app, calls: stream_of(app).split().default_branch()["0"].to("out"),
    "BranchedKStream.branch": lambda app, calls: (
        stream_of(app)
        .split()
        .branch(calls.returning(lambda k, v: True), name="all")
        .no_default_branch()["all"]
        .to("out")
    ),
    "BranchedKStream.default_branch": lambda app, calls: (
        stream_of(app).split().branch(lambda k, v: False).default_branch()["0"].to("out")
    ),
    "BranchedKStream.no_default_branch": lambda app, calls: (
        stream_of(app).split().branch(lambda k, v: True).no_default_branch()["1"].to("out")
    ),
    "KStream.repartition": lambda app, calls: stream_of(app).repartition().to("out"),
    "KStream.to": lambda app, calls: stream_of(app).to("out"),
    "KStream.group_by_key": lambda app, calls: (
        stream_of(app).group_by_key().count().to_stream().to("out")
    ),
    "KStream.join": lambda app, calls: (
        stream_of(app).join(rows_of(app), calls.returning(second), value=str).to("out")
    ),
    "KStream.left_join": lambda app, calls: (
        stream_of(app).left_join(rows_of(app), calls.returning(second), value=str).to("out")
    ),
    "KGroupedStream.count": lambda app, calls: (
        stream_of(app).group_by_key().count().to_stream().to("out")
    ),
    **dict.fromkeys(
        ("KGroupedStream.cogroup", "CogroupedKStream.aggregate"),
        lambda app, calls: cogrouped(stream_of(app)).aggregate(str).to_stream().to("out"),
    ),
    "CogroupedKStream.cogroup": lambda app, calls: (
        cogrouped(app.stream("other", key=str, value=str))
        .cogroup(stream_of(app).group_by_key(), lambda key, value, kept: kept + value)
        .aggregate(str)
        .to_stream()
        .to("out")
    ),
    "KGroupedStream.windowed_by": lambda app, calls: (
        stream_of(app)
        .group_by_key()
        .windowed_by(tumbling(1, grace=1000))  # a window for each record
        .reduce(lambda one, two: two)
        .to_stream()
        .select_key(lambda window, count: window.key, key=str)
        .to("out")
    ),
    "CogroupedKStream.windowed_by": lambda app, calls: (
        stream_of(app)
        .group_by_key()
        .cogroup(lambda key, value, kept: value)
        .windowed_by(tumbling(1, grace=1000))
        .aggregate(str)
        .to_stream()
        .select_key(lambda window, kept: window.key, key=str)
        .to("out")
    ),
    "KGroupedStream.reduce": lambda app, calls: (
        stream_of(app).group_by_key().reduce(lambda one, two: two).to_stream().to("out")
    ),
    "KGroupedStream.aggregate": lambda app, calls: (
        stream_of(app)
        .group_by_key()
        .aggregate(str, lambda key, value, kept: kept + value)
        .to_stream()
        .to("out")
    ),
}


def same(result: Tried, part: Callable[[OutputRecord], Any], wanted: Sequence[Any]) -> bool:
    return bool(result.written) and all(
        part(record) == wanted[result.source(record)] for record in result.written
    )


def keys_are_those_of_the_record(result: Tried) -> bool:
    return same(result, lambda record: record.key, [key for key, _ in RECORDS])


def times_are_those_of_the_record(result: Tried) -> bool:
    return same(result, lambda record: record.timestamp, [1000 - i for i in range(len(RECORDS))])


def times_are_the_highest(result: Tried) -> bool:
    return [record.timestamp for record in result.written] == [1000] * len(result.written) != []


def nothing_is_written(result: Tried) -> bool:
    return result.written == []


def keys_are_new(result: Tried) -> bool:
    return {record.key for record in result.written} == {"new"}


#: How a line about the key, the timestamp or the headers begins.
OF_THE_RECORD = (
    *("kept", "those of the record", "those of the stream's record"),
    "those of what it forwards",
)
NEW_KEY = ("the result", "the first of the pair", "the first of each pair")


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_every_operator_has_a_line_for_nulls_key_timestamp_and_headers(name: str) -> None:
    assert set(facts(OPERATORS[name])) == LABELS


def test_every_operator_is_tried() -> None:
    assert set(OPERATORS) == {*STREAMS, *TABLES, *APART}


@pytest.mark.parametrize("name", STREAMS)
def test_what_a_streams_operator_does_with_nulls(name: str) -> None:
    said = facts(OPERATORS[name])["nulls"]
    (holds,) = [check for phrase, check in NULLS.items() if said.startswith(phrase)]
    assert holds(tried(STREAMS[name]))


@pytest.mark.parametrize("name", STREAMS)
def test_key_timestamp_and_headers_of_what_a_streams_operator_sends(name: str) -> None:
    said, result = facts(OPERATORS[name]), tried(STREAMS[name])
    alone = ("KStream.group_by_key", "KGroupedStream.cogroup", "CogroupedKStream.cogroup")
    counted = name in alone  # they write nothing without a fold
    if said["key"].startswith("nothing"):
        assert nothing_is_written(result)
        assert said["timestamp"] == said["headers"] == said["key"]
        return
    assert said["key"].startswith(OF_THE_RECORD + NEW_KEY)
    new = said["key"].startswith(NEW_KEY)
    assert keys_are_new(result) if new else keys_are_those_of_the_record(result)
    # ``same`` finds the record by its header
    assert said["headers"].startswith(OF_THE_RECORD) or new
    if said["timestamp"].startswith("the highest among the records of the row"):
        assert times_are_the_highest(result)
        return
    assert said["timestamp"].startswith(OF_THE_RECORD)
    assert times_are_the_highest(result) if counted else times_are_those_of_the_record(result)
    assert said["headers"] == said["timestamp"]


def test_group_by_gives_nulls_to_the_function_and_drops_new_keys_that_are_none() -> None:
    def grouped(app: App, calls: Calls) -> None:
        given = calls.returning(lambda key, value: None if key is None else "new")
        stream_of(app).group_by(given, key=str).count().to_stream().to("out")

    result = tried(grouped)
    assert facts(KStream.group_by)["nulls"] == (
        "the function gets them as None. Records whose new key is None are left out and counted as "
        "dropped."
    )
    assert result.calls == RECORDS
    # Two have no new key; one goes through the topic without a value, and is not counted either.
    assert (result.dropped, len(result.written)) == (3, 2)
    assert keys_are_new(result)
    assert times_are_the_highest(result)


@pytest.mark.parametrize("kind", ["map_values", "aggregate", "reduce"])
def test_a_result_none_is_a_null_value_or_deletes_the_row(kind: str) -> None:
    def made(app: App, calls: Calls) -> None:
        stream = stream_of(app)
        if kind == "map_values":
            stream.map_values(lambda value: None, value=str).to("out")
        elif kind == "aggregate":
            nothing: Any = lambda key, value, kept: None  # noqa: E731
            stream.group_by_key().aggregate(str, nothing).to_stream().to("out")
        else:
            stream.group_by_key().reduce(lambda one, two: None).to_stream().to("out")

    result = tried(made, [("k", "v"), ("k", "w")])
    first = "v" if kind == "reduce" else None
    assert [(r.key, r.value) for r in result.written] == [("k", first), ("k", None)]


#: Operator of a table -> a topology with it below a table of "in".
TABLES: dict[str, Callable[[App, Calls], None]] = {
    "KTable.filter": lambda app, calls: (
        app.table("in", key=str, value=str, store="rows")
        .filter(calls.returning(lambda k, v: v != "out"))
        .to_stream()
        .to("out")
    ),
    "KTable.filter_not": lambda app, calls: (
        app.table("in", key=str, value=str, store="rows")
        .filter_not(calls.returning(lambda k, v: v == "out"))
        .to_stream()
        .to("out")
    ),
    "KTable.map_values": lambda app, calls: (
        app.table("in", key=str, value=str)
        .map_values(calls.returning(lambda k, v: None if v == "out" else v), value=str)
        .to_stream()
        .to("out")
    ),
    "KTable.suppress": lambda app, calls: (
        app.table("in", key=str, value=str).suppress(until_time_limit(0)).to_stream().to("out")
    ),
    "KTable.to_stream": lambda app, calls: (
        app.table("in", key=str, value=str).to_stream().to("out")
    ),
}

#: Operators with a test of their own.
APART = (
    *("App.table", "KStream.group_by", "KStream.to_table"),
    "KStream.outer_join",
    "KTable.transform_values",
    *("KTable.group_by", "KTable.join", "KTable.left_join", "KTable.outer_join"),
)

CHANGES: list[Pair] = [("k", "v"), ("k", None), ("k", "out"), ("k", None), ("new", None)]

#: What a table's operator makes of ``CHANGES``, by what it says of nulls.
SENT: dict[str, list[Pair]] = {
    "the predicate never sees a tombstone. One is sent on if the row had passed; of a table "
    "without ``store=`` in any case.": CHANGES[:2],
    "the function never sees a tombstone, which is sent on. A result None deletes the row.": [
        *CHANGES[:2],
        ("k", None),
        *CHANGES[3:],
    ],
    "a tombstone becomes a record whose value is None.": CHANGES,
    "a tombstone waits like any update; that of a window that closes is not sent.": CHANGES,
}


@pytest.mark.parametrize("name", TABLES)
def test_nulls_key_timestamp_and_headers_of_a_tables_operator(name: str) -> None:
    said, result = facts(OPERATORS[name]), tried(TABLES[name], CHANGES)
    assert all(value is not None for _, value in result.calls)
    assert [(r.key, r.value) for r in result.written] == SENT[said["nulls"]]
    assert said["key"] == said["timestamp"] == said["headers"]
    assert said["key"] == "those of the record that changed the row."
    for record in result.written:
        index = result.source(record)
        assert (record.key, record.timestamp) == (CHANGES[index][0], 1000 - index)


@pytest.mark.parametrize("operator", [App.table, KStream.to_table])
def test_a_table_drops_records_without_a_key_and_deletes_by_one_without_a_value(
    operator: Any,
) -> None:
    def table_of_stream(app: App, calls: Calls) -> None:
        stream_of(app).to_table().to_stream().to("out")

    made = TABLES["KTable.to_stream"] if operator is App.table else table_of_stream
    result = tried(made)
    assert facts(operator)["nulls"] == (
        "a record without a value deletes the row; one without a key is left out and counted as "
        "dropped."
    )
    assert [(r.key, r.value) for r in result.written] == [("k", "v"), ("k", None), ("k", "w")]
    assert result.dropped == 2
    assert facts(operator)["timestamp"] == "those of the record."
    assert times_are_those_of_the_record(result)
