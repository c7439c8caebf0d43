"""Joins by foreign keys in Spark's stages: the rows and times of native tasks, batch by batch."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from itertools import count
from typing import Any

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import streamlet as sl
from streamlet.errors import StateError, TopologyError
from streamlet.spark.checkpoint import compare, described
from streamlet.spark.plan.plan import SparkPlan, plan
from streamlet.spark.plan.reference import query_topology
from streamlet.spark.sql.typed_columns import output_topics
from streamlet.testing import TopologyTestDriver
from tests.shares import share_of
from tests.unit.spark.staged import Record, StagedQuery

HERE = f"{__name__}:"
PARTITIONS = 2


def foreign(value: str) -> str | None:
    """A row begins with its foreign key, or with "|" if it has none."""
    return None if value[0] == "|" else value[0]


def pair(key: str, left: str, right: str | None) -> str:
    return f"{left[0]}({key} {left} {right})"


def table(app: sl.App, topic: str) -> Any:
    return app.table(topic, key=str, value=str, store=f"{topic}-rows")


def join(left: Any, right: Any, to: str = "", keeps_left: bool = False, name: str = "fk") -> Any:
    call = left.left_join if keeps_left else left.join
    found = call(right, pair, foreign_key=foreign, value=str, name=name)
    if to:
        found.to_stream().to(to)
    return found


inner = sl.App("inner")
join(table(inner, "left"), table(inner, "right"), "out")

outer = sl.App("outer")
join(table(outer, "left"), table(outer, "right"), "out", keeps_left=True)

#: The left table is made behind a repartition, and both are views of tables.
behind = sl.App("behind")
_left = behind.stream("left", key=str, value=str).select_key(lambda k, v: f"{k}!", key=str)
_rows = _left.repartition(name="left").to_table(store="rows").map_values(lambda v: v, value=str)
join(_rows, table(behind, "right").filter(lambda k, v: not v.endswith("0")), "out")

#: The result of one is the left table of another, and a table has two.
chained = sl.App("chained")
_lefts = table(chained, "left")
_first = join(_lefts, table(chained, "right"), "out", keeps_left=True, name="one")
join(_first, table(chained, "third"), "out2", name="two")
join(_lefts, table(chained, "fourth"), "out3", name="three")

#: The right table is a result.
enriched = sl.App("enriched")
_right = join(table(enriched, "right"), table(enriched, "third"), name="one", keeps_left=True)
join(table(enriched, "left"), _right, "out", name="two")

itself = sl.App("itself")
_people = table(itself, "left")
join(_people, _people, "out", keeps_left=True)

#: Each is the right table of the other.
mutual = sl.App("mutual")
_one, _other = table(mutual, "left"), table(mutual, "right")
join(_one, _other, "out", name="one")
join(_other, _one, "out2", name="two")

APPS = ("inner", "outer", "behind", "chained", "enriched", "itself", "mutual")
#: Topic, key and value of each record of each batch.
Batches = list[list[tuple[str, str, str | None]]]
#: By topic and key, the value and the time.
Rows = dict[tuple[str, str], tuple[str, int]]

TOPICS = ("left", "right", "third", "fourth")
#: Two lie in one partition, and one in the other.
KEYS = "abd"

VALUES = st.none() | st.builds("{}{}".format, st.sampled_from(f"{KEYS}|"), st.integers(0, 2))
CHANGES = st.tuples(st.sampled_from(TOPICS), st.sampled_from(KEYS), VALUES)
BATCHES = st.lists(st.lists(CHANGES, max_size=12), max_size=6)


def final(records: list[Record]) -> Rows:
    """The rows at the end, with their times."""
    last = {(topic, key): (value, time) for topic, key, value, time in records}
    return {at: (value, time) for at, (value, time) in last.items() if value is not None}


def rows_of(found: Rows) -> dict[tuple[str, str], str]:
    """The rows without their times."""
    return {at: value for at, (value, _) in found.items()}


@cache
def planned(name: str) -> SparkPlan:
    """The plan of an application's query."""
    topology = query_topology(globals()[name])
    return plan(HERE + name, topology, dict.fromkeys(topology.source_topics, PARTITIONS))


