"""The filter before a reader: what counts, what was there before, what has a gap before it."""

from __future__ import annotations

from collections.abc import Sequence

from streamlet.coordinator.commit_metadata import InputNote
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.edges.filter import EdgeFilter
from streamlet.processing.edges.records import INDEX_BITS, edge_of, pack
from streamlet.types import TopicPartition

IN, OTHER = TopicPartition("in", 0), TopicPartition("in", 1)
EDGE = edge_of(IN)


def record(offset: int, before: int = -1, edge: int = EDGE) -> bytes:
    """A record of this input offset; ``before`` is that of the one before it, -1: none."""
    previous = (before + 1 << INDEX_BITS) + 1 if before >= 0 else 0
    (value,) = pack([b"%d" % offset], [edge], [offset + 1 << INDEX_BITS], [previous])
    return value


def batch(values: Sequence[bytes | None], start: int = 0) -> PartitionBatch:
    count = len(values)
    offsets = range(start, start + count)
    heads = [[("n", b"%d" % at)] for at in offsets]
    return PartitionBatch("t", 0, offsets, [b"k"] * count, [*values], [0] * count, [*heads])


def passed(one: EdgeFilter, *values: bytes | None, start: int = 0) -> list[bytes | None]:
    found = one.take(batch(values, start))
    assert len(found.offsets) == len(found.values) == len(found.headers or ())
    return found.values


def test_records_in_order_pass_and_lose_their_prefix() -> None:
    one = EdgeFilter(InputNote())
    assert passed(one, record(0), record(1, 0), record(5, 1)) == [b"0", b"1", b"5"]
    assert one.dropped == {"replay": 0, "gap": 0, "zombie": 0}


def test_what_was_applied_is_dropped() -> None:
    one = EdgeFilter(InputNote())
    passed(one, record(0), record(1, 0))
    assert passed(one, record(0), record(1, 0), record(2, 1)) == [b"2"]
    assert one.dropped == {"replay": 2, "gap": 0, "zombie": 0}


def test_what_follows_on_a_missing_record_waits_for_it() -> None:
    one = EdgeFilter(InputNote())
    assert passed(one, record(0), record(2, 1), record(3, 2)) == [b"0"]
    assert passed(one, record(0), record(1, 0), record(2, 1), record(3, 2)) == [b"1", b"2", b"3"]
    assert one.dropped == {"replay": 1, "gap": 2, "zombie": 0}


def test_an_edge_begins_with_its_first_record_only() -> None:
    one = EdgeFilter(InputNote())
    assert passed(one, record(2, 1)) == []
    assert passed(one, record(1), record(2, 1)) == [b"1", b"2"]


def test_an_open_reader_takes_an_unknown_edge_as_it_comes() -> None:
    one = EdgeFilter(InputNote(open=True))
    assert passed(one, record(2, 1), record(4, 3)) == [b"2"]


def test_after_records_were_skipped_each_edge_may_leap_once() -> None:
    other = edge_of(OTHER)
    one = EdgeFilter(InputNote())
    passed(one, record(0), record(0, edge=other))
    one.skip(7)
    assert one.note.loose == {EDGE, other}
    assert passed(one, record(7, 6), record(9, 8)) == [b"7"]
    assert one.note.loose == {other}
    again = EdgeFilter(one.note)
    assert passed(again, record(7, 6), record(4, 3, edge=other)) == [b"4"]


def test_a_later_incarnation_begins_again_and_ends_the_earlier_one() -> None:
    later = edge_of(IN, "", 9)
    one = EdgeFilter(InputNote())
    passed(one, record(3))
    assert passed(one, record(5, 4, edge=later), record(4, 3)) == [b"4"]  # a gap ends nothing
    assert passed(one, record(0, edge=later), record(6), record(1, 0, later)) == [b"0", b"1"]
    assert set(one.note.applied) == {later}
    assert one.dropped == {"replay": 0, "gap": 1, "zombie": 1}


def test_plain_records_pass_between_those_with_a_prefix() -> None:
    one = EdgeFilter(InputNote())
    assert passed(one, None, b"plain") == [None, b"plain"]
    assert passed(one, b"plain", record(0), None, record(0), record(1, 0)) == [
        *(b"plain", b"0", None, b"1")
    ]


def test_null_values_stay_null() -> None:
    one = EdgeFilter(InputNote())
    values = pack([None, b""], [EDGE] * 2, [1 << INDEX_BITS, 2 << INDEX_BITS], [0, 0])
    assert passed(one, *values) == [None, b""]
    assert passed(one, *values) == []


def test_a_note_goes_up_to_the_position_processed() -> None:
    """Records that wait are not part of the state yet, nor is what they say of their edge."""
    one = EdgeFilter(InputNote(applied={EDGE: (1 << INDEX_BITS) | 1}), buffered=True)
    passed(one, record(1, 0), record(2, 1), start=10)
    one.advance(10)
    assert dict(one.note.applied) == {EDGE: (1 << INDEX_BITS) | 1}
    one.advance(11)
    assert dict(one.note.applied) == {EDGE: (2 << INDEX_BITS) | 1}
    one.advance(12)
    assert dict(one.note.applied) == {EDGE: (3 << INDEX_BITS) | 1}


def test_a_skip_behind_records_that_wait_is_noted_when_they_were_processed() -> None:
    one = EdgeFilter(InputNote(applied={EDGE: (1 << INDEX_BITS) | 1}), buffered=True)
    passed(one, record(1, 0), start=10)
    one.skip(20)
    one.advance(11)
    assert (one.note.loose, one.note.open) == (set(), False)
    one.advance(20)
    assert (one.note.loose, one.note.open) == ({EDGE}, True)
    again = EdgeFilter(one.note, buffered=True)
    assert passed(again, record(9, 8), start=20) == [b"9"]
    again.advance(21)
    assert (dict(again.note.applied), again.note.loose) == ({EDGE: (10 << INDEX_BITS) | 1}, set())


def test_a_later_incarnation_that_waits_takes_nothing_from_the_note() -> None:
    later = edge_of(IN, "", 9)
    one = EdgeFilter(InputNote(), buffered=True)
    passed(one, record(3), record(0, edge=later))
    one.advance(1)
    assert set(one.note.applied) == {EDGE}
    one.advance(2)
    assert set(one.note.applied) == {later}
