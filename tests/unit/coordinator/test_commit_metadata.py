"""The text beside committed positions is read as written, and never misread."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet.coordinator.commit_metadata import (
    CommitMetadata,
    CommitMetadataError,
    Rebuilt,
    started,
)
from streamlet.types import StateNumber, TopicPartition

COUNTS = st.integers(0, 2**63 - 1)
EPOCHS = st.integers(0, 2**31 - 1)
IDS = st.text(max_size=20)
PARTITIONS = st.builds(TopicPartition, st.text(max_size=12), st.integers(0, 10_000))
METADATA = st.builds(
    CommitMetadata,
    EPOCHS,
    IDS,
    st.integers(-1, 2**31 - 1),
    st.dictionaries(PARTITIONS, COUNTS, max_size=5),
    st.builds(StateNumber, EPOCHS, COUNTS),
    st.none() | IDS,
)


@given(METADATA)
def test_it_is_read_as_it_was_written(metadata):
    assert CommitMetadata.from_text(metadata.to_text()) == metadata


@given(METADATA)
def test_the_nul_that_librdkafka_appends_is_taken_off(metadata):
    assert CommitMetadata.from_text(metadata.to_text() + "\0") == metadata


def test_it_looks_as_the_hand_over_rules_say():
    """Tools and later versions read it: W1, W2 and N1 name the keys."""
    metadata = CommitMetadata(
        3, "a-1", 7, {TopicPartition("app-counts-changelog", 0): 120}, StateNumber(3, 9), "b-2"
    )
    assert json.loads(metadata.to_text()) == {
        "v": 1,
        "epoch": 3,
        "by": "a-1",
        "gen": 7,
        "ends": {"app-counts-changelog": {"0": 120}},
        "state": [3, 9],
        "release": {"to": "b-2"},
    }


@pytest.mark.parametrize("text", [None, "", "\0", "moved by hand", "[1]", "7", '{"by":"a tool"}'])
def test_what_others_wrote_is_none_of_ours(text):
    assert CommitMetadata.from_text(text) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"v":1',
        '{"v":2,"epoch":1}',
        '{"v":3,"epoch":1}',
        '{"v":2,"epoch":1,"by":"a","gen":1,"state":[1,1],"logs":7}',
        '{"v":2,"epoch":1,"by":"a","gen":1,"state":[1,1],"logs":"000"}',
        '{"v":2,"epoch":1,"by":"a","gen":1,"state":[1,1],"logs":"0|7=x"}',
        '{"v":2,"epoch":1,"by":"a","gen":1,"state":[1,1],"logs":"\\u00e9"}',
        '{"v":1}',
        '{"v":1,"epoch":"1","by":"a","gen":1,"ends":{},"state":[1,1]}',
        '{"v":1,"epoch":1,"by":2,"gen":1,"ends":{},"state":[1,1]}',
        '{"v":1,"epoch":1,"by":"a","gen":1,"ends":[],"state":[1,1]}',
        '{"v":1,"epoch":1,"by":"a","gen":1,"ends":{"t":{"x":1}},"state":[1,1]}',
        '{"v":1,"epoch":1,"by":"a","gen":1,"ends":{},"state":[1]}',
        '{"v":1,"epoch":1,"by":"a","gen":1,"ends":{},"state":[1,1],"release":7}',
        '{"v":1,"epoch":true,"by":"a","gen":1,"ends":{},"state":[1,1]}',
    ],
)
def test_what_is_ours_and_cannot_be_read_is_an_error(text):
    """Taking it for nothing would start a task with state that is not of its positions."""
    with pytest.raises(CommitMetadataError):
        CommitMetadata.from_text(text)


@given(st.text(max_size=40))
def test_any_text_is_read_refused_or_not_ours(text):
    for wrapped in (text, '{"v":1,' + text, json.dumps({"v": 1, "epoch": text})):
        with contextlib.suppress(CommitMetadataError):
            assert CommitMetadata.from_text(wrapped) is None


def test_a_mark_counts_only_for_the_order_it_answers():
    """Counterexamples V1 and V4: a mark of another generation, or for an old member id."""
    mark = CommitMetadata(1, "a", 5, release_to="b")
    assert mark.is_mark_for("b", 5)
    assert not mark.is_mark_for("b", 6)
    assert not mark.is_mark_for("b-restarted", 5)
    assert not CommitMetadata(1, "a", 5).is_mark_for("b", 5)


def test_a_changelog_that_is_being_written_again_is_told_from_one_that_was():
    rebuilt = Rebuilt(3, True, {TopicPartition("c", 0): 7})
    before = CommitMetadata(3, "m", 1, {}, StateNumber(2, 9), rebuilt=rebuilt)
    after = CommitMetadata(3, "m", 1, {}, StateNumber(3, 1), rebuilt=rebuilt)
    assert CommitMetadata.from_text(before.to_text()) == before
    assert '"rebuilt":{"epoch":3,"whole":true,"from":{"c":{"0":7}}}' in before.to_text()
    assert (before.rebuilding, before.rebuilt_epoch) == (True, None)
    assert (after.rebuilding, after.rebuilt_epoch) == (False, 3)
    assert "rebuilt" not in CommitMetadata(1, "m", 1).to_text()


def test_starts_of_changelogs_only_rise_and_leave_the_rest_as_it_is() -> None:
    a, b = TopicPartition("a", 0), TopicPartition("b", 0)
    assert started(None, {}) is None
    assert started(None, {a: 7}) == Rebuilt(0, False, {a: 7})
    known = Rebuilt(3, True, {a: 7})
    assert started(known, {}) == known
    assert started(known, {a: 5, b: 2}) == Rebuilt(3, True, {a: 7, b: 2})


def test_starts_alone_make_no_copy_outdated() -> None:
    metadata = CommitMetadata(3, "m", 1, rebuilt=started(None, {TopicPartition("a", 0): 7}))
    assert CommitMetadata.from_text(metadata.to_text()) == metadata
    assert (metadata.rebuilding, metadata.rebuilt_epoch) == (False, 0)
