"""The compact form of commit metadata, and the choice between both forms."""

from __future__ import annotations

import base64
import contextlib
import random
import string

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet.coordinator.commit_metadata import (
    METADATA_MAX_BYTES,
    CommitMetadata,
    CommitMetadataError,
    InputNote,
    Positions,
    Rebuilt,
)
from streamlet.coordinator.commit_texts import TextRules, longest_text
from streamlet.coordinator.messages import Committed
from streamlet.state.log_numbers import (
    NUMBERED,
    named,
    number_of,
    pack_logs,
    same_numbers,
    unpack_logs,
)
from streamlet.types import StateNumber, TopicPartition

INPUTS = (TopicPartition("a", 3), TopicPartition("b", 3))
PARTITIONS = st.builds(TopicPartition, st.text(max_size=12), st.integers(0, 10_000))
OFFSETS = st.dictionaries(PARTITIONS, st.integers(0, 2**63 - 1), max_size=5)


def stores(number: int, letters: int = 60) -> list[str]:
    """Changelogs of stores with long names that have nothing in common."""
    chosen = random.Random(7)
    return [
        f"app-{''.join(chosen.choices(string.ascii_letters, k=letters))}-changelog"
        for _ in range(number)
    ]


def commit(changelogs: list[str], offset: int) -> CommitMetadata:
    """The commit of a task with window stores, of which expired windows were deleted."""
    ends = {TopicPartition(topic, 3): offset - n for n, topic in enumerate(changelogs)}
    starts = {tp: end // 2 for tp, end in ends.items()}
    by = "host-1-0-" + "0" * 36
    rebuilt = Rebuilt(0, whole=False, starts=starts)
    return CommitMetadata(40, by, 1_000, ends, StateNumber(40, 10**6), by, rebuilt)


@given(OFFSETS, OFFSETS)
def test_packed_offsets_are_read_as_they_were_written(ends, starts) -> None:
    topics = {tp.topic for tp in [*ends, *starts]}
    found = unpack_logs(pack_logs(ends, starts))
    assert tuple(named(one, topics) for one in found) == (ends, starts)


@given(st.binary(max_size=40))
def test_any_bytes_are_unpacked_or_refused(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        for offsets in unpack_logs(base64.b85encode(data).decode()):
            assert all(0 <= offset < 2**65 for offset in offsets.values())


def test_a_compact_text_is_read_back_with_the_names_of_the_topology() -> None:
    """Changelogs that the topology has no more are left out, as are those it has since."""
    written = commit(stores(3), 1_000)
    read = CommitMetadata.from_text(written.to_text(compact=True))
    assert read is not None
    assert {tp.topic for tp in read.ends} == {f"{NUMBERED}{number_of(t):08x}" for t in stores(3)}
    assert read.named([*stores(3), "app-new-changelog"]) == written
    fewer = read.named(stores(3)[:1])
    assert fewer.ends == {TopicPartition(stores(3)[0], 3): 1_000}
    assert fewer.rebuilt == Rebuilt(0, False, {TopicPartition(stores(3)[0], 3): 500})
    positions = Positions.of(
        INPUTS, dict.fromkeys(INPUTS, Committed(1, written.to_text(compact=True)))
    )
    assert positions.named(stores(3)).newest == written
    plain = CommitMetadata.from_text(written.to_text())
    assert plain is not None
    assert plain.named([]) == written, "the plain form has names of its own"


def test_two_hundred_window_stores_with_long_names_fit_and_never_outgrow_it() -> None:
    """What the broker takes by default; in plain form it would be 36 kB."""
    changelogs = stores(200)
    rules = TextRules(METADATA_MAX_BYTES, compact=True)
    texts = rules.texts(commit(changelogs, 10**9), dict.fromkeys(INPUTS, InputNote()))
    assert len(texts[INPUTS[0]]) < 3_500
    assert len(commit(changelogs, 10**9).to_text()) > 30_000
    assert longest_text(changelogs, 0) <= METADATA_MAX_BYTES
    assert longest_text(stores(230), 0) > METADATA_MAX_BYTES
    assert longest_text(stores(30), 128) <= METADATA_MAX_BYTES


def test_the_longest_text_is_as_long_as_one_can_get() -> None:
    wide = commit(stores(20), 2**42 - 2)
    note = InputNote(2**31 - 1, {n << 32 | 2**31: 2**62 for n in range(9)}, open=True)
    assert len(attrs.evolve(wide, note=note).to_text(compact=True)) <= longest_text(stores(20), 9)


@pytest.mark.parametrize(("number", "form"), [(2, '{"v":1,'), (100, '{"v":2,')])
def test_the_plain_form_is_written_as_long_as_it_fits(number: int, form: str) -> None:
    rules = TextRules(compact=True)
    texts = rules.texts(commit(stores(number), 100), dict.fromkeys(INPUTS, InputNote()))
    assert texts[INPUTS[0]] == texts[INPUTS[1]]
    assert texts[INPUTS[0]].startswith(form)


def test_all_inputs_of_a_task_have_the_same_form() -> None:
    """Else one of them would count as set by another tool."""
    plain = commit(stores(18), 100)
    applied = {n << 32: 1 for n in range(128)}
    assert len(plain.to_text()) < METADATA_MAX_BYTES
    texts = TextRules(compact=True).texts(
        plain, {INPUTS[0]: InputNote(), INPUTS[1]: InputNote(applied=applied)}
    )
    assert {text[:7] for text in texts.values()} == {'{"v":2,'}


def test_what_the_broker_takes_decides() -> None:
    """A larger limit is used; without a limit that is known the broker is asked."""
    many, notes = commit(stores(400), 10**9), dict.fromkeys(INPUTS, InputNote())
    with pytest.raises(CommitMetadataError, match=r"400 changelog partitions.*takes 4096; raise"):
        TextRules(compact=True).texts(many, notes)
    for limit in (65_536, 100_000, None):
        texts = TextRules(limit, compact=True).texts(many, notes)
        assert texts[INPUTS[0]].startswith('{"v":2,')
    assert TextRules(100_000).texts(many, notes)[INPUTS[0]].startswith('{"v":1,')


def test_beside_a_member_that_cannot_read_it_the_compact_form_is_not_written() -> None:
    many, notes = commit(stores(100), 100), dict.fromkeys(INPUTS, InputNote())
    with pytest.raises(CommitMetadataError, match="or end the members of older versions"):
        TextRules(compact=False).texts(many, notes)
    assert TextRules(None, compact=False).texts(many, notes)[INPUTS[0]].startswith('{"v":1,')


def test_names_with_the_same_number_are_found() -> None:
    """Two of some 80,000 names: found by trying."""
    by_number: dict[int, str] = {}
    for n in range(1_000_000):
        other = by_number.setdefault(number_of(f"s{n}"), f"s{n}")
        if other != f"s{n}":
            break
    assert same_numbers([f"s{n}", other, "another"]) == sorted([f"s{n}", other])
    assert same_numbers(["a", "b"]) == []
