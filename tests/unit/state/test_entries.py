"""Commit entries in changelogs: what they tell, and when they are certain."""

from __future__ import annotations

import attrs
import pytest

from streamlet.state.entries import (
    ENTRY_HEADER,
    ChangelogEntries,
    CommitEntry,
    entry_last,
    newest_complete,
    proves_later,
)
from streamlet.types import StateNumber, TopicPartition

INPUT = TopicPartition("in", 3)


def entry(epoch: int, number: int, **written: int) -> CommitEntry:
    return CommitEntry(StateNumber(epoch, number), {INPUT: 10 * number}, written)


def log(*records: tuple[int, int] | CommitEntry) -> ChangelogEntries:
    """A changelog with these records, of which some bear an entry."""
    found = ChangelogEntries()
    for record in records:
        if isinstance(record, CommitEntry):
            found.take(record.state, [("s", b""), record.header()])
        else:
            found.take(StateNumber(*record), None)
    return found


def test_an_entry_is_read_as_it_was_written() -> None:
    one = entry(2, 7, a=7, b=3)
    assert CommitEntry.of(StateNumber(2, 7), (("x", None), one.header())) == one


def test_an_entry_of_many_changelogs_has_numbers_in_place_of_their_names() -> None:
    """The plain one took 15 kB, in each of 200 changelogs."""
    topics = [f"app-{number:04}-{'s' * 40}-changelog" for number in range(200)]
    starts = {topics[7]: 12, topics[9]: 2**40}
    written = {topic: 3 + number for number, topic in enumerate(topics)}
    one = attrs.evolve(entry(2, 300, **written), starts=starts, application="app")
    plain, compact = one.header(), one.header(compact=True)
    assert len(plain[1]) > 12_000
    assert len(compact[1]) < 4_000
    for header in (plain, compact):
        read = CommitEntry.of(one.state, [header])
        assert read is not None
        assert read.named(topics) == one
        assert newest_complete({t: log(read) for t in topics}, starts) == one
        assert newest_complete({t: log(read) for t in topics}, {topics[0]: 1}) is None
    assert read.named(topics[:8]).written == {t: written[t] for t in topics[:8]}
    damaged = (ENTRY_HEADER, compact[1].replace(b'"logs":"', b'"logs":"~'))
    assert CommitEntry.of(one.state, [damaged]) is None


def test_an_entry_of_few_changelogs_is_plain() -> None:
    one = entry(2, 7, a=7, b=3)
    assert one.header(compact=True) == one.header()


@pytest.mark.parametrize("raw", [b"", b"?", b"1", b"{}", b'{"in":1,"log":{}}', None])
def test_a_header_that_is_no_entry_tells_nothing(raw: bytes | None) -> None:
    assert CommitEntry.of(StateNumber(1, 1), ((ENTRY_HEADER, raw),)) is None
    assert CommitEntry.of(StateNumber(1, 1), ()) is None


def test_the_newest_entry_counts_whose_records_are_in_every_changelog() -> None:
    first, second, third = entry(1, 1, a=1, b=1), entry(1, 2, a=2, b=1), entry(1, 3, a=3, b=3)
    assert newest_complete({"a": log(first, second), "b": log(first)}) == second
    assert newest_complete({"a": log(first, second, (1, 3)), "b": log(first, third)}) == second
    assert newest_complete({"a": log(first, second, third), "b": log(first, (1, 3))}) == second
    assert newest_complete({"a": log(first, second, third), "b": log(first, third)}) == third
    assert newest_complete({"a": log(first, (2, 1)), "b": log(first)}) == first


def test_changelogs_that_lost_different_tails_are_not_certain() -> None:
    """What one of them holds behind the other's end may have been compacted since."""
    entries = [entry(1, n, a=n, b=n) for n in range(1, 5)]
    assert newest_complete({"a": log(*entries[:2]), "b": log(*entries[:3])}) == entries[1]
    assert newest_complete({"a": log(*entries[:2]), "b": log(*entries)}) is None
    assert newest_complete({"a": log(*entries[:2]), "b": log()}) is None
    assert newest_complete({"a": log((1, 1)), "b": log()}) is None


def test_entries_of_a_stale_owner_do_not_count() -> None:
    new, stale = entry(2, 1, a=1), entry(1, 9, a=9)
    assert newest_complete({"a": log(new, stale)}) == new


def test_a_topic_that_the_topology_has_no_more_is_not_asked_for() -> None:
    old = entry(1, 1, a=1, gone=1)
    assert newest_complete({"a": log(old)}) == old


@pytest.mark.parametrize(
    ("record", "commit", "later"),
    [
        ((1, 2), (1, 1), False),
        ((1, 3), (1, 1), True),
        ((2, 1), (1, 1), False),
        ((2, 2), (1, 1), True),
        ((1, 9), (2, 1), False),
    ],
)
def test_number_n_follows_commit_n_minus_one(
    record: tuple[int, int], commit: tuple[int, int], later: bool
) -> None:
    assert proves_later(StateNumber(*record), StateNumber(*commit)) is later


def test_the_entry_goes_to_a_record_that_compaction_keeps() -> None:
    keys, values = [b"a", b"b", b"c"], [b"1", b"2", None]
    assert entry_last(keys, values) == ([b"a", b"c", b"b"], [b"1", None, b"2"])
    assert entry_last(keys[:2], values[:2]) == (keys[:2], values[:2])
    assert entry_last([b"a", b"b"], [None, None]) == ([b"a", b"b"], [None, None])


def test_a_changelog_may_begin_no_later_than_the_entry_says() -> None:
    whole, cut = entry(1, 1, a=1), attrs.evolve(entry(1, 2, a=2), starts={"a": 40})
    assert CommitEntry.of(cut.state, (cut.header(),)) == cut
    assert newest_complete({"a": log(whole, cut)}, {"a": 40}) == cut
    assert newest_complete({"a": log(whole, cut)}, {"a": 41}) is None
    assert newest_complete({"a": log(whole)}, {"a": 1}) is None
    assert newest_complete({"a": log(whole)}, {}) == whole


@pytest.mark.parametrize(
    "raw",
    [
        *(b'{"in":{"t":{"0":%s}},"log":{}}' % one for one in (b"-1", b"1e400", b"NaN", b"true")),
        b'{"in":{"t":{"0":%d}},"log":{}}' % (1 << 63),
        b'{"in":{"t":{"%d":1}},"log":{}}' % (1 << 31),
        b'{"in":{"t":{"0":1}},"log":{"c":-1}}',
        b'{"in":{"t":{"0":1}},"log":{},"from":{"c":"1"}}',
        b'{"in":' + b"[" * 5_000_000 + b"]" * 5_000_000 + b"}",
        b'{"in":{"t":{"0":1}},"log":{"\xff":1}}',
    ],
    ids=range(10),
)
def test_an_entry_that_cannot_be_is_none(raw: bytes) -> None:
    assert CommitEntry.of(StateNumber(2, 7), ((ENTRY_HEADER, raw),)) is None


def test_an_epoch_that_no_owner_had_hides_no_entry() -> None:
    logs = {"a": log(entry(2, 7, a=7), (1 << 40, 1), entry(2, 8, a=8))}
    assert newest_complete(logs) == entry(2, 8, a=8)
