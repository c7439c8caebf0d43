"""Notes of inputs in commit metadata."""

from __future__ import annotations

import base64
import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet.coordinator.commit_metadata import (
    CommitMetadata,
    CommitMetadataError,
    InputNote,
    with_note,
)
from streamlet.coordinator.commit_texts import TextRules
from streamlet.dsl.foreign_keys.wire import source_of
from streamlet.processing.edges.records import edge_of, pack, unpack
from streamlet.state.changelog import decode, prefix_of
from streamlet.state.log_numbers import pack_logs
from streamlet.types import StateNumber, TopicPartition

EDGES = st.dictionaries(
    st.integers(0, (1 << 64) - 1), st.integers(1, 1 << 62).map(lambda one: one | 1), max_size=20
)


@given(st.integers(0, (1 << 32) - 2), EDGES, st.booleans(), st.data())
def test_a_note_is_read_as_it_was_written(
    incarnation: int, applied: dict[int, int], is_open: bool, data: st.DataObject
) -> None:
    subsets = st.frozensets(st.sampled_from(sorted(applied))) if applied else st.just(frozenset())
    loose = data.draw(subsets)
    topic_id = data.draw(st.sampled_from(("", "3XvT-d0hQBCGb5Cu6PAtlg")))
    plain = data.draw(st.integers(0, (1 << 63) - 1))
    note = InputNote(incarnation, applied, loose, is_open, topic_id=topic_id, plain=plain)
    text = CommitMetadata(3, "a-0", 7, note=note).to_text()
    found = CommitMetadata.from_text(text)
    assert found is not None
    assert found.note == note
    read = CommitMetadata.from_text(with_note(CommitMetadata(3, "a-0", 7).to_text(), note))
    assert read is not None
    assert read.note == note


def test_a_commit_with_nothing_to_note_has_the_text_it_always_had() -> None:
    assert "input" not in CommitMetadata(3, "a-0", 7).to_text()


def test_a_note_does_not_tell_commits_apart() -> None:
    """It is of one input, the commit of all."""
    assert CommitMetadata(3, "a", 7, note=InputNote(5)) == CommitMetadata(3, "a", 7)


def test_128_edges_fit_into_commit_metadata() -> None:
    applied = {n << 33 | 1_800_000_000: (1 << 61) + 7 for n in range(128)}
    note = InputNote(1_800_000_000, applied, frozenset(applied), True)
    metadata = CommitMetadata(10**6, "instance-with-a-name-0", 10**6, note=note)
    assert len(metadata.to_text()) < 3_500


@pytest.mark.parametrize(
    "damaged", ['{"applied":"~~~"}', '{"applied":"00000"}', "7", '{"inc":"x"}', '{"id":7}']
)
def test_a_damaged_note_is_an_error(damaged: str) -> None:
    text = CommitMetadata(3, "a", 7).to_text()[:-1] + f',"input":{damaged}}}'
    with pytest.raises(CommitMetadataError, match="does not fit together"):
        CommitMetadata.from_text(text)


def test_leaps_are_read_as_they_were_written_and_left_out_where_there_is_no_room() -> None:
    leaps = {7 << 32: (((3 << 20) + 1, (9 << 20) + 1), ((10 << 20) + 1, (1 << 50) + 1))}
    applied = {7 << 32: (1 << 51) + 1, 8 << 32: 5}
    note = InputNote(3, applied, frozenset({8 << 32}), leaps=leaps)
    metadata = CommitMetadata(3, "a", 7, note=note)
    text = metadata.to_text()
    found = CommitMetadata.from_text(text)
    assert found is not None
    assert found.note == note
    place = TopicPartition("in", 0)
    texts = TextRules(len(text) - 1).texts(CommitMetadata(3, "a", 7), {place: note})
    shorter = CommitMetadata.from_text(texts[place])
    assert shorter is not None
    assert shorter.note == attrs.evolve(note, leaps={})


TEXT = {"v": 1, "epoch": 3, "by": "a", "gen": 7, "ends": {"c": {"0": 5}}, "state": [3, 2]}


