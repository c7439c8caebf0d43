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
