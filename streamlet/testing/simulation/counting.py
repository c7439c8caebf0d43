"""The topology of simulated tasks: each counts the records of its input.

The state of a task is that count, so a wrong restore shows at once.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from streamlet.batch import Batch
from streamlet.serdes import Serde, serde
from streamlet.state.backing import Columns
from streamlet.state.rows import NO_TIME, rows_of
from streamlet.state.store_specs import StoreSpec
from streamlet.topology.graph import Topology
from streamlet.topology.names import changelog_name
from streamlet.topology.nodes import InternalTopic, ProcessorNode, SourceNode
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
        nodes += [source, ProcessorNode(f"count-{number}", (source.name,), _Counter, used)]
    return Topology(GROUP, split(GROUP, nodes, stores, between))


def row_of(task: TaskId, count: int) -> Columns:
    """The row of a count, as the store of a task writes it."""
    rows = rows_of([_COUNTS.encode(count)], [NO_TIME])
    return Columns(_store(task.subtopology), [COUNTED.encode()], rows)


class _Counter:
    """The operator of a task: it counts the records of the one input, in the store if it has one.

    It sees each record once, in order, or breaks.

    Args:
        context: the task, whose positions it begins at.
    """

    def __init__(self, context: Any) -> None:
        ((self._input, self._next),) = context.positions.items()
        self._stores = context.state.stores.values()

    def process(self, batch: Batch) -> Batch:
        """Count records; none is sent on."""
        first, expected = batch.offsets[0], self._next
        assert first == expected, f"{self._input}: {first} comes in place of {expected}"
        self._next = expected + len(batch)
        for store in self._stores:
            store.put(COUNTED, self._next)
        return batch.slice(0, 0)
