"""The control topic's records and what they add up to."""

from __future__ import annotations

import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet.control.records import (
    ControlRecordError,
    Place,
    decode,
    encode_key,
    encode_value,
    place_of,
)
from streamlet.control.values import (
    ChangelogTypes,
    Command,
    Description,
    Endpoint,
    Entry,
    Mark,
    MemberKey,
    MemberProgress,
    PauseMark,
    ResetEpoch,
    Shutdown,
    StoreServer,
    TaskProgress,
)
from streamlet.control.view import ControlView

LEARNING = TaskProgress("0_3", "learner", "learning", 5, 10, 15, 2.5, 2.0)
ENTRIES: tuple[Entry, ...] = (
    Mark("p1", 100, 200, "h1"),
    MemberProgress("p1", 0, "h1-0", "id-1", 7, "RUNNING", 3, True, (LEARNING,)),
    Endpoint("p1", 1, "h1-1", "localhost", 9_100),
    StoreServer("p1", 1, "h1-1", "localhost", 8_080, "http"),
    ResetEpoch(4, 9),
    Command("c1", "scale-down on host-7", 50),
    Shutdown("p1", "h1", 70, "boom"),
    ChangelogTypes("a-counts-changelog", "counts", ("str", "int"), "id"),
    Description("h1-0", "1.0", {"application": "a"}, {"text": "Topologies:"}),
    PauseMark("1", 8, "host-7"),
)


def record(entry: Entry) -> tuple[bytes, bytes]:
    return encode_key(place_of(entry)), encode_value(entry)


def removal(place: Place) -> tuple[bytes, None]:
    return encode_key(place), None


def folded(*entries: Entry) -> ControlView:
    return ControlView().apply_all([record(entry) for entry in entries])


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_comes_back_from_its_record(entry: Entry) -> None:
    change = decode(*record(entry))
    assert change is not None
    assert (change.place, change.entry) == (place_of(entry), entry)


def test_the_keys_are_these_bytes_for_ever() -> None:
    """Compaction goes by them: other bytes for the same entry would leave the old one behind."""
    assert [encode_key(place_of(entry)) for entry in ENTRIES] == [
        b'{"kind":"mark","instance":"p1"}',
        b'{"kind":"progress","instance":"p1","number":0}',
        b'{"kind":"endpoint","instance":"p1","number":1}',
        b'{"kind":"server","instance":"p1","number":1}',
        b'{"kind":"reset"}',
        b'{"kind":"command","id":"c1"}',
        b'{"kind":"shutdown"}',
        b'{"kind":"types","id":"a-counts-changelog"}',
        b'{"kind":"description"}',
        b'{"kind":"pause","id":"1"}',
    ]


def test_a_later_record_replaces_and_a_tombstone_removes() -> None:
    mark, other = Mark("p1", 1), Mark("p2", 2)
    view = folded(mark, other, Mark("p1", 3, 4))
    assert view.marks == {"p1": Mark("p1", 3, 4), "p2": other}
    view = view.apply(*removal(place_of(mark))).apply(*removal(place_of(mark)))
    assert view.marks == {"p2": other}


def test_members_are_found_by_key_and_by_member_id() -> None:
    view = folded(*ENTRIES)
    key = MemberKey("p1", 0)
    assert view.progress[key].task("0_3") == LEARNING
    assert view.progress[key].task("0_4") is None
    assert view.progress_of("id-1") == view.progress[key]
    assert view.progress_of("id-2") is None
    assert view.places_of(key) == [(MemberProgress, key)]
    assert view.places_of(MemberKey("p1", 1)) == [
        (Endpoint, MemberKey("p1", 1)),
        (StoreServer, MemberKey("p1", 1)),
    ]
    assert view.reset == ResetEpoch(4, 9)
    assert view.apply(*removal(place_of(ResetEpoch(0)))).reset == ResetEpoch(0)
    assert view.shutdown == Shutdown("p1", "h1", 70, "boom")
    assert view.apply(*removal((Shutdown, None))).shutdown is None


def test_a_pause_is_of_one_subtopology_or_of_all() -> None:
    view = folded(*ENTRIES)
    assert [view.is_paused(number) for number in (0, 1, 11)] == [False, True, False]
    every = view.apply(*record(PauseMark("all")))
    assert every.is_paused(0)
    assert not every.apply(*removal((PauseMark, "all"))).is_paused(0)
    assert view.apply(b'{"kind":"pause","id":"some"}', b'{"what":"some"}') is view


def test_fields_that_a_later_version_adds_are_passed_over() -> None:
    key, value = record(Mark("p1", 1))
    later = json.dumps({**json.loads(value), "why": {"ticket": 7}}).encode()
    later_key = json.dumps({**json.loads(key), "more": 1}).encode()
    assert ControlView().apply(later_key, later).marks == {"p1": Mark("p1", 1)}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"", None),
        (b"not json", b"{}"),
        (b"[1]", b"{}"),
        (b'{"kind":"weather"}', b'{"rain":true}'),
        (b'{"kind":"mark"}', b'{"instance":"p1","since_ms":1}'),
        (b'{"kind":"progress","instance":"p1"}', b"{}"),
        (b'{"kind":"mark","instance":"p1"}', b'{"instance":"p1"}'),
        (b'{"kind":"mark","instance":"p1"}', b"\xff"),
        record(Mark("p" * 1_001, 1)),
        record(attrs.evolve(MemberProgress("p1", 0, "h1-0", "id-1", 7), member="h" * 900_000)),
    ],
)
def test_what_is_not_understood_changes_nothing(key: bytes | None, value: bytes | None) -> None:
    view = folded(*ENTRIES)
    assert view.apply(key, value) is view


