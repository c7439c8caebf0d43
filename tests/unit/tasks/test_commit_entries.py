"""Commit entries that commits write: compact once the group's members can read that, not before."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from streamlet.state import entries
from streamlet.state.entries import ENTRY_HEADER, CommitEntry
from streamlet.testing.memory_ports import MemorySource
from streamlet.types import NO_STATE
from tests.unit.tasks.owners import CHANGELOG, Owner, World


def newest(world: World) -> tuple[bytes, CommitEntry]:
    """The entry of the newest flush to the changelog, as it lies there and as it is read."""
    source = MemorySource(world.log, headers=True)
    source.assign({CHANGELOG: 0})
    (batch,) = source.poll(10_000, 0)
    headers = (batch.headers or [None])[-1]
    entry = CommitEntry.of(NO_STATE, headers)
    assert entry is not None
    return next(raw or b"" for name, raw in headers or () if name == ENTRY_HEADER), entry


def test_entries_are_compact_if_all_members_can_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "PLAIN_BYTES", 0)
    world = World(tmp_path, random.Random(1))
    world.log.create("words", 1)
    world.log.create(CHANGELOG.topic, 1)
    world.produce(40)
    owner = Owner(world)
    list(owner.steps())  # the claim
    for number, compact in enumerate((False, True, False), 1):
        owner.commit_port.texts.compact = compact
        owner.work(10)
        list(owner.steps())
        raw, entry = newest(world)
        assert (b"changelog" in raw) is not compact
        assert entry.named([CHANGELOG.topic]).written == {CHANGELOG.topic: number}
    owner.die()
