"""Lists of tasks as they stand in the records of ``wire``, by version.

Up to version 5 a list has a record for each subtopology, with the partitions. From version 6 on it
is one column of numbers, which is a third smaller in a large group: how many numbers of
subtopologies there are, the first task, and the distance of each task to the one before. The task
of partition p and subtopology s is p times the first number, plus s.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Any

from streamlet.types import TaskId

#: The first version with columns.
COLUMN_VERSION = 6


def ordered(tasks: Iterable[TaskId], version: int) -> list[TaskId]:
    """The tasks in the order in which ``tasks_record`` takes them and ``tasks_of`` gives them."""
    return sorted(tasks, key=_by_partition if version >= COLUMN_VERSION else None)


def tasks_record(tasks: list[TaskId], version: int) -> list[Any]:
    """The list as the schema of a version has it; ``tasks`` is ``ordered``."""
    return _column(tasks) if version >= COLUMN_VERSION else _by_subtopology(tasks)


def tasks_of(record: list[Any]) -> list[TaskId]:
    """The tasks of a list of any version.

    Raises:
        ValueError: if no task has such a number.
    """
    if not record or isinstance(record[0], dict):
        return [TaskId(r["subtopology"], part) for r in record for part in r["partitions"]]
    stride, *distances = record
    if stride < 1 or min(distances, default=0) < 0:
        raise ValueError(f"tasks {record}")
    return [TaskId(number % stride, number // stride) for number in accumulate(distances)]


def _by_partition(task: TaskId) -> tuple[int, int]:
    return task.partition, task.subtopology


def _column(tasks: list[TaskId]) -> list[int]:
    if not tasks:
        return []
    stride = max(task.subtopology for task in tasks) + 1
    numbers = [task.partition * stride + task.subtopology for task in tasks]
    return [stride, numbers[0], *(after - before for before, after in pairwise(numbers))]


def _by_subtopology(tasks: list[TaskId]) -> list[dict[str, Any]]:
    groups: dict[int, list[int]] = {}
    for task in tasks:
        groups.setdefault(task.subtopology, []).append(task.partition)
    return [{"subtopology": key, "partitions": parts} for key, parts in groups.items()]
