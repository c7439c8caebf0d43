"""The state that outlives processes: tasks, instances with their disks, changelogs.

A changelog is two things here. ``end`` and the offsets of copies are what scenarios speak of: how
far a member is behind. ``records`` are the few that the simulated owners really wrote, each with
the number of its commit, so that every new owner's state can be compared with the committed offset
it starts from (the state of a task is the count of its inputs).
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import attrs

from streamlet.assignor.values import Leaving, TaskInfo
from streamlet.state.changelog import prefix_of
from streamlet.testing.simulation.events import InstanceSpec, TaskSpec
from streamlet.types import StateNumber, TaskId, TopicPartition

if TYPE_CHECKING:
    from streamlet.testing.simulation.stores import SimStores


#: The group's name.
GROUP = "simulated"


@attrs.define
class Log:
    """The changelog of one task."""

    end: int
    records: list[tuple[StateNumber, int]] = attrs.field(factory=list)
    #: Where it seems to end, and until when: its broker has not heard of the last record.
    short_end: int | None = None
    short_until_ms: int = 0

    def shorten(self, until_ms: int) -> None:
        """Hide the last record until then."""
        self.short_end, self.short_until_ms = max(len(self.records) - 1, 0), until_ms

    def end_at(self, now_ms: int) -> int:
        """The offset at which it seems to end at this time."""
        if self.short_end is None or now_ms >= self.short_until_ms:
            return len(self.records)
        return self.short_end

    def columns(self, start: int, end: int) -> tuple[list[bytes | None], list[bytes | None]]:
        """Keys and values of the records from an offset to another, as owners write them."""
        records = self.records[start:end]
        keys: list[bytes | None] = [b"count"] * len(records)
        return keys, [prefix_of(number) + b"%d" % value for number, value in records]

    def lag(self, offset: int) -> int:
        """Records missing behind an offset; one beyond the end means that nothing counts (§10)."""
        return self.end - offset if offset <= self.end else self.end


@attrs.define(eq=False)
class SimulatedInstance:
    """One instance: its disk stays when its processes are gone."""

    spec: InstanceSpec
    process_id: str
    #: Offset of the copy of each task in the state folder, and what the copy holds.
    disk: dict[TaskId, int] = attrs.field(factory=dict)
    stores: dict[TaskId, SimStores] = attrs.field(factory=dict)
    #: Which of its members holds a task's folder; no other opens it meanwhile.
    locks: dict[TaskId, str] = attrs.field(factory=dict)
    leaving: Leaving | None = None
    drained: bool = False  # left by itself
    exited: bool = False  # left, by itself or because it was stopped
    starts: int = 0


class SimulatedCluster:
    """All tasks and instances by name; members are the world's."""

    def __init__(
        self, tasks: Iterable[TaskSpec], instances: Mapping[str, InstanceSpec], seed: int
    ) -> None:
        dice = random.Random(f"ids of {seed}")
        self.specs: dict[TaskId, TaskSpec] = {}
        self.by_label: dict[str, TaskSpec] = {}
        self.logs: dict[TaskId, Log] = {}
        #: The first record of each input, where some were deleted.
        self.input_starts: dict[TopicPartition, int] = {}
        self.instances = {
            name: SimulatedInstance(spec, str(uuid.UUID(int=dice.getrandbits(128), version=4)))
            for name, spec in instances.items()
        }
        self.add_tasks(tasks)

    def add_tasks(self, tasks: Iterable[TaskSpec]) -> None:
        """Let there be more tasks."""
        for spec in tasks:
            self.specs[spec.task] = self.by_label[spec.label] = spec
            self.logs[spec.task] = Log(spec.end)

    @property
    def infos(self) -> list[TaskInfo]:
        """The tasks as a leader knows them."""
        return [TaskInfo(s.task, s.stateful, s.weight) for s in self.specs.values()]

    def label(self, task: TaskId) -> str:
        """The scenario's name of a task."""
        spec = self.specs.get(task)
        return str(task) if spec is None else spec.label

    def labels(self, tasks: Iterable[TaskId]) -> list[str]:
        """The names of tasks, in the tasks' order."""
        return [self.label(task) for task in sorted(tasks)]

    def is_stateful(self, task: TaskId) -> bool:
        """True if the task has state."""
        return self.specs[task].stateful

    def delete_input(self, before: Mapping[TopicPartition, int]) -> None:
        """Delete the records of inputs before these offsets."""
        for tp, offset in before.items():
            self.input_starts[tp] = max(offset, self.input_starts.get(tp, 0))

    def truncate(self, task: TaskId) -> None:
        """Lose the second half of a changelog."""
        self.logs[task].end //= 2


def input_of(task: TaskId) -> TopicPartition:
    """The one input partition of a task."""
    return TopicPartition(f"in-{task.subtopology}", task.partition)


def changelog_of(task: TaskId) -> TopicPartition:
    """The one changelog partition of a stateful task."""
    return TopicPartition(f"log-{task.subtopology}", task.partition)


def task_of(partition: TopicPartition) -> TaskId:
    """The task that an input or changelog partition belongs to."""
    return TaskId(int(partition.topic.rpartition("-")[2]), partition.partition)
