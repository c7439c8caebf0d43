"""The writer of records that wait for their commit."""

from __future__ import annotations

import pytest

from streamlet.processing.edges import held_writer, undecided
from streamlet.processing.edges.agreement import Agreement
from streamlet.processing.edges.held_records import MARK
from streamlet.processing.edges.held_writer import (
    SELDOM_MS,
    HeldWriter,
    Markers,
    Period,
    joined,
)
from streamlet.processing.edges.writer import EdgeWriter
from streamlet.processing.outputs import Output
from streamlet.types import NO_STATE, StateNumber, TaskId
from tests.unit.processing.edges.held_edges import BORN, PARTITIONS, TOPIC, Edges, Reading

PERIOD = Period.of(TaskId(0, 0), BORN, 1, NO_STATE)


def test_nothing_is_written_before_the_claim_is_accepted_and_told_everywhere() -> None:
    edges, writer = Edges(), HeldWriter(PERIOD, {TOPIC: PARTITIONS})
    assert (writer.silent, writer.blocked, edges.tell(writer)) == (True, True, [])
    writer.claimed()
    assert writer.silent
    assert edges.tell(writer) == [0, 1]
    assert (writer.silent, writer.blocked) == (False, False)


def test_only_partitions_that_lack_a_word_are_told_and_not_at_once() -> None:
    edges = Edges()
    writer = edges.writer()
    edges.commit(writer, 1)
    edges.tell(writer)
    edges.write(writer, b"one", partition=0)
    edges.write(writer, b"two", partition=1)
    edges.commit(writer, 2)
    assert edges.tell(writer, 5) == []
    edges.write(writer, b"three", partition=1)
    assert edges.tell(writer, 5 + held_writer.SOON_MS) == [0]
    assert edges.tell(writer, 1_000) == []


def test_an_output_with_many_records_is_left_to_the_producer_and_told_everywhere() -> None:
    edges = Edges()
    writer = edges.writer()
    count = held_writer.MANY * PARTITIONS + 1
    values: list[bytes | None] = [b"v"] * count
    written = writer.prefixed(Output(TOPIC, [b"k"] * count, values, [0] * count))
    assert written.partitions is None
    edges.commit(writer, 1)
    assert edges.tell(writer, at_once=True) == [0, 1]


def test_too_much_that_is_undecided_stops_the_task_and_asks_for_a_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(undecided, "MOST_RECORDS", 8)
    edges = Edges()
    writer = edges.writer()
    edges.commit(writer, 1)
    edges.write(writer, b"v", b"v")
    assert (writer.wants_commit, writer.hurries, writer.blocked) == (True, False, False)
    edges.write(writer, b"v")
    assert (writer.hurries, writer.blocked) == (True, False)
    edges.write(writer, *[b"v"] * 6)
    assert writer.blocked
    writer.taken(2)
    assert (writer.wants_commit, writer.blocked) == (False, True)
    writer.accepted(2)
    assert not writer.blocked


def test_what_is_undecided_counts_of_all_tasks_of_a_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(undecided, "MOST_RECORDS", 8)
    edges, bound = Edges(), undecided.Undecided()
    one, other = (edges.writer(TaskId(0, partition), bound=bound) for partition in (0, 1))
    for writer in (one, other):
        edges.commit(writer, 1)
        edges.write(writer, *[b"v"] * 5)
    assert (one.blocked, other.blocked, one.hurries) == (True, True, True)
    edges.commit(one, 2)
    assert (one.blocked, other.blocked) == (False, False)
    edges.write(one, *[b"v"] * 4)
    assert other.blocked
    bound.count([one.waiting])  # the other one is lost
    assert (one.blocked, bound.records) == (False, 4)


def test_the_first_commit_of_a_period_is_asked_for_and_told_at_once() -> None:
    """Readers have waited since the task was stopped elsewhere."""
    edges = Edges()
    writer = edges.writer()
    assert not writer.hurries
    edges.write(writer, b"v")
    assert writer.hurries
    edges.commit(writer, 1)
    assert edges.tell(writer) == [0]
    edges.write(writer, b"v")
    assert not writer.hurries


