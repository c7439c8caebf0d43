"""The reader of records that wait for the commit of the task that wrote them."""

from __future__ import annotations

import gc

import pytest

from streamlet.coordinator.commit_metadata import InputNote
from streamlet.coordinator.commit_packing import WriterMark
from streamlet.processing.edges import held_reader, held_records
from streamlet.processing.edges.held_columns import pack
from streamlet.processing.edges.held_records import MARKER, pack_head, pack_marker, writer_of
from streamlet.processing.edges.held_writer import HeldWriter, Period, joined
from streamlet.processing.edges.writer_keys import STALE_MS, WriterKey, WriterKeys
from streamlet.types import NO_STATE, StateNumber, TaskId
from tests.unit.processing.edges.held_edges import BORN, KEY, Edges, Reading

A, B = TaskId(0, 0), TaskId(0, 1)


def test_a_record_is_held_until_the_commit_that_contains_it_is_known() -> None:
    edges = Edges()
    writer, reading = edges.writer(), Reading(edges)
    edges.write(writer, b"one", b"two")
    assert reading.read() == []
    assert (reading.reader.held, reading.commit()) == (2, 1)
    edges.commit(writer, 1)
    edges.tell(writer, at_once=True)
    assert reading.read() == [b"one", b"two"]
    assert (reading.reader.held, reading.commit()) == (0, len(edges.logs[0]))


def test_a_record_written_after_a_commit_tells_of_it() -> None:
    edges = Edges()
    writer, reading = edges.writer(), Reading(edges)
    edges.write(writer, b"one")
    writer.taken(1)
    edges.write(writer, b"two")
    assert reading.read() == [], "its commit is under way"
    writer.accepted(1)
    edges.write(writer, b"three")
    assert reading.read() == [b"one"]


@pytest.mark.parametrize("ordered", [False, True])
def test_what_a_commit_contained_is_applied_where_its_writer_died(ordered: bool) -> None:
    edges = Edges()
    writer, reading = edges.writer(), Reading(edges, ordered=ordered)
    edges.write(writer, b"one")
    edges.commit(writer, 1)
    edges.write(writer, b"never")
    assert reading.read() == [b"one"]
    edges.commit(writer, 2)  # and it dies before it tells
    edges.write(other := edges.writer(epoch=2, base=StateNumber(1, 2)), b"two")
    assert reading.read() == [b"never"]
    edges.commit(other, 1)
    edges.tell(other, at_once=True)
    assert reading.read() == [b"two"]


def test_what_no_commit_contains_is_dropped_when_the_next_period_begins() -> None:
    edges = Edges()
    reading = Reading(edges)
    edges.write(dead := edges.writer(), b"again")
    edges.writer(epoch=2)  # it only claims
    edges.write(other := edges.writer(epoch=3), b"again")
    edges.write(dead, b"zombie")
    edges.commit(other, 1)
    edges.tell(other, at_once=True)
    assert reading.read() == [b"again"]
    assert reading.reader.dropped == {"uncommitted": 1, "zombie": 1, "replay": 0, "forged": 0}


def test_a_writer_that_is_away_holds_no_other_back_and_nothing_is_applied_twice() -> None:
    edges = Edges()
    away, other, reading = edges.writer(A), edges.writer(B), Reading(edges)
    edges.write(away, b"a")
    first = len(edges.logs[0]) - 1
    edges.write(other, b"b")
    edges.commit(other, 1)
    edges.tell(other, at_once=True)
    assert reading.read() == [b"b"]
    assert reading.commit() == first
    reading.begin()
    edges.commit(away, 1)
    edges.tell(away, at_once=True)
    assert reading.read() == [b"a"]
    assert reading.found == [b"b", b"a"]


def test_in_order_a_writer_that_is_away_holds_back_what_lies_behind() -> None:
    edges = Edges()
    away, other, reading = edges.writer(A), edges.writer(B), Reading(edges, ordered=True)
    edges.write(away, b"a")
    edges.write(other, b"b")
    edges.commit(other, 1)
    edges.tell(other, at_once=True)
    assert reading.read() == []
    edges.commit(away, 1)
    edges.tell(away, at_once=True)
    assert reading.read() == [b"a", b"b"]


def test_a_period_whose_opening_was_not_delivered_decides_nothing() -> None:
    edges = Edges()
    reading = Reading(edges)
    edges.write(dead := edges.writer(), b"one")
    edges.commit(dead, 1)
    lost = edges.writer(epoch=2, base=StateNumber(1, 1))
    edges.logs[0].pop()
    edges.write(lost, b"never")
    assert reading.read() == []
    edges.writer(epoch=3, base=StateNumber(1, 1))
    assert reading.read() == [b"one"]
    assert reading.commit() == len(edges.logs[0])


