"""The topology of simulated tasks, and what processes them: each counts the records of its input.

The state of a task is that count, so a wrong restore shows at once.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import attrs

from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.node_meters import NodeMeters
from streamlet.processing.outputs import Output
from streamlet.processing.record_failures import RecordCounters
from streamlet.serdes import Serde, serde
from streamlet.state.backing import Columns
from streamlet.state.rows import NO_TIME, rows_of
from streamlet.state.task_state import TaskState
from streamlet.topology.graph import Topology
from streamlet.topology.names import changelog_name
from streamlet.topology.nodes import InternalTopic, ProcessorNode, SourceNode, StoreSpec
from streamlet.topology.operator import TaskContext
from streamlet.topology.subtopologies import Node, split
from streamlet.types import TaskId, TopicPartition

#: The name of the application and its group.
GROUP = "simulated"
#: The one key of each store.
COUNTED = "records"
_COUNTS: Serde[int] = serde(int)


def input_of(task: TaskId) -> TopicPartition:
    """The one input partition of a task."""
    return TopicPartition(f"in-{task.subtopology}", task.partition)


def changelog_of(task: TaskId) -> TopicPartition:
    """The one changelog partition of a stateful task."""
    return TopicPartition(changelog_name(GROUP, _store(task.subtopology)), task.partition)


def task_of(partition: TopicPartition) -> TaskId:
    """The task that an input partition belongs to."""
    return TaskId(int(partition.topic.removeprefix("in-")), partition.partition)


def _store(number: int) -> str:
    return f"counts-{number}"


@cache
def topology_of(kinds: tuple[bool, ...]) -> Topology:
    """The topology whose subtopologies count their input, with a store or without one.

    The inputs are topics between two subtopologies: what is committed is deleted.
    """
    nodes: list[Node] = []
    stores: dict[str, StoreSpec] = {}
    between: dict[str, InternalTopic] = {}
    for number, stateful in enumerate(kinds):
        topic, name = input_of(TaskId(number, 0)).topic, _store(number)
        between[topic] = InternalTopic(topic, "repartition")
        used = (name,) if stateful else ()
        stores |= {one: StoreSpec(one, serde(str), _COUNTS) for one in used}
        source = SourceNode(
            f"read-{number}", (topic,), serde(bytes), serde(bytes), reset="earliest"
        )
        nodes += [source, ProcessorNode(f"count-{number}", (source.name,), _no_operator, used)]
    return Topology(GROUP, split(GROUP, nodes, stores, between))


def row_of(task: TaskId, count: int) -> Columns:
    """The row of a count, as the store of a task writes it."""
    rows = rows_of([_COUNTS.encode(count)], [NO_TIME])
    return Columns(_store(task.subtopology), [COUNTED.encode()], rows)


def _no_operator(context: TaskContext) -> Any:
    raise AssertionError("a CountingTask counts")


@attrs.define(eq=False)
class CountingTask:
    """A processor that counts the records of its one input, in its store if it has one.

    It sees each record once, in order, or breaks.
    """

    positions: dict[TopicPartition, int]
    epoch: int
    store: Any = None
    counters: RecordCounters = attrs.field(factory=RecordCounters)
    under_way: bool = False
    retrying: bool = False
    calling: bool = False
    pausing: bool = False
    commit_requested: bool = False
    calls: None = None
    edges: None = None
    meters: NodeMeters = attrs.field(factory=NodeMeters)

    @property
    def received(self) -> dict[TopicPartition, int]:
        """Positions to read on from."""
        return self.positions

    def process(self, batch: PartitionBatch, *_: object) -> list[Output]:
        """Count records."""
        tp = TopicPartition(batch.topic, batch.partition)
        expected = self.positions[tp]
        assert batch.offsets[0] == expected, (
            f"{tp}: {batch.offsets[0]} comes in place of {expected}"
        )
        self.positions = {**self.positions, tp: expected + len(batch)}
        self.counters.records += len(batch)
        if self.store is not None:
            self.store.put(COUNTED, self.positions[tp])
        return []

    def skip_to(self, partition: TopicPartition, offset: int) -> None:
        """Go on at an offset: the one it has reached, or records are left out."""
        expected = self.positions[partition]
        assert offset == expected, f"{partition}: it goes on at {offset} in place of {expected}"

    def waits(self, now_ms: int) -> bool:
        """False: nothing is begun and not ended."""
        return False

    def buffered(self) -> dict[TopicPartition, int]:
        """The records that wait: none."""
        return {}

    def settle(self, *, release: bool = True) -> list[Output]:
        """End nothing."""
        return []

    def close(self) -> None:
        """Close nothing."""


def counting(
    task: TaskId,
    subtopology: object,
    state: TaskState,
    positions: dict[TopicPartition, int],
    epoch: int,
    **_: object,
) -> CountingTask:
    """A processor for the records of an open task, in place of ``processing.task.Task``."""
    return CountingTask(dict(positions), epoch, next(iter(state.stores.values()), None))
