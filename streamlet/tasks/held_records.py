"""Bounds the memory of records that copies hold back until their commit is proved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streamlet.kafka.ports import PartitionBatch
from streamlet.tasks.open_task import ChangelogPart, OpenTask
from streamlet.tasks.opening import blamed
from streamlet.types import TaskId, TopicPartition

#: The bytes that those of all copies of a reader may take. Beyond it those of the partition with
#: most are let go, and read again once their commit is proved.
HELD_BYTES = 64 << 20


def take(
    batches: Iterable[PartitionBatch],
    parts: Mapping[TopicPartition, ChangelogPart],
    most: int,
    tasks: Mapping[TaskId, OpenTask],
) -> None:
    """Take what one poll gave of changelogs, and hold no more than so many bytes back.

    Raises:
        StateError: a record is not streamlet's; it names the task.
    """
    for batch in batches:
        part = parts.get(TopicPartition(batch.topic, batch.partition))
        if part is not None:
            with blamed(part.task):
                part.take(batch)
    release_beyond(most, tasks)


def release_beyond(most: int, tasks: Mapping[TaskId, OpenTask]) -> None:
    """Let the largest go until all together take no more than this.

    Raises:
        StateError: a store refuses those of a promoted copy that count; it names the task.
    """
    parts = [part for opened in tasks.values() for part in opened.parts]
    while sum(part.held_bytes for part in parts) > most:
        largest = max(parts, key=lambda part: part.held_bytes)
        with blamed(largest.task):
            tasks[largest.task].release_held(largest)
