"""Tasks shared by how much input waits for them, not by how many they are.

    streamlet topics create clicks --partitions 20
    streamlet topics create clicks-by-page --partitions 20
    streamlet run examples.assignors.lag_based:app                   # as often as you like

The assignor does not plan: it changes what streamlet's own is told, here the weight of each task.
It is asked whenever the group rebalances, so lags count that are there when somebody joins or
leaves; inside the band of ``stream.imbalance.percentage`` nothing moves.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence

import attrs

import streamlet as sl
from examples.consumer_lag_based import broker_lags
from streamlet.assignor.assign import assign
from streamlet.assignor.values import GroupState, Plan
from streamlet.rebalance.leader import Assignor
from streamlet.types import TaskId, TopicPartition

#: So many input records weigh as much as a task does by itself.
RECORDS = 1_000

Lags = Callable[[Sequence[TaskId]], Mapping[TaskId, int]]


def lag_based(lags: Lags) -> Assignor:
    """An assignor that evens out lags; ``lags`` tells how many input records wait for each task."""

    def assigned(group: GroupState) -> Plan:
        waiting = lags([info.task for info in group.tasks])
        tasks = tuple(
            attrs.evolve(info, weight=1 + waiting.get(info.task, 0) // RECORDS)
            for info in group.tasks
        )
        return assign(attrs.evolve(group, tasks=tasks))

    return assigned


def task_lags(app: sl.App) -> Lags:
    """Lags as the broker knows them; if it does not answer, streamlet plans by numbers.

    The broker is the one of the variable ``STREAMLET_BOOTSTRAP_SERVERS`` or of the program.
    """

    @functools.cache
    def ask() -> Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]]:
        servers = app.load_settings(environ=os.environ).bootstrap_servers
        return broker_lags(servers, app.name)

    def lags(tasks: Sequence[TaskId]) -> dict[TaskId, int]:
        topology = app.topology()
        inputs = {
            task: [
                TopicPartition(topic, task.partition)
                for topic in topology.subtopology(task.subtopology).input_topics
            ]
            for task in tasks
        }
        found = ask()([partition for asked in inputs.values() for partition in asked])
        return {task: sum(found[partition] for partition in inputs[task]) for task in tasks}

    return lags


app = sl.App("clicks-by-page", assignor=lag_based(lambda tasks: lags_of_app(tasks)))
lags_of_app = task_lags(app)

clicks = app.stream("clicks", key=str, value=str)
clicks.group_by_key().count(store="clicks").to_stream().to("clicks-by-page")
