"""Whole workers whose commits are in compact form, since the names of their stores are too long."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamlet.app import App
from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.coordinator.messages import OffsetFetch
from streamlet.topology.graph import Topology
from streamlet.types import TopicPartition
from tests.unit.runtime.members import PARTITIONS, Group, wait_for

STORES = 20
KEYS = 12
#: So long that the names of all are more than a commit can hold.
NAME = "-of-many-stores" + "-that-have-a-rather-long-name-each" * 5


def counting() -> Topology:
    """Counts per key in many stores, those of the last one written to ``counts``."""
    app = App("app")
    groups = app.stream("words", key=str, value=str).group_by_key()
    for number in range(STORES):
        counts = groups.count(store=f"{number:02d}{NAME}")
    counts.to_stream().to("counts")
    return app.topology()


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    group = Group(tmp_path, counting(), acceptable_recovery_lag="0")
    yield group
    group.end()
    assert [member.failed for member in group.members] == [None] * len(group.members)


def committed(group: Group) -> list[str]:
    """The texts beside the positions of partitions of which records were processed."""
    words = tuple(TopicPartition("words", partition) for partition in range(PARTITIONS))
    request = OffsetFetch("app", words, require_stable=False)
    found = group.cluster.coordinator.offsets.fetch(request)
    return [one.metadata for one in found.committed.values() if one.offset > 0]


def test_a_member_without_state_goes_on_from_a_compact_commit(group: Group) -> None:
    first = group.member("a")
    group.produce(2, KEYS)
    wait_for(lambda: group.put_out == 2 * KEYS, "both records of each key are counted")
    first.told.set()
    first.thread.join()
    texts = committed(group)
    assert texts
    for text in texts:
        assert text.startswith('{"v":2,')
        found = CommitMetadata.from_text(text)
        assert found is not None
        assert len(found.ends) == STORES
    group.member("b")
    group.produce(1, KEYS)
    wait_for(lambda: group.put_out == 3 * KEYS, "it goes on")
    assert set(map(tuple, group.counts().values())) == {(1, 2, 3)}


def test_a_warm_copy_takes_over_at_a_compact_mark(group: Group) -> None:
    group.member("a")
    group.produce(2, KEYS)
    wait_for(lambda: group.put_out == 2 * KEYS, "both records of each key are counted")
    group.member("b")
    wait_for(lambda: group.shares() == [2, 2], "the second one has its share")
    group.produce(1, KEYS)
    wait_for(lambda: group.put_out == 3 * KEYS, "both go on")
    assert set(map(tuple, group.counts().values())) == {(1, 2, 3)}
