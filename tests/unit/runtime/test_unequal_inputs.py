"""A merged stream of topics with unequal partition counts, in workers; one of them grows."""

from __future__ import annotations

from pathlib import Path

from streamlet.app import App
from streamlet.testing.ports import MemoryLog
from streamlet.topology.graph import Topology
from streamlet.types import TaskId, TopicPartition
from tests.unit.runtime.members import PARTITIONS, Group, wait_for
from tests.unit.runtime.test_task_manager import running

#: What is merged with ``words``, with a partition less than that has at last.
MORE = "more"


def merging() -> Topology:
    """Counts per key of both topics, every count written to ``counts``."""
    app = App("app")
    words = app.stream(["words", MORE], key=str, value=str)
    words.group_by_key().count(store="counts").to_stream().to("counts")
    return app.topology()


def grow(log: MemoryLog, topic: str, partitions: int) -> None:
    """Add partitions; what lies in the others stays."""
    spare = f"{topic}-grown"
    log.create(spare, partitions)
    log._topics[topic].partitions += log._topics[spare].partitions[
        len(log._topics[topic].partitions) :
    ]
    log.delete(spare)


def write(group: Group, partition: int, key: str) -> None:
    group.log.append(TopicPartition(MORE, partition), [key.encode()], [b"x"])


def test_tasks_read_what_there_is_and_a_new_partition_as_soon_as_it_is_seen(
    tmp_path: Path,
) -> None:
    """The tasks stay the same, so the group is not asked; the one task begins again by itself."""
    group = Group(tmp_path, merging(), metadata_max_age_ms="50")
    group.log.create(MORE, PARTITIONS - 2)
    with running(group):
        write(group, PARTITIONS - 3, "early")
        group.produce(2)
        member = group.member("a")
        wait_for(lambda: group.put_out >= 81, "all that is there is counted")
        open_before = {task: id(state) for task, state in member.open_tasks().items()}
        assert len(open_before) == PARTITIONS
        generation = member.worker._orders.generation
        grow(group.log, MORE, PARTITIONS - 1)
        write(group, PARTITIONS - 2, "late")
        wait_for(lambda: "late" in group.counts(), "the new partition is read")
        wait_for(lambda: len(member.running) == PARTITIONS, "all run")
        open_after = {task: id(state) for task, state in member.open_tasks().items()}
        grown = TaskId(0, PARTITIONS - 2)
        assert {task for task in open_after if open_after[task] != open_before[task]} == {grown}
        assert member.worker._orders.generation == generation
        group.end()
    counts = group.counts()
    assert counts["early"] == counts["late"] == [1]
    assert all(numbers == [1, 2] for key, numbers in counts.items() if key[1:].isdigit())
