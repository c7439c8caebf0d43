"""Turns what a worker has and counted into a ``Snapshot``; reads only, on the worker's thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from streamlet.coordinator.session import GroupSession
from streamlet.kafka.ports import RecordSource
from streamlet.processing.record_failures import RecordCounters
from streamlet.processing.task import Task
from streamlet.runtime.metrics.metric import Metric
from streamlet.runtime.metrics.table import METRICS
from streamlet.runtime.metrics.values import MemberHealth, Sample, Snapshot
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.manager import TaskManager
from streamlet.tasks.meters import Meters
from streamlet.tasks.open_task import RestoreProgress
from streamlet.tasks.task_record import OURS, TaskStage
from streamlet.types import TaskId, TopicPartition


@attrs.frozen
class MeasuredMember:
    """Everything a snapshot is made of, as the rows of ``table`` read it.

    Args:
        state: the worker's.
        mode: ``stream.rebalancing.mode``.
        counted: records polled, and what became of those of all tasks, closed ones included.
        flush_ns: what commits waited for delivery.
        active: active tasks held.
        roles: role and stage of every task, copies included.
        lags: of copies, with their roles.
        waiting: active tasks that do not run yet.
        meters: the worker's.
        standing: of its membership.
        ends: knows where the partitions that it reads end: the worker's consumer.
        advice: for the whole application, where this member works it out.
        global_lags: records that its copies of global tables lack, by partition.
    """

    state: str
    mode: str
    counted: RecordCounters
    flush_ns: int
    active: Mapping[TaskId, ActiveTask]
    roles: Mapping[TaskId, tuple[str, str]]
    lags: Mapping[TaskId, tuple[str, int]]
    waiting: tuple[TaskId, ...]
    meters: Meters
    standing: GroupSession
    ends: RecordSource
    advice: Mapping[str, Any] | None = None
    global_lags: Mapping[TopicPartition, int] = attrs.field(factory=dict)

    @property
    def heartbeat_age_ms(self) -> int:
        """Time since the last heartbeat that was answered was sent."""
        return max(0, self.meters.clock.now_ms() - self.standing.view.last_heartbeat_ms)

    @property
    def tasks(self) -> dict[str, Task]:
        """The active tasks by name."""
        found = ((one.task, one.processor) for _, one in sorted(self.active.items()))
        return {str(task): processor for task, processor in found if processor is not None}

    @property
    def processed(self) -> int:
        """Records processed by all tasks, closed ones included."""
        live = sum(task.counters.records for task in self.tasks.values())
        return self.meters.processed_before + live

    @property
    def tasks_by_role(self) -> dict[tuple[str, ...], int]:
        """The number of tasks of each role."""
        counts = Counter(role for role, _ in self.roles.values())
        return {(role,): counts[role] for role in ("active", "pending", "learner", "standby")}

    @property
    def repetitions(self) -> dict[tuple[str, ...], int]:
        """Records that exact repartition topics repeated, by task and kind."""
        return {
            (name, kind): count
            for name, task in self.tasks.items()
            if task.edges is not None
            for kind, count in task.edges.dropped.items()
        }

    @property
    def input_lags(self) -> dict[tuple[str, ...], int]:
        """Records not processed yet of each input partition whose end is known."""
        return {
            (name, tp.topic, str(tp.partition)): max(0, end - position)
            for name, task in self.tasks.items()
            for tp, position in sorted(_reached(task).items())
            if (end := self.ends.known_end(tp)) is not None
        }

    @property
    def held_waits(self) -> dict[tuple[str, ...], list[float]]:
        """The waits of records for the commits of their writers, by task and topic."""
        return {
            (name, tp.topic): one.waits.value()
            for name, task in self.tasks.items()
            if task.edges is not None
            for tp, one in sorted(task.edges.readers.items())
        }

    def restores(self, value: Callable[[RestoreProgress], float]) -> dict[tuple[str, ...], float]:
        """A value of each store that is being restored, or was for a task that runs."""
        found = sorted(self.meters.restores.items())
        return {(str(task), store): value(progress) for (task, store), progress in found}

    def advised(self, name: str) -> dict[tuple[str, ...], float]:
        """A value of the advice; none where this member works out no advice."""
        return {} if self.advice is None else {(): self.advice[name]}


def _reached(task: Task) -> Mapping[TopicPartition, int]:
    """The positions that a commit would write."""
    return task.positions if task.edges is None else task.edges.committable(task.positions)


def roles_of(manager: TaskManager) -> dict[TaskId, tuple[str, str]]:
    """Role and stage of every task that the manager knows of; what was given up is left out."""
    found: dict[TaskId, tuple[str, str]] = {}
    for task, record in sorted(manager.records.items()):
        copy = record.copy
        if record.stage in OURS:
            found[task] = ("active", record.stage.value)
        elif record.stage is TaskStage.WAITING:
            found[task] = ("pending", record.stage.value)
        elif copy is not None:
            stage = "ready" if copy.ready else "learning"
            found[task] = (copy.role.value, stage if copy.role == "learner" else "following")
    return found


def lags_of(manager: TaskManager) -> dict[TaskId, tuple[str, int]]:
    """The lag of every copy, with its role."""
    roles = roles_of(manager)
    return {
        task: (roles[task][0], copy.lag)
        for task, copy in sorted(manager.followed.copies.items())
        if copy.lag is not None and roles[task][0] != "active"
    }


def measure(member: MeasuredMember) -> Snapshot:
    """A member at this moment."""
    samples = tuple(sample for metric in METRICS.values() for sample in _samples(metric, member))
    health = MemberHealth(
        member.state,
        member.standing.view.generation,
        member.heartbeat_age_ms,
        member.standing.view.linked,
        tuple(map(str, member.waiting)),
    )
    return Snapshot(samples, health)


def _samples(metric: Metric, member: MeasuredMember) -> Iterator[Sample]:
    if metric.of is not None:
        found = metric.of(member)
        values = found if isinstance(found, Mapping) else {(): found}
        for labels, value in values.items():
            yield Sample(metric.name, labels, value)
    elif metric.of_task is not None:
        for name, task in member.tasks.items():
            of_task = metric.of_task(task)
            if of_task is not None:
                yield Sample(metric.name, (name,), of_task)
