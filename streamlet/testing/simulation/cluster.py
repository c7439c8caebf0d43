"""The state that outlives processes: tasks, instances with their disks, changelogs.

A changelog is two things here. ``Log.end`` and the offsets of copies are what scenarios speak of:
how far a member is behind. ``log`` has the few records that the simulated owners really
wrote, each with the number of its commit, so that every new owner's state can be compared with the
committed offset it starts from (the state of a task is the count of its inputs).
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Mapping, Sequence

import attrs

from streamlet.assignor.values import Leaving, TaskInfo
from streamlet.clock import Clock
from streamlet.state.changelog import encode_column
from streamlet.state.memory import MemoryEngine
from streamlet.testing.memory_log import MemoryLog, StoredRecord
from streamlet.testing.simulation.counting import changelog_of, input_of, row_of, topology_of
from streamlet.testing.simulation.events import InstanceSpec, TaskSpec
from streamlet.types import StateNumber, TaskId, TopicPartition

#: Where inputs end: their records are made up as they are read.
ENDLESS = 1 << 40


@attrs.define
class Log:
    """The changelog of one task, as scenarios see it."""

    end: int

    def lag(self, offset: int) -> int:
        """Records missing behind an offset; one beyond the end means that nothing counts (§10)."""
        return self.end - offset if offset <= self.end else self.end


class HeardLog(MemoryLog):
    """The log as a broker tells of it that may not have heard of the last record of a changelog.

    Args:
        log: what there is.
        clock: the time.
    """

    def __init__(self, log: MemoryLog, clock: Clock) -> None:
        super().__init__(clock)
        self._topics = log._topics
        #: Where some seem to end, and until when.
        self.short: dict[TopicPartition, tuple[int, int]] = {}

    def shorten(self, partition: TopicPartition, until_ms: int) -> None:
        """Hide the last record until then."""
        self.short[partition] = max(super().end(partition) - 1, 0), until_ms

    def end(self, partition: TopicPartition) -> int:
        """Offset at which a changelog seems to end."""
        short_end, until_ms = self.short.get(partition, (0, 0))
        return short_end if self._clock.now_ms() < until_ms else super().end(partition)

    def read(
        self, partition: TopicPartition, offset: int, limit: int
    ) -> tuple[list[StoredRecord], int]:
        """Records before the end that it seems to have; see ``MemoryLog.read``."""
        records, position = super().read(partition, offset, limit)
        end = max(offset, self.end(partition))
        return [one for one in records if one.offset < end], min(position, end)


class SimFolder(MemoryEngine):
    """The stores in a task's folder, with what they say of themselves; they stay when closed."""

    @property
    def stores(self) -> frozenset[str]:
        """The names of the stores."""
        return frozenset(self._stores)

    def is_empty(self, store: str) -> bool:
        """True if a store has no entry."""
        return next(self.backing(store).scan(None, None), None) is None

    def close(self) -> None:
        """Keep everything."""


@attrs.define(eq=False)
class SimulatedInstance:
    """One instance: its disk stays when its processes are gone."""

    spec: InstanceSpec
    process_id: str
    #: Offset of the copy of each task in the state folder, and what the copy holds.
    disk: dict[TaskId, int] = attrs.field(factory=dict)
    folders: dict[TaskId, SimFolder] = attrs.field(factory=dict)
    #: Which of its members holds a task's folder; no other opens it meanwhile.
    locks: dict[TaskId, str] = attrs.field(factory=dict)
    leaving: Leaving | None = None
    drained: bool = False  # left by itself
    exited: bool = False  # left, by itself or because it was stopped
    starts: int = 0


class SimulatedCluster:
    """All tasks and instances by name; members are the world's.

    Args:
        tasks: with which it begins.
        kinds: whether tasks of each subtopology have state.
        instances: all there will ever be, by name.
        seed: of the ids of instances.
        clock: the time.
    """

    def __init__(
        self,
        tasks: Iterable[TaskSpec],
        kinds: Sequence[bool],
        instances: Mapping[str, InstanceSpec],
        seed: int,
        clock: Clock,
    ) -> None:
        dice = random.Random(f"ids of {seed}")
        self.specs: dict[TaskId, TaskSpec] = {}
        self.by_label: dict[str, TaskSpec] = {}
        self.logs: dict[TaskId, Log] = {}
        self.topology = topology_of(tuple(kinds))
        self.log = MemoryLog(clock)
        self.heard = HeardLog(self.log, clock)
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
            for tp in (input_of(spec.task), *((changelog_of(spec.task),) * spec.stateful)):
                self.log.create(tp.topic)
                self.log.grow(tp.topic, tp.partition + 1)
            self.log.gap(input_of(spec.task), ENDLESS)

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
            self.log.raise_start(tp, offset)

    def write(self, task: TaskId, number: StateNumber, count: int) -> None:
        """Append to a changelog what an owner writes with a commit of this number."""
        row = row_of(task, count)
        values, _ = encode_column(number, row.values)
        self.log.append(changelog_of(task), row.keys, values)

    def truncate(self, task: TaskId) -> None:
        """Lose the second half of a changelog."""
        self.logs[task].end //= 2
