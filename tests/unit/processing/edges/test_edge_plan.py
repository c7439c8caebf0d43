"""The edges of an application as a worker sees them."""

from __future__ import annotations

import pytest

import streamlet as sl
from streamlet.coordinator.commit_metadata import CommitMetadata, InputNote
from streamlet.coordinator.commit_packing import WriterMark
from streamlet.processing.edges.held_records import (
    HEAD_BYTES,
    MARK,
    read_base,
    read_head,
    writer_of,
)
from streamlet.processing.edges.plan import EdgePlan, TaskEdges
from streamlet.processing.edges.records import MARK as ORIGINS
from streamlet.processing.edges.start import Start
from streamlet.processing.edges.writer_keys import WriterKey
from streamlet.processing.outputs import Output
from streamlet.state.log_numbers import number_of
from streamlet.topology.graph import Topology
from streamlet.types import StateNumber, TaskId, TopicPartition

BETWEEN = "a-by-repartition"
ONE, TWO = "a-one-repartition", "a-two-repartition"


def shop(*, origin: bool = False) -> sl.App:
    app = sl.App("a")
    rows = app.table("rows", key=str, value=int)
    met = app.stream("in", key=str, value=int).join(rows, lambda a, b: a + b, value=int)
    counts = met.group_by(lambda k, v: str(v), key=str, value=int, name="by").count(store="counts")
    counts.to_stream().to("out", origin=origin)
    return app


def plan_of(
    app: sl.App, partitions: int = 2, *, exact: bool = True, transactions: bool = False
) -> EdgePlan:
    counts = dict.fromkeys(("in", "rows", BETWEEN, "out"), partitions)
    return EdgePlan(app.topology(), counts, {}, exact=exact, transactions=transactions)


def kinds(plan: EdgePlan) -> list[str]:
    return [edge.kind for edge in plan.edges]


def test_the_setting_makes_all_of_them_plain() -> None:
    assert kinds(plan_of(shop())) == ["exact after commit"]
    assert kinds(plan_of(shop(), exact=False)) == ["plain"]


def test_tasks_that_commit_by_transactions_write_neither_prefixes_nor_markers() -> None:
    app = shop()
    plan = plan_of(app, transactions=True)
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


@pytest.mark.parametrize("transactions", [False, True])
def test_the_keys_of_all_writers_are_asked_for_when_a_reader_begins(transactions: bool) -> None:
    """With transactions if records have waited: markers tell what became of them."""
    app = shop()
    plan = plan_of(app, 3, transactions=transactions)
    writer, reader = sorted(
        app.topology().subtopologies, key=lambda part: BETWEEN in part.output_topics, reverse=True
    )
    where = TopicPartition(BETWEEN, 2)
    start = Start(TaskId(reader.id, 2), 4, None, StateNumber(2, 9), 1_000)
    note = InputNote(held={writer_of(TaskId(writer.id, 1)): WriterMark(7)} if transactions else {})
    plan.of_task(reader, {where: 5}, {where: note}, {}, start)
    tasks = {writer_of(TaskId(writer.id, partition)) for partition in range(3)}
    assert plan.keys.to_ask(0) == tasks


def test_what_is_read_in_the_order_of_offsets() -> None:
    """Behind it origins are written, or more tasks than a commit can tell of write to it."""
    assert plan_of(shop()).ordered == frozenset()
    assert plan_of(shop(origin=True)).ordered == {BETWEEN}
    assert plan_of(shop(), partitions=129).ordered == {BETWEEN}


def in_a_row() -> tuple[EdgePlan, Topology]:
    """Two repartitions: records wait in the second because they do in the first."""
    app = sl.App("a")
    sent = app.stream("in", key=str, value=int)
    varying = sent.map(sl.non_deterministic(lambda k, v: (k, v)), key=str, value=int)
    again = varying.repartition(name="one").map(lambda k, v: (str(v), v), key=str, value=int)
    again.repartition(name="two").to("out")
    topology = app.topology()
    counts = dict.fromkeys(("in", ONE, TWO, "out"), 2)
    return EdgePlan(topology, counts, {}, exact=True, timeout_ms=1_000), topology


def between_two(plan: EdgePlan, topology: Topology, commit: CommitMetadata) -> TaskEdges:
    """The edges of a task that reads the first and writes the second."""
    (part,) = (one for one in topology.subtopologies if TWO in one.output_topics)
    where = TopicPartition(ONE, 0)
    start = Start(TaskId(part.id, 0), 4, commit, StateNumber(2, 9), 1_000)
    return plan.of_task(part, {where: 5}, {where: InputNote()}, {}, start)


def form_of(edges: TaskEdges) -> bytes | None:
    """How the next record begins that its task writes."""
    assert edges.writer is not None
    origins = [(1, TopicPartition(ONE, 0), [5])]
    (value,) = edges.writer.prefixed(Output(TWO, [b"k"], [b"v"], [0], origins=origins)).values
    assert value is not None
    return value[: len(MARK)]


def claimed(edges: TaskEdges) -> TaskEdges:
    """They, once the claim of their period was accepted and told."""
    assert edges.held is not None
    assert edges.writer is not None
    edges.writer.forms.accepted({})
    edges.held.claimed()
    edges.held.markers(0, at_once=True)
    assert not edges.silent
    return edges


def test_what_waits_because_of_what_it_reads_waits_from_the_claim_on() -> None:
    plan, topology = in_a_row()
    plan.agreement.take(prefixes=True, held=True)
    edges = between_two(plan, topology, CommitMetadata(3, "m", 1))
    assert edges.writer is not None
    assert edges.writer.forms.numbers == frozenset()
    assert form_of(claimed(edges)) == MARK


def test_until_all_can_read_what_waits_it_bears_origins_and_goes_on_with_them() -> None:
    """They end with a commit behind what lay there one session timeout after the claim."""
    plan, topology = in_a_row()
    plan.agreement.take(prefixes=True, held=False)
    edges = claimed(between_two(plan, topology, CommitMetadata(3, "m", 1)))
    assert edges.writer is not None
    forms = edges.writer.forms
    origins = ORIGINS.to_bytes(8, "little")
    assert (form_of(edges), forms.numbers) == (origins, {number_of(TWO)})
    plan.agreement.take(prefixes=True, held=True)
    assert form_of(claimed(edges)) == origins
    again = between_two(plan, topology, CommitMetadata(4, "m", 1, origins=forms.numbers))
    assert form_of(claimed(again)) == origins

    where = TopicPartition(ONE, 0)
    assert [forms.asks_ends(now_ms) for now_ms in (0, 999, 1_000)] == [False, False, True]
    forms.accepted({where: 7})
    found = []
    for position in (6, 7):
        forms.taken({where: position})
        found.append(edges.silent)
        forms.accepted({})
    assert (found, form_of(edges), forms.numbers) == ([False, True], MARK, frozenset())
