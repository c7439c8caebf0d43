"""The edges of an application as a worker sees them."""

from __future__ import annotations

import streamlet as sl
from streamlet.coordinator.commit_metadata import CommitMetadata, InputNote
from streamlet.processing.edges.held_records import HEAD_BYTES, read_base, read_head, writer_of
from streamlet.processing.edges.plan import EdgePlan, Start
from streamlet.processing.edges.writer_keys import WriterKey
from streamlet.types import StateNumber, TaskId, TopicPartition

BETWEEN = "a-by-repartition"


def shop(*, origin: bool = False) -> sl.App:
    app = sl.App("a")
    rows = app.table("rows", key=str, value=int)
    met = app.stream("in", key=str, value=int).join(rows, lambda a, b: a + b, value=int)
    counts = met.group_by(lambda k, v: str(v), key=str, value=int, name="by").count(store="counts")
    counts.to_stream().to("out", origin=origin)
    return app


def plan_of(app: sl.App, partitions: int = 2, *, exact: bool = True) -> EdgePlan:
    counts = dict.fromkeys(("in", "rows", BETWEEN, "out"), partitions)
    return EdgePlan(app.topology(), counts, {}, exact=exact)


def kinds(plan: EdgePlan) -> list[str]:
    return [edge.kind for edge in plan.edges]


def test_the_setting_makes_all_of_them_plain() -> None:
    assert kinds(plan_of(shop())) == ["exact after commit"]
    assert kinds(plan_of(shop(), exact=False)) == ["plain"]


def test_tasks_that_commit_by_transactions_write_neither_prefixes_nor_markers() -> None:
    app = shop()
    counts = dict.fromkeys(("in", "rows", BETWEEN, "out"), 2)
    plan = EdgePlan(app.topology(), counts, {}, exact=True, transactions=True)
    assert kinds(plan) == ["plain"]
    (part,) = (one for one in app.topology().subtopologies if BETWEEN in one.output_topics)
    positions = {TopicPartition(topic, 1): 5 for topic in ("in", "rows")}
    start = Start(TaskId(part.id, 1), 4, None, StateNumber(2, 9), 1_000)
    edges = plan.of_task(part, positions, dict.fromkeys(positions, InputNote()), {}, start)
    assert (edges.writer, edges.held) == (None, None)


def test_a_period_goes_on_from_what_its_commit_contains() -> None:
    app = shop()
    plan = plan_of(app)
    plan.agreement.held = True
    (part,) = (one for one in app.topology().subtopologies if BETWEEN in one.output_topics)
    positions = {TopicPartition(topic, 1): 5 for topic in ("in", "rows")}
    notes = dict.fromkeys(positions, InputNote())
    commit = CommitMetadata(3, "m", 1, {}, StateNumber(2, 9), born=77, key=b"key")
    start = Start(TaskId(part.id, 1), 4, commit, StateNumber(2, 9), 1_000)
    edges = plan.of_task(part, positions, notes, {}, start)
    held = edges.held
    assert held is not None
    assert (held.born, edges.silent, edges.blocked) == (77, True, True)
    held.claimed()
    (markers,) = held.markers(0)
    assert (markers.topic, markers.partitions) == (BETWEEN, [0, 1])
    base = read_base(markers.values[0])
    assert base == (77 << 32 | 2, 9)
    assert read_head(markers.values[0][:HEAD_BYTES]).is_signed_with(b"key", base)
    assert not edges.silent


def test_without_a_commit_that_tells_it_epochs_count_from_now_and_nothing_was_before() -> None:
    app = shop()
    plan = plan_of(app)
    plan.agreement.held = True
    (part,) = (one for one in app.topology().subtopologies if BETWEEN in one.output_topics)
    start = Start(TaskId(part.id, 0), 4, CommitMetadata(3, "m", 1), StateNumber(2, 9), 1_000)
    held = plan.of_task(part, {}, {}, {}, start).held
    assert held is not None
    held.claimed()
    assert plan.keys.known(writer_of(start.task)) == WriterKey(1_000, held.key)
    (markers,) = held.markers(0)
    assert held.born == 1_000
    assert read_base(markers.values[0]) == (0, 0)


def test_the_keys_of_all_writers_are_asked_for_when_a_reader_begins() -> None:
    app = shop()
    plan = plan_of(app, 3)
    writer, reader = sorted(
        app.topology().subtopologies, key=lambda part: BETWEEN in part.output_topics, reverse=True
    )
    where = TopicPartition(BETWEEN, 2)
    start = Start(TaskId(reader.id, 2), 4, None, StateNumber(2, 9), 1_000)
    plan.of_task(reader, {where: 5}, {where: InputNote()}, {}, start)
    tasks = {writer_of(TaskId(writer.id, partition)) for partition in range(3)}
    assert plan.keys.to_ask(0) == tasks


def test_what_is_read_in_the_order_of_offsets() -> None:
    """Behind it origins are written, or more tasks than a commit can tell of write to it."""
    assert plan_of(shop()).ordered == frozenset()
    assert plan_of(shop(origin=True)).ordered == {BETWEEN}
    assert plan_of(shop(), partitions=129).ordered == {BETWEEN}