@pytest.mark.parametrize(
    "changed",
    [
        *({"epoch": one} for one in (-5, 1 << 31, 1 << 70, 1 << 100, 1e308, True, None, "3", [])),
        *({"state": [one, 2]} for one in (-1, 1 << 31, 1 << 62, 3.0, True)),
        *({"state": [3, one]} for one in (-1, 1 << 63, 1 << 70, False, float("nan"))),
        {"state": [3]},
        {"state": {"3": 2}},
        *({"gen": one} for one in (-2, 1 << 31, True)),
        *({"by": one} for one in (7, None, "\ud800")),
        *({"ends": {"c": {"0": one}}} for one in (-1, 1 << 63, 1.5, True, "5")),
        *({"ends": {"c": {one: 5}}} for one in ("-1", str(1 << 31), "9" * 4000, "x", "")),
        *({"ends": one} for one in ([], "c", {"c": 5}, None)),
        *({"input": {"inc": one}} for one in (-1, (1 << 32) - 1, 1 << 40, True, 1.0)),
        *({"input": {"open": one}} for one in (1, "false", None)),
        *({"input": {"plain": one}} for one in (-1, 1 << 63, True, 1.0, "1")),
        *({"rebuilt": {"epoch": one, "whole": True, "from": {}}} for one in (-1, 1 << 62, True)),
        {"rebuilt": {"epoch": 1, "whole": 1, "from": {}}},
        {"release": {"to": 7}},
        {"release": []},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_where_it_is_read(changed: dict[str, object]) -> None:
    text = json.dumps({**TEXT, **changed})
    with pytest.raises(CommitMetadataError):
        CommitMetadata.from_text(text)
    assert CommitMetadata.read(text) is None


@pytest.mark.parametrize("epoch", [0, 3, (1 << 31) - 1])
def test_what_follows_on_a_number_that_is_read_can_be_written(epoch: int) -> None:
    """An owner claims the next epoch, and a position that is set back the next incarnation."""
    text = {**TEXT, "epoch": epoch, "state": [epoch, 2], "input": {"inc": (1 << 32) - 2}}
    found = CommitMetadata.from_text(json.dumps(text))
    assert found is not None
    prefix = prefix_of(StateNumber(found.epoch + 1, 1))
    assert decode(prefix + bytes(8), None)[0] == (epoch + 1, 1)
    edge = edge_of(TopicPartition("t", 0), "", found.note.incarnation + 1)
    assert unpack(pack([b"v"], [edge], [2 << 20], [0])) is not None
    assert source_of(0, found.epoch + 1)


def _applied(*numbers: int) -> str:
    """The text of one entry with these varints."""
    found = bytearray(4)
    for number in numbers:
        while number > 0x7F:
            found.append(number & 0x7F | 0x80)
            number >>= 7
        found.append(number)
    return base64.b85encode(bytes(found)).decode()


@pytest.mark.parametrize(
    "numbers", [(1 << 32, 1, 1), (1, 1 << 44, 1), (1, 1, 1 << 20), (1 << 80, 1, 1), (1, 1)]
)
def test_applied_origins_out_of_bounds_are_refused(numbers: tuple[int, ...]) -> None:
    text = json.dumps({**TEXT, "input": {"applied": _applied(*numbers)}})
    with pytest.raises(CommitMetadataError, match="does not fit together"):
        CommitMetadata.from_text(text)


@pytest.mark.parametrize("end", [1 << 63, 1 << 64])
def test_offsets_of_the_compact_form_are_bounded(end: int) -> None:
    fields = {name: value for name, value in TEXT.items() if name != "ends"}
    text = json.dumps({**fields, "v": 2, "logs": pack_logs({TopicPartition("c", 0): end}, {})})
    with pytest.raises(CommitMetadataError, match="does not fit together"):
        CommitMetadata.from_text(text)


def test_skipping_loosens_every_edge() -> None:
    assert InputNote(3, {8: 9}).skipped() == InputNote(3, {8: 9}, frozenset({8}), True)