@pytest.mark.parametrize("ordered", [False, True])
def test_a_record_may_have_the_markers_of_several_tasks(ordered: bool) -> None:
    edges = Edges()
    writers, reading = [edges.writer(A), edges.writer(B)], Reading(edges, ordered=ordered)
    edges.logs[0][:] = [b"".join(edges.logs[0])]
    for writer, value in zip(writers, (b"a", b"b"), strict=True):
        edges.write(writer, value)
        edges.commit(writer, 1)
    (told,) = joined([one for writer in writers for one in writer.markers(0, at_once=True)])
    assert told.partitions == [0]
    edges.logs[0] += told.values
    assert reading.read() == [b"a", b"b"]
    assert reading.commit() == len(edges.logs[0])


def test_a_null_value_stays_one() -> None:
    edges = Edges()
    writer, reading = edges.writer(), Reading(edges)
    edges.write(writer, None, b"")
    edges.commit(writer, 1)
    edges.tell(writer, at_once=True)
    assert reading.read() == [None, b""]


def test_it_names_whom_it_waits_for_and_counts_how_long() -> None:
    edges = Edges()
    reading = Reading(edges)
    edges.write(writer := edges.writer(B), b"one")
    reading.read(now_ms=1_000)
    assert reading.reader.oldest == (1, 1_000)
    edges.commit(writer, 1)
    edges.tell(writer, at_once=True)
    reading.read(now_ms=1_250)
    assert reading.reader.oldest is None
    assert (sum(reading.reader.waits.counts), reading.reader.waits.sum) == (1, 0.25)


def test_marks_that_are_needed_go_before_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_reader, "MOST_MARKS", 2)
    edges = Edges()
    reading = Reading(edges)
    early = [edges.writer(TaskId(1, partition)) for partition in range(3)]
    for number, writer in enumerate(early):
        edges.write(writer, b"%d" % number)
        edges.commit(writer, 1)
        edges.tell(writer, at_once=True)
    edges.write(edges.writer(A), b"held")
    edges.write(other := edges.writer(B), b"beyond")
    edges.commit(other, 1)
    edges.tell(other, at_once=True)
    assert reading.read() == [b"0", b"1", b"2", b"beyond"]
    reading.commit()
    note = reading.reader.note
    assert len(note.held) == 2
    assert 1 in note.held, "what was applied behind the position"


def test_notes_of_writers_are_read_back() -> None:
    marks = {
        writer << 32 | 7: WriterMark((1_700_000_000 + writer) << 32 | 3, 9, writer)
        for writer in range(99)
    }
    note = InputNote(held=marks)
    assert InputNote.from_json(note.as_json()) == note


FORGED = {
    "a task of another subtopology": (TaskId(9, 0), BORN << 32 | 1, 5),
    "a period of next week": (A, BORN + 7 * 86_400 << 32 | 1, 5),
    "the highest period": (A, (1 << 64) - 1, 5),
    "the next period": (A, BORN << 32 | 2, 1),
    "a later commit": (A, BORN << 32 | 1, 9),
    "the commit to come": (A, BORN << 32 | 1, 2),
}


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize(("task", "period", "number"), FORGED.values(), ids=FORGED)
def test_what_others_say_in_the_name_of_a_task_counts_for_nothing(
    task: TaskId, period: int, number: int, ordered: bool, caplog: pytest.LogCaptureFixture
) -> None:
    edges = Edges()
    writer, reading = edges.writer(), Reading(edges, ordered=ordered)
    edges.write(writer, b"one")
    edges.commit(writer, 1)
    edges.tell(writer, at_once=True)
    edges.write(writer, b"two")
    assert reading.read() == [b"one"]
    marker = pack_head(writer_of(task), period, number, MARKER, key=b"another")
    edges.logs[0].append(pack_marker(marker, 0, (BORN << 32 | 1, 2)))
    edges.logs[0] += pack(pack_head(writer_of(task), period, number), [b"forged"], 1)
    edges.logs[0].append(marker)  # cut off, too
    assert reading.read() == []
    edges.commit(writer, 2)
    edges.tell(writer, at_once=True)
    edges.keys.answer({0: WriterKey(BORN, KEY)}, STALE_MS)
    assert reading.read() == [b"two"]
    assert reading.commit() == len(edges.logs[0])
    assert reading.reader.dropped["forged"] == 1
    assert "between-0: what is at offset 4 says that task" in caplog.text
    assert len(reading.reader.note.held) == 1


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("sequence", [0, 2, 1 << 40])
def test_who_copies_a_head_adds_records_and_takes_none_away(ordered: bool, sequence: int) -> None:
    edges = Edges()
    writer, reading = edges.writer(), Reading(edges, ordered=ordered)
    edges.write(writer, b"one")
    head = edges.logs[0][-1][: held_records.HEAD_BYTES]
    edges.logs[0] += pack(head, [b"forged"], sequence)
    edges.write(writer, b"two")
    edges.commit(writer, 1)
    edges.write(writer, b"three")
    late = pack(head, [b"late"], sequence)
    edges.logs[0] += late
    assert reading.read() == [b"one", b"forged", b"two"]
    reading.commit()
    reading.begin()
    edges.write(writer, b"four")
    edges.commit(writer, 2)
    edges.tell(writer, at_once=True)
    assert set(reading.read()) - set(late) >= {b"three", b"four"}
    assert reading.commit() == len(edges.logs[0])


