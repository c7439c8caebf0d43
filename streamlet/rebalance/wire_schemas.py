"""Avro schemas of subscription and assignment, and their lists of tasks, by version.

A later version adds or changes fields under a new number and leaves these as they are: members of
both versions meet in one group during a rolling upgrade.

Up to version 5 a list has a record for each subtopology, with the partitions. From version 6 on it
is one column of numbers, which is a third smaller in a large group: how many numbers of
subtopologies there are, the first task, and the distance of each task to the one before. The task
of partition p and subtopology s is p times the first number, plus s.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Any

import fastavro

from streamlet.bounded import TASK_NUMBER_MAX, whole
from streamlet.types import TaskId

#: Tasks in one list of a subscription or an assignment.
TASKS_MAX = 100_000


def _record(record: str, /, **fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": record,
        "fields": [{"name": key, "type": kind} for key, kind in fields.items()],
    }


def _array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


#: The fields of an assignment that are lists of tasks.
TASK_SETS = ("active", "learner", "standby", "awaited", "revoke", "being_learned", "unassigned")

_TASKS = _array(_record("Tasks", subtopology="int", partitions=_array("int")))
_ORDERS = _array(_record("Order", subtopology="int", partition="int", member="bytes"))
_COPIES = {"role": "int", "generation": "int", "ready": "boolean", "tasks": _TASKS}
_MIGRATION = _record("Migration", protocol_type="string", members="int", until_ms="long")
_COLUMN = _array("long")

#: Version -> the fields that it adds or changes.
_SUBSCRIPTION: dict[int, dict[str, Any]] = {
    1: {
        "instance": "bytes",
        "name": "string",
        "member": "int",
        "capacity": "double",
        "instance_members": "int",
        "subtopologies": "bytes",
        "copies": _array(_record("Copies", **_COPIES, lags=_array("long"))),
        "instance_id": ["null", "string"],
        "leaving": ["null", _record("Leaving", since_ms="long", deadline_ms=["null", "long"])],
        "deferral_deadline_ms": ["null", "long"],
        "tags": {"type": "map", "values": "string"},
        "joined_generation": "int",
        "nonce": "long",
        "wants_type": ["null", "string"],
        "learners": "boolean",
        "stateful": _array("int"),
        "imbalance": ["null", "double"],
        "started_ms": "long",
    },
    # Modes, changes of the protocol type, and why a member rejoined.
    2: {"mode": ["null", "string"], "migration": ["null", _MIGRATION], "reason": "string"},
    # The instances that replace a leaving one, and what each subtopology has, by which two
    # topologies compare their numbers.
    4: {"successors": _array("bytes"), "belongings": _array("bytes")},
    # Lists of tasks are columns of numbers.
    6: {"copies": _array(_record("Copies", **{**_COPIES, "tasks": _COLUMN}, lags=_array("long")))},
    8: {"disk_fails": "boolean"},  # whether its stores cannot be used
    # Whether it commits by transactions, and may run beside members of the other guarantee.
    10: {"exactly_once": "boolean", "may_mix": "boolean"},
}
_ASSIGNMENT: dict[int, dict[str, Any]] = {
    1: {
        "active": _TASKS,
        "learner": _array("Tasks"),
        "standby": _array("Tasks"),
        "revoke": _array("Tasks"),
        "release": _ORDERS,
        "pending": _array("Order"),
        "leave": "boolean",
        "follow_up_ms": ["null", "long"],
        "deferral_deadline_ms": ["null", "long"],
        "error": "int",
        "leader": "bytes",
        "answers_nonce": "long",
        "answers_identity": "bytes",
        "generation": "int",
        "made_ms": ["null", "long"],
        "reason": "string",
        "being_learned": _array("Tasks"),
    },
    2: {"migration": ["null", _MIGRATION]},
    3: {"release_delay_ms": "int"},  # when to begin to release tasks
    4: {"unassigned": _array("Tasks")},  # the tasks without a member
    5: {"awaited": _array("Tasks")},  # the standbys whose readiness the group waits for
    6: dict.fromkeys(TASK_SETS, _COLUMN),
    7: {"prefixes": "boolean"},  # whether repartition topics may bear prefixes
    8: {"compact": "boolean"},  # whether the texts of commits may be in compact form
    9: {"held": "boolean"},  # whether records of repartition topics may wait for a commit
}

#: The latest version.
VERSION = 10


def _schemas(name: str, changes: dict[int, dict[str, Any]]) -> dict[int, Any]:
    """The parsed schema of each version; a changed field stays at its place."""
    fields: dict[str, Any] = {}
    found: dict[int, Any] = {}
    for version in range(1, VERSION + 1):
        fields |= changes.get(version, {})
        found[version] = fastavro.parse_schema(_record(name, **fields))
    return found


SUBSCRIPTIONS = _schemas("Subscription", _SUBSCRIPTION)
ASSIGNMENTS = _schemas("Assignment", _ASSIGNMENT)

#: The first version with columns.
COLUMN_VERSION = 6


def ordered(tasks: Iterable[TaskId], version: int) -> list[TaskId]:
    """The tasks in the order in which ``tasks_record`` takes them and ``tasks_of`` gives them."""
    return sorted(tasks, key=_by_partition if version >= COLUMN_VERSION else None)


def tasks_record(tasks: list[TaskId], version: int) -> list[Any]:
    """A list of tasks in the schema of a version; ``tasks`` is ``ordered``."""
    return _column(tasks) if version >= COLUMN_VERSION else _by_subtopology(tasks)


def tasks_of(record: list[Any]) -> list[TaskId]:
    """The tasks of a list of any version.

    Raises:
        ValueError: if no task has such a number, one is there twice, or there are too many.
    """
    if not record or isinstance(record[0], dict):
        check_count(sum(len(r["partitions"]) for r in record))
        return [task_of(r["subtopology"], part) for r in record for part in r["partitions"]]
    check_count(len(record) - 1)
    stride, *distances = record
    # Tasks rise from one to the next, so the last number is the highest.
    if min(distances, default=0) < 0 or 0 in distances[1:]:
        raise ValueError("tasks that do not rise")
    whole(stride, 1, TASK_NUMBER_MAX + 1)
    whole(sum(distances) // stride, 0, TASK_NUMBER_MAX)
    return [TaskId(number % stride, number // stride) for number in accumulate(distances)]


def task_of(subtopology: int, partition: int) -> TaskId:
    """The task of these numbers.

    Raises:
        ValueError: if no task has them.
    """
    return TaskId(whole(subtopology, 0, TASK_NUMBER_MAX), whole(partition, 0, TASK_NUMBER_MAX))


def check_count(tasks: int) -> None:
    """Refuse more tasks than an application can have.

    Raises:
        ValueError: there are more.
    """
    if tasks > TASKS_MAX:
        raise ValueError(f"{tasks} tasks, more than {TASKS_MAX}")


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
