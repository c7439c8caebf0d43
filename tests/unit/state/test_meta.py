"""What is written beside a task's stores."""

from __future__ import annotations

import json

import attrs
import pytest

from streamlet.errors import TaskCorruptedError
from streamlet.state.meta import TaskMeta
from streamlet.types import StateNumber, TopicPartition

LOG, INPUT = TopicPartition("c", 0), TopicPartition("in", 0)
META = TaskMeta(StateNumber(2, 3), {LOG: 9}, {LOG: 2}, {"c": "id"}, {"s": ("str", "int")})


def test_the_input_positions_of_the_state_are_read_as_they_were_written() -> None:
    meta = attrs.evolve(META, inputs={INPUT: 7}, reach=StateNumber(2, 4))
    assert TaskMeta.from_bytes(meta.to_bytes(), "here") == meta


def test_a_version_that_does_not_know_them_reads_and_writes_the_rest() -> None:
    """Its format stays the same: a folder may go from one version to another and back."""
    assert TaskMeta.from_bytes(META.to_bytes(), "here") == META
    fields = json.loads(attrs.evolve(META, inputs={}, reach=META.state).to_bytes())
    assert fields.keys() - json.loads(META.to_bytes()).keys() == {"inputs", "reach"}
    assert fields["v"] == 2


@pytest.mark.parametrize("meta", [META, attrs.evolve(META, positions={}, inputs={INPUT: 7})])
def test_the_state_of_another_partition_is_refused(meta: TaskMeta) -> None:
    meta.check_partition(0, "here")
    with pytest.raises(TaskCorruptedError, match="here holds state of partition 0, not of 1"):
        meta.check_partition(1, "here")


@pytest.mark.parametrize(
    "changed",
    [
        *({"state": one} for one in ([-1, 0], [1 << 31, 0], [2, 1 << 63], [2, True], [2], "23")),
        *({"changelogs": [["c", 0, one, 2]]} for one in (-1, 1 << 63, 1.5, True)),
        *({"changelogs": [["c", 0, 9, one]]} for one in (-1, 1 << 70, None)),
        *({"changelogs": [["c", one, 9, 2]]} for one in (-1, 1 << 31, "0")),
        *({"latest": {"s": one}} for one in (1 << 64, 1e308, "9")),
        *({"times": [["c", 0, one]]} for one in (-1, float("inf"), float("nan"))),
        *({"time_indexes": [["c", 0, one]]} for one in (7, [[1]], [[1, 1 << 64]], [[-1, 1]])),
        *({"on_disk": one} for one in (7, [7])),
        *({"layout": one} for one in ([], {"s": ["str", 7]}, {"s": "str"})),
        {"topic_ids": {"c": 7}},
        {"inputs": [["in", 0, -1]]},
        {"v": None},
        {"v": "2"},
    ],
    ids=str,
)
def test_what_cannot_be_is_damage(changed: dict[str, object]) -> None:
    raw = json.dumps({**json.loads(META.to_bytes()), **changed}).encode()
    with pytest.raises(TaskCorruptedError, match="state in here is damaged"):
        TaskMeta.from_bytes(raw, "here")


@pytest.mark.parametrize(
    "raw", [b"", b"7", b"[]", b'{"v":\xff}', b"[" * 5_000_000 + b"]" * 5_000_000], ids=range(5)
)
def test_bytes_that_are_no_meta_are_damage(raw: bytes) -> None:
    with pytest.raises(TaskCorruptedError, match="state in here is damaged"):
        TaskMeta.from_bytes(raw, "here")
