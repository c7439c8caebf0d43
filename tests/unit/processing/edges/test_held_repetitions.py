"""What a reader processed is not processed again: late deliveries, and records that do not wait."""

from __future__ import annotations

import pytest

from streamlet.processing.edges import held_run
from streamlet.processing.edges.held_writer import HeldWriter
from streamlet.processing.edges.writer_keys import WriterKeys
from streamlet.types import TaskId
from tests.unit.processing.edges.held_edges import Edges, Reading

A, B = TaskId(0, 0), TaskId(0, 1)
#: Where the record of ``processed_once`` is, behind the marker of its period.
RECORD = 1


def processed_once(*, ordered: bool) -> tuple[Edges, HeldWriter, Reading]:
    """An edge with one record, whose commit was told, and which its reader has committed."""
    edges = Edges()
    writer, reading = edges.writer(), Reading(edges, ordered=ordered)
    edges.write(writer, b"one")
    edges.commit(writer, 1)
    edges.tell(writer, at_once=True)
    assert reading.read() == [b"one"]
    assert reading.commit() == len(edges.logs[0])
    return edges, writer, reading


def write_second(edges: Edges, writer: HeldWriter) -> None:
    """Write another record, whose commit is told."""
    edges.write(writer, b"two")
    edges.commit(writer, 2)
    edges.tell(writer, at_once=True)


@pytest.mark.parametrize("most", [1, 2, 1_000])
def test_a_delivery_that_came_twice_counts_once(most: int) -> None:
    edges = Edges()
    writer, reading = edges.writer(), Reading(edges)
    edges.write(writer, b"one", b"two")
    edges.logs[0] += edges.logs[0][-2:]
    edges.commit(writer, 1)
    edges.tell(writer, at_once=True)
    while reading.read(most=most) or reading.commit() < len(edges.logs[0]):
        pass
    assert reading.found == [b"one", b"two"]


@pytest.mark.parametrize("ordered", [False, True])
def test_a_delivery_that_comes_behind_the_end_of_its_commit_does_not_count(ordered: bool) -> None:
    """A reader that begins behind that end has not read what told it."""
    edges, writer, reading = processed_once(ordered=ordered)
    late = edges.logs[0][RECORD]
    reading.begin()
    edges.logs[0].append(late)
    write_second(edges, writer)
    assert reading.read() == [b"two"]


@pytest.mark.parametrize("ordered", [False, True])
def test_plain_records_behind_a_position_are_not_processed_again(ordered: bool) -> None:
    """The key of a writer is asked for, and its marker holds back the position meanwhile."""
    edges = Edges()
    edges.writer()
    keys, edges.keys = edges.keys, WriterKeys()
    reading = Reading(edges, ordered=ordered)
    edges.logs[0] += [b"one", b"two"]
    reading.read()
    assert reading.commit() == 0
    reading.begin()
    edges.logs[0].append(b"three")
    edges.keys.answer({0: keys.known(0)}, 0)
    reading.read()
    assert reading.found == [b"one", b"two", b"three"]
    assert reading.commit() == len(edges.logs[0])


def test_plain_records_amid_a_commit_that_is_read_again_are_processed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held_run, "MANY", 1)
    edges = Edges()
    writer, reading = edges.writer(), Reading(edges)
    edges.write(writer, b"one")
    edges.logs[0] += [b"plain", edges.logs[0][-1]]
    edges.write(writer, b"two")
    edges.commit(writer, 1)
    edges.tell(writer, at_once=True)
    assert reading.read() == [b"one", b"plain", b"two"]
    reading.processed(2)
    assert reading.commit() == 1, "from the first record of the commit on"
    reading.begin()
    assert reading.read() == [b"two"]


def test_what_comes_late_of_a_commit_goes_before_later_commits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held_run, "MANY", 1)
    edges = Edges()
    away, writer, reading = edges.writer(B), edges.writer(), Reading(edges)
    edges.write(away, b"away")
    edges.logs[0].append(b"plain")
    edges.write(writer, b"one")
    edges.write(writer, b"late")
    late = edges.logs[0].pop()
    writer.taken(1)
    edges.write(writer, b"two")
    edges.logs[0] += [b"more", late]
    writer.accepted(1)
    edges.tell(writer, at_once=True)
    edges.commit(writer, 2)
    edges.tell(writer, at_once=True)
    edges.commit(away, 1)
    edges.tell(away, at_once=True)
    found = reading.read()
    assert [one for one in found if one in (b"one", b"late", b"two")] == [b"one", b"late", b"two"]
    assert len(found) == 6


def test_plain_records_come_behind_those_before_them_that_wait() -> None:
    """No mark would tell a reader that begins again that it has processed them."""
    edges = Edges()
    writer, reading = edges.writer(), Reading(edges)
    edges.logs[0].insert(0, b"before")
    assert reading.read(most=1) == [b"before"]
    edges.write(writer, b"held")
    edges.logs[0].append(b"plain")
    assert reading.read() == []
    assert reading.commit() == 2
    edges.commit(writer, 1)
    edges.tell(writer, at_once=True)
    assert reading.read() == [b"held", b"plain"]
    assert reading.commit() == len(edges.logs[0])


def test_what_is_decided_comes_before_plain_records_behind_it_whatever_waits_before() -> None:
    """A task that goes over to transactions writes plain records behind those that wait."""
    edges = Edges()
    away, gone, reading = edges.writer(A), edges.writer(B), Reading(edges)
    edges.write(away, b"away")
    edges.logs[0].append(b"plain")
    edges.write(gone, b"one", b"two")
    edges.logs[0] += [b"more", b"most"]
    assert reading.read() == []
    edges.commit(gone, 1)
    edges.tell(gone, at_once=True)
    assert reading.read() == []
    edges.commit(away, 1)
    edges.tell(away, at_once=True)
    assert reading.read() == [b"away", b"plain", b"one", b"two", b"more", b"most"]
    assert reading.commit() == len(edges.logs[0])


def test_what_was_processed_is_known_where_a_commit_is_read_again_in_part() -> None:
    edges = Edges()
    away, writer, reading = edges.writer(B), edges.writer(), Reading(edges)
    edges.write(away, b"held")
    edges.write(writer, b"one", b"two")
    edges.commit(writer, 1)
    edges.tell(writer, at_once=True)
    assert reading.read() == [b"one", b"two"]
    reading.processed(1)
    reading.commit()
    reading.begin()
    assert reading.read() == [b"two"]
    edges.commit(away, 1)
    edges.tell(away, at_once=True)
    assert reading.read() == [b"held"]


@pytest.mark.parametrize("ordered", [False, True])
def test_a_reader_that_learned_nothing_forgets_no_commit_that_was_over(ordered: bool) -> None:
    edges, writer, reading = processed_once(ordered=ordered)
    edges.logs[0].append(edges.logs[0][RECORD])
    reading.use(WriterKeys())
    reading.begin()
    assert reading.read() == []
    reading.commit()
    reading.use(edges.keys)
    reading.begin()
    write_second(edges, writer)
    assert reading.read() == [b"two"]
