"""The filter before a reader: what counts, what was there before, what has a gap before it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from streamlet.coordinator.commit_metadata import CommitMetadata, InputNote
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.edges import records
from streamlet.processing.edges.filter import EdgeFilter
from streamlet.processing.edges.records import INDEX_BITS, edge_of, pack
from streamlet.topology.edges import MOST_SOURCES
from streamlet.types import TopicPartition

IN, OTHER = TopicPartition("in", 0), TopicPartition("in", 1)
EDGE = edge_of(IN)
SET_BACK = 1_700_000_000  # s since the epoch


@pytest.fixture(autouse=True, params=["extension", "python"])
def _passes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setattr(records, "cut_origins", None)
    elif records.cut_origins is None:
        pytest.skip("the extension was not built")


def record(offset: int, before: int = -1, edge: int = EDGE) -> bytes:
    """A record of this input offset; ``before`` is that of the one before it, -1: none."""
    previous = (before + 1 << INDEX_BITS) + 1 if before >= 0 else 0
    (value,) = pack([b"%d" % offset], [edge], [offset + 1 << INDEX_BITS], [previous])
    return value


def honest(start: int, count: int = 1000) -> list[bytes]:
    """Records of these input offsets, each behind the one before it."""
    return [record(offset, offset - 1) for offset in range(start, start + count)]


def kept(one: EdgeFilter) -> EdgeFilter:
    """A filter that goes on with the note of a commit, read from its text."""
    found = CommitMetadata.from_text(CommitMetadata(1, "a", 1, note=one.note).to_text())
    assert found is not None
    return EdgeFilter(found.note)


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
    assert one.dropped == {"replay": 0, "gap": 0, "zombie": 0, "beyond": 0}


def test_what_was_applied_is_dropped() -> None:
    one = EdgeFilter(InputNote())
    passed(one, record(0), record(1, 0))
    assert passed(one, record(0), record(1, 0), record(2, 1)) == [b"2"]
    assert one.dropped == {"replay": 2, "gap": 0, "zombie": 0, "beyond": 0}


def test_what_follows_on_a_missing_record_waits_for_it() -> None:
    one = EdgeFilter(InputNote())
    assert passed(one, record(0), record(2, 1), record(3, 2)) == [b"0"]
    assert passed(one, record(0), record(1, 0), record(2, 1), record(3, 2)) == [b"1", b"2", b"3"]
    assert one.dropped == {"replay": 1, "gap": 2, "zombie": 0, "beyond": 0}


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
    later = edge_of(IN, "", SET_BACK)
    one = EdgeFilter(InputNote())
    passed(one, record(3))
    assert passed(one, record(5, 4, edge=later), record(4, 3)) == [b"4"]  # a gap ends nothing
    assert passed(one, record(0, edge=later), record(6), record(1, 0, later)) == [b"0", b"1"]
    assert set(one.note.applied) == {later}
    assert one.dropped == {"replay": 0, "gap": 1, "zombie": 1, "beyond": 0}


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
    later = edge_of(IN, "", SET_BACK)
    one = EdgeFilter(InputNote(), buffered=True)
    passed(one, record(3), record(0, edge=later))
    one.advance(1)
    assert set(one.note.applied) == {EDGE}
    one.advance(2)
    assert set(one.note.applied) == {later}


# -- records that another program wrote ------------------------------------------------------------


@pytest.mark.parametrize("origin", [(1 << 64) - 2, 1 << 63, (1 << 62) + 1, (10 + (1 << 33)) << 20])
@pytest.mark.parametrize("follows", [False, True])
def test_an_origin_that_no_input_has_is_dropped_and_named(
    origin: int, follows: bool, caplog: pytest.LogCaptureFixture
) -> None:
    one = EdgeFilter(InputNote())
    passed(one, *honest(0, 10))
    forged = pack([b"x"], [EDGE], [origin], [(10 << INDEX_BITS) + 1 if follows else 0])
    assert passed(one, *forged, start=70) == []
    assert passed(one, *honest(10), start=71) == [b"%d" % at for at in range(10, 1010)]
    assert one.dropped["beyond"] == 1
    assert "t-0: the record at offset 70 has an origin that cannot be" in caplog.text


@pytest.mark.parametrize("ahead", [900, 10**5, 10**9])
@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_a_forged_origin_that_could_be_silences_no_honest_record(
    ahead: int, follows: bool, again: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even behind a commit, if it is far."""
    if again and ahead == 900:
        pytest.skip("a commit keeps long leaps only")
    one = EdgeFilter(InputNote())
    passed(one, *honest(0, 10))
    passed(one, record(10 + ahead, 9 if follows else -1), start=10)
    if again:
        one = kept(one)
    assert len(passed(one, *honest(10, 400), start=11)) == 400
    assert len(passed(one, *honest(410, 400), start=411)) == 400
    assert passed(one, *honest(10, 800)) == []  # each of them counts once
    assert "the record at offset 11 goes on before an origin that was met" in caplog.text


def test_forged_origins_one_above_the_other_silence_no_honest_record() -> None:
    one = EdgeFilter(InputNote())
    passed(one, *honest(0, 10))
    passed(one, record(5_000), record(10**6), record(10**6 + 1, 10**6), record(10**9, 10**6 + 1))
    assert len(passed(one, *honest(10))) == 1000


def test_the_first_record_of_an_edge_may_be_forged() -> None:
    one = EdgeFilter(InputNote())
    passed(one, record(10**9))
    assert len(passed(one, record(0), *honest(1, 999))) == 1000


def test_what_was_leapt_over_counts_also_for_a_task_that_reads_ahead() -> None:
    one = EdgeFilter(InputNote(), buffered=True)
    passed(one, *honest(0, 10))
    passed(one, record(10**6), start=10)
    passed(one, *honest(10, 100), start=11)
    one.advance(61)
    again = kept(one)
    assert passed(again, *honest(10, 100)) == [b"%d" % at for at in range(60, 110)]


@pytest.mark.parametrize("incarnation", [1, 7, (1 << 31) + 5, (1 << 32) - 1])
@pytest.mark.parametrize("again", [False, True])
def test_a_forged_incarnation_ends_no_other(incarnation: int, again: bool) -> None:
    one = EdgeFilter(InputNote())
    passed(one, *honest(0, 10))
    passed(one, record(0, edge=edge_of(IN, "", incarnation)))
    one = kept(one) if again else one
    assert len(passed(one, *honest(10))) == 1000


def test_the_second_record_of_such_an_incarnation_ends_the_earlier_one() -> None:
    later = edge_of(IN, "", 1)
    one = EdgeFilter(InputNote())
    passed(one, *honest(0, 10), record(0, edge=later), record(1, 0, later))
    assert set(one.note.applied) == {later}
    assert passed(one, *honest(10, 10), record(2, 1, later)) == [b"2"]
    assert one.dropped["zombie"] == 10


def test_edges_of_unknown_sources_make_room_and_fit_into_a_commit() -> None:
    one = EdgeFilter(InputNote(), sources=[EDGE >> 32])
    passed(one, *honest(0, 10))
    for source in range(10 * MOST_SOURCES):
        passed(one, record(10**9, edge=source << 32))
    assert len(one.note.applied) <= MOST_SOURCES
    assert EDGE in one.note.applied
    assert len(passed(kept(one), *honest(10))) == 1000