MARK_KEY = b'{"kind":"mark","instance":"p1"}'
DESCRIPTION_KEY = b'{"kind":"description"}'
#: Deeper than any Python reads; 3.14 passes over some hundred thousand levels.
DEEP = b"[" * 2_000_000 + b"]" * 2_000_000
UNREADABLE = (
    (b'{"kind":"mark","instance":"\xff"}', None),
    (b'{"kind":"shutdown"}', b'{"instance":"\xff","name":"x","at_ms":1}'),
    (b'{"kind":"zzz","x":' + DEEP + b"}", b"{}"),
    (MARK_KEY, b'{"instance":"p1","since_ms":1,"x":' + DEEP + b"}"),
    (b"caf\xe9", b"x"),
    (b'"\x80"', b"x"),
    (b'{"kind":7}', b"{}"),
    (b'{"kind":"mark","instance":["p1"]}', b"{}"),
    (b'{"kind":"progress","instance":"p1","number":%d}' % 2**70, b"{}"),
    (MARK_KEY, b'{"instance":"p1","since_ms":"1"}'),
    (MARK_KEY, b'{"instance":"p1","since_ms":-1}'),
    (MARK_KEY, b'{"instance":"p1","since_ms":%d}' % 2**62),
    (MARK_KEY, b'{"instance":"p1","since_ms":1' + b"0" * 5_000 + b"}"),
    (MARK_KEY, b'{"instance":"p1","since_ms":1e400}'),
    (MARK_KEY, b'{"instance":"p1","since_ms":NaN}'),
    (MARK_KEY, b'{"instance":"\\ud800","since_ms":1}'),
    (MARK_KEY, b'{"instance":"another","since_ms":1}'),
    (b'{"kind":"reset"}', b'{"epoch":%d}' % 2**40),
    (b'{"kind":"reset"}', b'{"epoch":1,"pending":[{"name":"t","partitions":%d}]}' % 2**40),
    *(
        (DESCRIPTION_KEY, b'{"member":"m","version":"1","topology":%s,"forms":{}}' % topology)
        for topology in (
            b"5",
            b'{"subtopologies":null}',
            b'{"subtopologies":[{}]}',
            b'{"subtopologies":[{"id":"x"}]}',
            b'{"subtopologies":[{"id":0,"sources":[{"name":[],"topics":5}]}]}',
            b'{"x":' * 100 + b"1" + b"}" * 100,  # Python reads it; a comparison has less stack
        )
    ),
)


@pytest.mark.parametrize(("key", "value"), UNREADABLE)
def test_a_record_that_cannot_be_read_is_told_and_passed_over(
    key: bytes, value: bytes | None
) -> None:
    with pytest.raises(ControlRecordError):
        decode(key, value)
    view, told = folded(*ENTRIES), []
    records = [(key, value), record(Mark("p9", 1))]
    after = view.apply_all(records, lambda index, _: told.append(index))
    assert (after.marks["p9"], told) == (Mark("p9", 1), [0])


@pytest.mark.parametrize("task", ["x", "²_0", "0_", "0_99999999", "0_1\n"])
def test_a_report_on_a_task_that_cannot_be_is_passed_over(task: str) -> None:
    said = MemberProgress("p1", 0, "h1-0", "id-1", 7, tasks=(TaskProgress(task, "active", "x"),))
    with pytest.raises(ControlRecordError):
        decode(*record(said))


@given(st.lists(st.tuples(st.sampled_from(ENTRIES), st.booleans()), max_size=20))
def test_how_records_are_batched_makes_no_difference(steps: list[tuple[Entry, bool]]) -> None:
    records = [record(e) if keep else removal(place_of(e)) for e, keep in steps]
    one_by_one = ControlView()
    for key, value in records:
        one_by_one = one_by_one.apply(key, value)
    assert one_by_one == ControlView().apply_all(records)


def test_commands_stand_in_the_order_of_the_topic() -> None:
    first, second = Command("z", "scale-down", 9), Command("a", "replace", 1)
    view = folded(first, second, first)
    assert list(view.commands) == ["z", "a"]
    assert list(view.apply(*removal(place_of(first))).commands) == ["a"]


@pytest.mark.parametrize(("entries", "size"), [(7, 1 << 20), (100, 1_000)])
def test_of_very_many_entries_those_are_kept_that_were_written_last(
    monkeypatch: pytest.MonkeyPatch, entries: int, size: int
) -> None:
    """Each client that may write to the topic could fill the memory of all instances."""
    monkeypatch.setattr("streamlet.control.view.MOST_ENTRIES", entries)
    monkeypatch.setattr("streamlet.control.view.MOST_BYTES", size)
    honest = Mark("honest", 5)
    flood = [Mark(f"p{number}", number) for number in range(50)]
    view = folded(honest, *flood[:5])
    view = view.apply(*record(honest))
    view = view.apply_all([record(mark) for mark in flood[5:]] + [record(honest)])
    assert (len(view.marks), view.marks["honest"]) == (51 - view.dropped, honest)
    assert 0 < len(view.marks) < 20
    assert "p49" in view.marks
    view = view.apply(*removal(place_of(honest)))
    assert "honest" not in view.marks


def test_of_very_many_commands_the_first_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one may change marks, until it takes its entry back."""
    monkeypatch.setattr("streamlet.control.view.MOST_ENTRIES", 7)
    view = folded(*(Command(f"c{number}", "scale-down", number) for number in range(50)))
    assert [*view.commands] == [f"c{number}" for number in range(7)]
