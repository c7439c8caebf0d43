"""Lists of tasks in the records of subscriptions and assignments."""

from __future__ import annotations

import pytest

from streamlet.rebalance.wire_schemas import COLUMN_VERSION, ordered, tasks_of, tasks_record
from streamlet.types import TaskId

TASKS = [TaskId(2, 0), TaskId(0, 7), TaskId(2, 7), TaskId(0, 6)]


def test_a_column_has_the_stride_the_first_task_and_the_distances() -> None:
    listed = ordered(TASKS, COLUMN_VERSION)
    assert listed == [TaskId(2, 0), TaskId(0, 6), TaskId(0, 7), TaskId(2, 7)]
    assert tasks_record(listed, COLUMN_VERSION) == [3, 2, 16, 3, 2]


def test_before_columns_a_list_had_a_record_for_each_subtopology() -> None:
    assert tasks_record(ordered(TASKS, 5), 5) == [
        {"subtopology": 0, "partitions": [6, 7]},
        {"subtopology": 2, "partitions": [0, 7]},
    ]


@pytest.mark.parametrize("version", [5, COLUMN_VERSION])
@pytest.mark.parametrize("tasks", [[], [TaskId(0, 0)], TASKS])
def test_the_tasks_are_read_in_the_order_in_which_they_were_written(
    version: int, tasks: list[TaskId]
) -> None:
    listed = ordered(tasks, version)
    assert tasks_of(tasks_record(listed, version)) == listed
    assert set(listed) == set(tasks)
