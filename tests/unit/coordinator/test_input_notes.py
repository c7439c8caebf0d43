"""Notes of inputs in commit metadata."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet.coordinator.commit_metadata import CommitMetadata, CommitMetadataError, InputNote

EDGES = st.dictionaries(
    st.integers(0, (1 << 64) - 1), st.integers(1, 1 << 62).map(lambda one: one | 1), max_size=20
)


@given(st.integers(0, 1 << 32), EDGES, st.booleans(), st.data())
def test_a_note_is_read_as_it_was_written(
    incarnation: int, applied: dict[int, int], is_open: bool, data: st.DataObject
) -> None:
    subsets = st.frozensets(st.sampled_from(sorted(applied))) if applied else st.just(frozenset())
    loose = data.draw(subsets)
    note = InputNote(incarnation, applied, loose, is_open)
    text = CommitMetadata(3, "a-0", 7, note=note).to_text()
    found = CommitMetadata.from_text(text)
    assert found is not None
    assert found.note == note


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
    "damaged", ['{"applied":"~~~"}', '{"applied":"00000"}', "7", '{"inc":"x"}']
)
def test_a_damaged_note_is_an_error(damaged: str) -> None:
    text = CommitMetadata(3, "a", 7).to_text()[:-1] + f',"input":{damaged}}}'
    with pytest.raises(CommitMetadataError, match="does not fit together"):
        CommitMetadata.from_text(text)


def test_skipping_loosens_every_edge() -> None:
    assert InputNote(3, {8: 9}).skipped() == InputNote(3, {8: 9}, frozenset({8}), True)