def test_a_copy_of_the_next_head_goes_before_no_record() -> None:
    """A partition gets records later than another, where a head can be copied from."""
    edges = Edges()
    writer, reading = edges.writer(), Reading(edges)
    edges.write(writer, b"one")
    edges.write(writer, b"late")
    late = edges.logs[0].pop()
    writer.taken(1)
    edges.write(writer, b"elsewhere", partition=1)
    edges.logs[0] += pack(edges.logs[1][-1][: held_records.HEAD_BYTES], [b"forged"], 7)
    edges.logs[0].append(late)
    writer.accepted(1)
    edges.tell(writer, at_once=True)
    edges.write(writer, b"two")
    assert reading.read() == [b"one", b"late"]
    reading.commit()
    reading.begin()
    edges.commit(writer, 2)
    edges.tell(writer, at_once=True)
    assert reading.read() == [b"forged", b"two"]


@pytest.mark.parametrize("ordered", [False, True])
def test_the_key_of_a_writer_is_asked_for_and_nothing_is_decided_before(ordered: bool) -> None:
    edges = Edges()
    writer, edges.keys = edges.writer(), WriterKeys()
    reading = Reading(edges, ordered=ordered)
    edges.write(writer, b"one")
    edges.commit(writer, 1)
    edges.tell(writer, at_once=True)
    assert reading.read() == []
    assert (reading.commit(), reading.reader.may_go_on) == (0, False)
    assert edges.keys.to_ask(0) == {0}
    edges.keys.answer({0: WriterKey()}, 0)
    assert reading.reader.may_go_on
    assert reading.read() == [], "its task was not claimed yet"
    assert not edges.keys.to_ask(100)
    assert edges.keys.to_ask(1_000) == {0}
    edges.keys.answer({0: WriterKey(BORN, KEY)}, 1_000)
    assert reading.read() == [b"one"]
    assert reading.commit() == len(edges.logs[0])
    assert not edges.keys.to_ask(9_000)


def test_a_later_life_is_believed_once_the_group_knows_it() -> None:
    """A tool set the positions of the task, and its metadata is gone."""
    edges = Edges()
    writer, reading = edges.writer(), Reading(edges)
    edges.write(writer, b"one")
    edges.commit(writer, 1)
    edges.tell(writer, at_once=True)
    assert reading.read() == [b"one"]
    other = HeldWriter(Period.of(A, BORN + 9, 1, NO_STATE, b"other"), {"between": 2})
    other.claimed()
    edges.tell(other)
    edges.write(other, b"two")
    edges.commit(other, 1)
    edges.tell(other, at_once=True)
    assert reading.read(now_ms=5) == []
    edges.keys.answer({0: WriterKey(BORN, KEY)}, 6)
    assert reading.read() == [], "a coordinator that knows less"
    edges.keys.answer({0: WriterKey(BORN + 9, b"other")}, 7)
    assert reading.read() == [b"two"]
    edges.keys.answer({0: WriterKey(BORN, KEY)}, 8)
    edges.write(other, b"three")
    edges.write(writer, b"zombie")
    edges.commit(other, 2)
    edges.tell(other, at_once=True)
    assert reading.read() == [b"three"]


def test_a_task_that_there_is_not_wrote_nothing() -> None:
    edges = Edges()
    writer, reading = edges.writer(), Reading(edges)
    edges.keys.answer({writer_of(TaskId(1, 99)): None}, 0)
    edges.logs[0] += pack(pack_head(writer_of(TaskId(1, 99)), BORN << 32 | 1, 1), [b"forged"], 1)
    edges.write(writer, b"one")
    edges.commit(writer, 1)
    edges.tell(writer, at_once=True)
    assert reading.read() == [b"one"]
    assert reading.commit() == len(edges.logs[0])


def test_what_the_task_was_given_is_not_kept_until_its_next_commit() -> None:
    edges = Edges()
    writer, reading = edges.writer(), Reading(edges)
    edges.write(writer, b"one", b"two")
    edges.commit(writer, 1)
    edges.tell(writer, at_once=True)
    assert reading.read() == [b"one", b"two"]
    kept = {id(one) for value in reading.found for one in gc.get_referrers(value)}
    assert kept == {id(reading.found)}
    assert reading.commit() == len(edges.logs[0])