def both(name: str, batches: Batches, times: Iterator[int]) -> Iterator[tuple[Rows, Rows]]:
    """The rows of a query and of native tasks behind each batch."""
    app = globals()[name]
    counts = dict.fromkeys(app.topology().source_topics, PARTITIONS)
    query, native, found = StagedQuery(planned(name)), list[Record](), list[Record]()
    with TopologyTestDriver(app, partitions=counts) as driver:
        for changes in batches:
            some = [(*change, next(times)) for change in changes if change[0] in counts]
            for record in some:
                driver.pipe_input(*record)
            native += [
                (topic, one.key, one.value, one.timestamp)
                for topic in output_topics(app.topology())
                for one in driver.read_output(topic)
            ]
            found += query.batch(some)
            yield final(found), final(native)


@pytest.mark.parametrize("name", APPS)
@example([[("right", "b", "d0"), ("left", "a", "b0")], [("right", "b", None), ("left", "a", "b1")]])
@example(
    [[("right", "a", "a0")], [("left", "a", "b0"), ("right", "a", None), ("right", "a", "|1")]]
)
@example([[("left", "a", "a0")], [("left", "b", "|0"), ("right", "a", "a1"), ("left", "a", "|1")]])
@settings(max_examples=share_of(25))
@given(batches=BATCHES)
def test_the_rows_and_times_are_those_of_native_tasks_behind_each_batch(
    name: str, batches: Batches
) -> None:
    for found, native in both(name, batches, count()):
        assert found == native


@pytest.mark.parametrize("name", APPS)
@settings(max_examples=share_of(10))
@given(batches=BATCHES, seed=st.integers(0, 9))
def test_the_rows_are_those_of_native_tasks_whatever_times_the_records_have(
    name: str, batches: Batches, seed: int
) -> None:
    dice = random.Random(seed)
    for found, native in both(name, batches, iter(lambda: dice.randrange(5), -1)):
        assert rows_of(found) == rows_of(native)


def test_a_copy_comes_before_an_answer_to_a_later_one() -> None:
    """The first left row has a later time, and the answer comes from another task."""
    changes = [("left", "a", "a0"), ("left", "b", "d0"), ("right", "a", "|0"), ("right", "d", "|0")]
    ((found, native),) = both("inner", [changes], iter([100, 5, 0, 0]))
    assert len(native) == 2
    assert rows_of(found) == rows_of(native)


def test_each_side_of_a_join_is_a_stage_of_its_own() -> None:
    """Only a table that is joined with itself needs a third one, for the subscriptions."""
    assert [len(stage.tasks) for stage in planned("inner").stages] == [2, 2, 2]
    assert [len(stage.tasks) for stage in planned("itself").stages] == [2, 2, 2]
    assert planned("inner").inside >= {"inner--fk-subscription-response-resolver-left"}


def test_a_join_of_the_result_with_the_left_table_is_refused_by_name() -> None:
    app = sl.App("back")
    left = table(app, "left")
    left.join(join(left, table(app, "right")), lambda a, b: f"{a}{b}", value=str)
    topology = query_topology(app)
    with pytest.raises(TopologyError, match=r"of their own output \(fk-subscription-.*back-fk-"):
        plan(f"{HERE}app", topology, dict.fromkeys(topology.source_topics, 1))


def test_a_checkpoint_of_another_cut_is_refused() -> None:
    """As native tasks would cut it, or an older version of streamlet."""
    laid_out, native = planned("inner"), inner.topology()
    now = described(query_topology(inner), laid_out)
    compare(now, now, "here")
    counts = {**laid_out.counts}
    del counts["inner--fk-subscription-response-resolver-left"]
    was = described(native, attrs.evolve(laid_out, counts=counts))
    with pytest.raises(StateError, match="subtopology 0 has changed"):
        compare(was, now, "here")


@pytest.mark.parametrize("name", APPS)
def test_a_backfill_fills_the_changelogs_of_native_tasks_and_no_others(name: str) -> None:
    native, query = globals()[name].topology(), query_topology(globals()[name])
    found = [
        sorted(topic for part in one.subtopologies for topic in part.changelog_topics)
        for one in (native, query)
    ]
    assert found[0] == found[1]
