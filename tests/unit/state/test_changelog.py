"""Which changelog records count: epochs (C1), commit numbers (N3), and keys left behind (C2)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet.errors import StateError
from streamlet.state.changelog import (
    ChangelogReader,
    RecordReader,
    decode,
    encode_column,
    prefix_of,
)
from streamlet.state.holding_reader import HoldingReader
from streamlet.state.plain_reader import PlainReader
from streamlet.state.rows import rows_of
from streamlet.types import NO_STATE, StateNumber
from tests.unit.state.changelog_log import Log, batch_of, follow, settled

states = st.builds(
    StateNumber,
    st.one_of(st.integers(0, 3), st.integers(0, (1 << 63) - 1)),
    st.one_of(st.integers(0, 300), st.integers(0, (1 << 63) - 1)),
)
cells = st.one_of(st.none(), st.binary(max_size=8))


def reader(
    limit: tuple[int, int] | None = None, highest: int = 0, claimed: int = 0
) -> ChangelogReader:
    number = StateNumber(*limit) if limit else None
    return ChangelogReader("st-changelog-0", number, highest, claimed)


@given(states, st.lists(cells))
def test_what_was_encoded_is_decoded(state: StateNumber, values: list[bytes | None]) -> None:
    encoded, headers = encode_column(state, values)
    back = [decode(v, h) for v, h in zip(encoded, headers or [None] * len(values), strict=True)]
    assert back == [(state, v) for v in values]
    assert (headers is None) == (None not in values)


def test_a_prefix_is_two_varints() -> None:
    assert prefix_of(StateNumber(1, 127)) == b"\x01\xff\x00"
    assert prefix_of(StateNumber(300, 128)) == b"\xac\x02\x80\x81\x00"


def test_values_of_an_earlier_version_become_rows_without_a_time() -> None:
    """Their second number has no byte more than it needs."""
    assert decode(b"\x01\x7fvalue", None) == (StateNumber(1, 127), bytes(8) + b"value")
    assert decode(b"\x00\x00", None) == (StateNumber(0, 0), bytes(8))
    log = Log().flush(1, 2, a=b"row")
    log.keys += [b"b", b"c"]
    log.values += [b"\x01\x02old", None]
    log.headers += [None, (("s", b"\x01\x02"),)]
    assert log.read(reader()) == {b"a": b"row", b"b": bytes(8) + b"old", b"c": None}


def test_records_of_an_older_epoch_are_skipped_whatever_their_number() -> None:
    """V6: a process that was replaced writes behind its successor."""
    log = Log().flush(1, 7, a=b"1", b=b"1").flush(2, 1, a=b"2").flush(1, 8, a=b"old", c=b"old")
    r = reader()
    assert log.read(r) == {b"a": b"2", b"b": b"1"}
    assert r.skipped == {b"a": 3, b"c": 4}
    assert (r.highest, r.newest) == (2, StateNumber(2, 1))


def test_records_beyond_the_commit_are_skipped() -> None:
    """N3: flushed, but the process died before the commit; the input will be read again."""
    log = Log().flush(1, 1, a=b"1", b=b"1").flush(1, 2, a=b"2", b=None)
    assert log.read(reader(limit=(1, 1))) == {b"a": b"1", b"b": b"1"}
    assert log.read(reader(limit=(1, 2))) == {b"a": b"2", b"b": None}


def test_a_flush_of_the_dead_epoch_is_skipped_and_the_rewrite_counts_again() -> None:
    log = Log().flush(1, 1, a=b"1").flush(1, 2, a=b"lost", x=b"lost")
    before = reader(limit=(1, 1))
    log.read(before)
    assert before.skipped == {b"a": 1, b"x": 2}
    log.flush(2, 1, a=b"1", x=None)  # the next owner writes both again
    after = reader(limit=(2, 1))
    assert log.read(after) == {b"a": b"1", b"x": None}
    assert after.skipped == {}


def test_the_position_stays_at_the_first_record_still_skipped() -> None:
    log = Log().flush(1, 1, a=b"1").flush(1, 2, b=b"2", a=b"2")
    r = reader(limit=(1, 1))
    log.read(r)
    assert (r.position(1), r.position(3)) == (1, 1)
    again = reader(limit=(1, 1), highest=r.highest)
    log.read(again, start=1)
    assert again.skipped == r.skipped, "a second read from that position skips the same keys"


def test_the_position_moves_on_when_the_first_skipped_key_got_a_good_record() -> None:
    log = Log().flush(2, 1, z=b"0").flush(1, 5, a=b"old").flush(1, 6, b=b"old").flush(2, 2, a=b"1")
    r = reader()
    log.read(r)
    assert r.skipped == {b"b": 2}
    assert r.position(4) == 2


def test_a_reader_that_starts_late_needs_the_highest_epoch_met_before() -> None:
    log = Log().flush(2, 1, a=b"2").flush(1, 9, a=b"old")
    assert log.read(reader(highest=2), start=1) == {}
    assert log.read(reader(highest=0), start=1) == {b"a": b"old"}, "which is why it is kept"


@pytest.mark.parametrize("value", [b"", b"\x80", b"\x01", b"\xff" * 12])
def test_a_value_without_numbers_is_refused_by_offset(value: bytes) -> None:
    with pytest.raises(StateError, match=r"st-changelog-0: the record at offset 41 is not"):
        reader().read(batch_of([40, 41], [b"a", b"b"], [b"\x01\x01v", value]))


def test_a_tombstone_without_its_header_is_refused_by_offset() -> None:
    with pytest.raises(StateError, match=r"offset 1 .*'s'"):
        reader().read(batch_of([0, 1], [b"a", b"b"], [b"\x01\x01v", None]))
    with pytest.raises(StateError, match=r"offset 0 .*'s'"):
        reader().read(batch_of([0, 1], [b"a", b"b"], [None, b"\x01\x01v"], [(("t", b""),), None]))


def test_a_null_key_is_refused() -> None:
    with pytest.raises(StateError, match="not streamlet's: no key"):
        reader().read(batch_of([0], [None], [b"\x01\x01v"]))


flushes = st.lists(
    st.tuples(
        st.tuples(st.integers(1, 3), st.integers(1, 3)),
        st.dictionaries(st.sampled_from([b"a", b"b", b"c", b"d"]), cells, max_size=4),
    ),
    max_size=8,
)


@given(flushes, st.one_of(st.none(), st.tuples(st.integers(0, 3), st.integers(0, 3))), st.data())
def test_reading_by_columns_equals_reading_record_by_record(
    written: list[tuple[tuple[int, int], dict[bytes, bytes | None]]],
    limit: tuple[int, int] | None,
    data: st.DataObject,
) -> None:
    log = Log()
    for state, entries in written:
        log.flush_all(StateNumber(*state), entries)
    wanted: dict[bytes, bytes | None] = {}
    skipped: dict[bytes, int] = {}
    highest = 0
    for offset, (key, value, headers) in enumerate(
        zip(log.keys, log.values, log.headers, strict=True)
    ):
        state, plain = decode(value, headers)
        assert key is not None
        if state.epoch < highest or (limit is not None and state > limit):
            skipped[key] = offset
        else:
            wanted[key] = plain
            skipped.pop(key, None)
        highest = max(highest, state.epoch)
    r = reader(limit, claimed=3)
    got: dict[bytes, bytes | None] = {}
    cut = data.draw(st.integers(0, len(log.keys)))
    for part in (slice(0, cut), slice(cut, None)):
        got.update(zip(*r.read(log.batch(part.start or 0, part.stop)), strict=True))
    assert (got, r.skipped, r.highest) == (wanted, skipped, highest)
    assert list(r.skipped.values()) == sorted(r.skipped.values())


def test_long_runs_of_one_flush_come_out_whole() -> None:
    entries: dict[bytes, bytes | None] = {b"%d" % i: b"v%d" % i for i in range(3000)}
    entries[b"2500"] = None
    log = Log().flush_all(StateNumber(1, 1), entries).flush_all(StateNumber(1, 2), {b"0": b"x"})
    assert log.read(reader()) == {**entries, b"0": b"x"}


def test_a_source_topic_is_read_as_it_is_but_for_null_keys() -> None:
    r = PlainReader(lambda keys, values, times, _: (keys, rows_of(values, times)))
    one, two = bytes(7) + b"\x081", bytes(7) + b"\x092"
    given = batch_of([0, 1], [b"a", b"b"], [b"1", None], None, [7, 7])
    assert r.read(given) == ([b"a", b"b"], [one, None])
    given = batch_of([2, 3], [None, b"b"], [b"1", b"2"], None, [7, 8])
    assert r.read(given) == ([b"b"], [two])
    assert (r.position(4), r.newest, r.skipped) == (4, NO_STATE, {})


def test_a_source_topic_is_read_as_far_as_its_table_took_it() -> None:
    r = PlainReader(lambda keys, values, times, _: (keys[:1], values[:1]))
    assert r.read(batch_of([0, 1, 2], [None, b"a", b"b"], [b"1", b"2", b"3"])) == ([b"a"], [b"2"])


# -- records that another program wrote ------------------------------------------------------------

FORGED = [(1 << 62, 1), (1 << 21, 7), ((1 << 63) - 1, 0), (3, 1 << 41)]


@pytest.mark.parametrize("forged", FORGED)
@pytest.mark.parametrize("limit", [None, (3, 2)])
def test_a_number_that_no_owner_had_outdates_nothing_and_is_named(
    forged: tuple[int, int], limit: tuple[int, int] | None, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log().flush(3, 1, a=b"1").flush(*forged, z=b"x", a=b"x").flush(3, 2, b=b"2")
    r = reader(limit)
    assert log.read(r) == {b"a": b"1", b"b": b"2"}
    assert r.skipped == {b"z": 1, b"a": 2}  # the next owner writes them again
    assert (r.highest, r.newest, r.beyond) == (3, (3, 2), NO_STATE)
    epoch, number = forged
    assert f"st-changelog-0: the record at offset 1 bears epoch {epoch} and commit {number}" in (
        caplog.text
    )


def test_an_epoch_behind_the_claim_outdates_nothing_but_is_told() -> None:
    """The positions may have been set back: who restores decides."""
    log = Log().flush(3, 1, a=b"1").flush(9, 1, z=b"x").flush(3, 2, b=b"2").flush(2, 9, b=b"old")
    r = reader((3, 2), claimed=4)
    assert log.read(r) == {b"a": b"1", b"b": b"2"}
    assert (r.highest, r.beyond) == (9, (9, 1))
    assert r.skipped == {b"z": 1, b"b": 3}


@pytest.mark.parametrize("forged", FORGED)
def test_a_copy_passes_over_a_number_that_no_owner_had(forged: tuple[int, int]) -> None:
    log = Log().flush(3, 1, a=b"1").flush(3, 2, b=b"2").flush(*forged, z=b"x")
    follower, store = follow(log.flush(3, 3, c=b"3").flush(3, 4, d=b"4"))
    assert settled(follower, store, 3, 4) == {b"a": b"1", b"b": b"2", b"c": b"3", b"d": b"4"}
    assert follower.agrees_with(3)


@pytest.mark.parametrize(("forged", "claimed"), [(9, 3), (1 << 22, 1 << 23)])
def test_a_copy_that_believed_the_wrong_epochs_is_not_promoted(forged: int, claimed: int) -> None:
    """One that was forged outdated others, or one that was far ahead was true."""
    follower, _ = follow(Log().flush(3, 1, a=b"1").flush(forged, 1, z=b"x").flush(3, 2, b=b"2"))
    assert not follower.agrees_with(claimed)
    assert follower.position(9) <= 2  # it is read again from here


OTHERS = [
    (b"b", b"\xff" * 40, None),
    (b"b", b"a text, whose letters are an epoch and a number", None),
    (b"b", b"", None),
    (b"b", None, None),
    (b"b", None, [("s", None)]),
    # It was the longest of runs without records.
    (b"b", None, [("s", prefix_of(StateNumber(3, 1)) + b"more")]),
    (None, prefix_of(StateNumber(3, 1)) + b"x", None),
]


def with_other(key: bytes | None, value: bytes | None, headers: Any) -> Log:
    log = Log().flush(3, 1, a=b"1", b=b"2")
    log.keys.insert(1, key)
    log.values.insert(1, value)
    log.headers.insert(1, headers)
    return log.flush(3, 2, c=b"3")


@pytest.mark.parametrize(("key", "value", "headers"), OTHERS)
def test_a_record_without_a_number_does_not_count_where_a_claim_is_known(
    key: bytes | None, value: bytes | None, headers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    log = with_other(key, value, headers)
    for one in (reader((3, 2), claimed=3), HoldingReader("st-changelog-0", claimed=3)):
        found, rows = one.read(log.batch())
        if isinstance(one, HoldingReader):
            found, rows = (a + b for a, b in zip((found, rows), one.settle(None), strict=True))
        assert dict(zip(found, rows, strict=True)) == {b"a": b"1", b"b": b"2", b"c": b"3"}
        assert one.skipped == {}, "a good record of the key is behind it"
    assert caplog.text.count("st-changelog-0: the record at offset 1 is not streamlet's") == 2


@pytest.mark.parametrize("one", [reader((3, 2)), HoldingReader("st-changelog-0")])
def test_a_log_of_another_program_is_refused_where_no_claim_is_known(one: RecordReader) -> None:
    log = with_other(b"b", b"\xff", None)
    with pytest.raises(StateError, match="the record at offset 1 is not streamlet's"):
        one.read(log.batch())


@pytest.mark.parametrize(
    "one", [reader((3, 2), claimed=3), HoldingReader("st-changelog-0", claimed=3)]
)
def test_the_key_of_a_record_of_another_program_is_written_again(one: RecordReader) -> None:
    log = with_other(b"z", b"text", None)
    one.read(log.batch())
    assert one.skipped == {b"z": 1}
    assert one.position(9) == 1