def test_markers_of_several_tasks_are_one_record_of_each_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = [
        Markers("a", [0, 1], [b"1", b"1"]),
        Markers("b", [0], [b"1"]),
        Markers("a", [1], [b"2"]),
    ]
    found = [Markers("a", [0, 1], [b"1", b"12"]), Markers("b", [0], [b"1"])]
    assert joined(told) == found
    monkeypatch.setattr(held_writer, "MOST_JOINED", 1)
    assert joined(told)[0] == Markers("a", [0, 1, 1], [b"1", b"1", b"2"])


def test_bytes_count_likewise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undecided, "MOST_BYTES", 1_000)
    edges = Edges()
    writer = edges.writer()
    edges.write(writer, b"v" * 1_000)
    assert (writer.hurries, writer.blocked) == (True, True)


def test_the_form_changes_where_all_before_it_is_decided() -> None:
    edges, agreement = Edges(), Agreement(held=True)
    writer, reading = edges.writer(agreement=agreement), Reading(edges)
    edges.write(writer, b"one")
    agreement.held = False
    assert (writer.blocked, writer.hurries) == (True, True)
    edges.write(writer, b"two")  # amid a batch
    assert edges.logs[0][-1].startswith(MARK)
    edges.commit(writer, 1)
    assert not writer.blocked
    assert edges.tell(writer, at_once=True) == [0], "no record tells it"
    edges.write(writer, b"three")
    assert edges.logs[0][-1] == b"three"
    assert reading.read() == [b"one", b"two", b"three"]


def test_members_that_can_read_it_by_now_get_records_that_wait() -> None:
    edges, agreement = Edges(), Agreement()
    writer, reading = edges.writer(agreement=agreement), Reading(edges)
    edges.write(writer, b"plain")
    assert (edges.logs[0], writer.wants_commit, writer.blocked) == ([b"plain"], False, False)
    agreement.held = True
    assert writer.blocked
    edges.tell(writer)
    assert (writer.blocked, writer.hurries) == (True, True)
    edges.commit(writer, 1)
    edges.write(writer, b"held")
    assert reading.read() == [b"plain"]
    edges.commit(writer, 2)
    edges.tell(writer, at_once=True)
    assert reading.read() == [b"held"]


def test_without_the_setting_earlier_periods_are_decided_all_the_same() -> None:
    edges = Edges()
    reading = Reading(edges)
    edges.write(before := edges.writer(), b"one")
    edges.commit(before, 1)
    edges.write(edges.writer(epoch=2, base=StateNumber(1, 1), exact=False), b"two")
    assert reading.read() == [b"one", b"two"]


def test_a_period_in_place_goes_on_from_its_own_last_commit() -> None:
    edges = Edges()
    writer, reading = edges.writer(), Reading(edges)
    edges.write(writer, b"one")
    edges.commit(writer, 1)
    writer.begin_again(2)
    assert writer.silent
    writer.claimed()
    edges.tell(writer)
    assert reading.read() == [b"one"]


def test_a_writer_of_edges_asks_it_first_and_notes_nothing_of_it() -> None:
    writer = EdgeWriter({}, {}, held=(held := HeldWriter(PERIOD, {TOPIC: PARTITIONS})))
    held.claimed()
    held.markers(0)
    output = Output(TOPIC, [b"k"], [b"v"], [0])
    (value,) = writer.prefixed(output).values
    assert value is not None
    assert value.startswith(MARK)
    writer.refused(output, 0)
    other = Output("other", [b"k"], [b"v"], [0])
    assert writer.prefixed(other) is other


def test_now_and_then_every_partition_hears_of_a_commit() -> None:
    edges = Edges()
    writer = edges.writer()
    edges.write(writer, b"one", partition=0)
    edges.commit(writer, 1)
    assert edges.tell(writer, at_once=True) == [0]
    assert edges.tell(writer, SELDOM_MS - 1) == []
    assert edges.tell(writer, SELDOM_MS) == [1]
    assert edges.tell(writer, 2 * SELDOM_MS) == []
    edges.commit(writer, 2)  # without a record, none of which waits for it
    assert edges.tell(writer, 4 * SELDOM_MS) == []
