"""Lays a topology out as one Spark query: what runs in the map in front, what in which stage.

    source ──▶ map: stateless subtopologies, packing ──▶ stage 0 ──▶ stage 1 ──▶ … ──▶ unpacking

A stage is one stateful operator that runs all tasks of its subtopologies, grouped by task; a
repartition topic is the way from one stage to a later one. What a stage has no task for, it hands
on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import TYPE_CHECKING
from zlib import crc32

import attrs

from streamlet.counted import counted
from streamlet.errors import StateError, TopologyError
from streamlet.kafka.placements import DEFAULT
from streamlet.spark.kafka.placement import groups
from streamlet.spark.kafka.written_topics import WrittenTopics
from streamlet.spark.plan.refusals import REFUSALS
from streamlet.types import TaskId, TopicPartition

if TYPE_CHECKING:
    from streamlet.topology.graph import Topology
    from streamlet.topology.subtopologies import Subtopology

#: Groups of what a stage only hands on: several, so that it is spread.
_PASSING = 8


@attrs.frozen
class SparkStage:
    """The tasks of one stateful operator by the group they are addressed by."""

    tasks: Mapping[int, TaskId]
    group_of: Mapping[TaskId, int]
    passing: tuple[int, ...]

    @classmethod
    def of(cls, tasks: list[TaskId]) -> SparkStage:
        """Give each task its group."""
        numbers = groups(len(tasks) + _PASSING)
        own = numbers[: len(tasks)]
        return cls(
            dict(zip(own, tasks, strict=True)),
            dict(zip(tasks, own, strict=True)),
            numbers[len(tasks) :],
        )


@attrs.frozen
class SparkPlan:
    """A topology over topics of known partition counts; small, and sent to every worker."""

    #: ``module:attribute`` of the application.
    reference: str
    #: Subtopologies that need neither state nor records of another partition.
    mapped: frozenset[int]
    stages: tuple[SparkStage, ...]
    #: Subtopology that reads a topic.
    readers: Mapping[str, int]
    #: Topics between two subtopologies, which exist only in the query.
    inside: frozenset[str]
    #: Partitions of every topic read, those inside included.
    counts: Mapping[str, int]
    #: Partitions of topics outside that a partitioner of the user's writes.
    out_counts: Mapping[str, int] = attrs.field(factory=dict)
    #: Partitioners of topics that are read, those inside included, where not the default.
    partitioners: Mapping[str, str] = attrs.field(factory=dict)
    #: What topics outside take.
    written: WrittenTopics = attrs.field(factory=WrittenTopics)

    def address(self, stage: int, topic: str, partition: int, sender: str) -> int:
        """The group in which a stage finds records; what is not for it goes to one handed on."""
        if stage >= len(self.stages):
            return 0
        to = self.stages[stage]
        if partition >= 0:
            group = to.group_of.get(TaskId(self.readers[topic], partition))
            if group is not None:
                return group
        # All of a sender's in one: they stay in order.
        return to.passing[crc32(sender.encode()) % len(to.passing)]

    def check(self, where: TopicPartition) -> None:
        """Refuse a partition that came later: it has no task, and keys lie elsewhere since then.

        Raises:
            StateError: it did.
        """
        count = self.counts[where.topic]
        if where.partition >= count:
            raise StateError(_more_partitions(where.topic, count, f"a partition {where.partition}"))


def plan(
    reference: str,
    topology: Topology,
    source_counts: Mapping[str, int],
    out_counts: Mapping[str, int] | None = None,
) -> SparkPlan:
    """Lay out a topology.

    Args:
        reference: ``module:attribute`` of the application.
        topology: of the application.
        source_counts: partitions of every source topic.
        out_counts: partitions of the topics that a partitioner of the user's writes.

    Raises:
        TopologyError: partition counts do not fit, or subtopologies write in a circle.
        MissingTopicError: ``source_counts`` lacks a topic.
    """
    counts = topology.partition_counts(source_counts)
    inside = frozenset(topology.repartition_topics)
    mapped = mapped_by(topology)
    levels = _levels(topology, inside, mapped)
    stages = []
    for number in range(1 + max(levels.values(), default=-1)):
        tasks = [
            TaskId(part.id, partition)
            for part in topology.subtopologies
            if levels.get(part.id) == number
            for partition in range(part.task_count(counts))
        ]
        stages.append(SparkStage.of(tasks))
    return SparkPlan(
        reference,
        mapped,
        tuple(stages),
        readers_of(topology),
        inside,
        counts,
        dict(out_counts or {}),
        partitioners_of(topology),
    )


def check_counts(planned: Mapping[str, Sized], there: Mapping[str, int]) -> None:
    """Refuse topics with more partitions than were planned, by the partitions of each.

    Raises:
        StateError: naming the first of them.
    """
    for topic, partitions in planned.items():
        if there.get(topic, 0) > len(partitions):
            raise StateError(_more_partitions(topic, len(partitions), str(there[topic])))


def _more_partitions(topic: str, count: int, now: str) -> str:
    return (
        f"{topic} had {counted(count, 'partition')} when the query was planned and now has {now}: "
        "the query must start again, with a new checkpoint"
    )


def partitioners_of(topology: Topology) -> dict[str, str]:
    """The partitioner of each topic that is read and not written by the default one."""
    parts = topology.subtopologies
    read = {t: one.partitioner for part in parts for one in part.sources for t in one.topics}
    inside = {
        sink.topic: sink.by_key for part in parts for sink in part.sinks if sink.topic in read
    }
    return {topic: name for topic, name in {**read, **inside}.items() if name != DEFAULT}


def readers_of(topology: Topology) -> dict[str, int]:
    """The subtopology that reads each topic."""
    return {topic: part.id for part in topology.subtopologies for topic in part.input_topics}


def mapped_by(topology: Topology) -> frozenset[int]:
    """Subtopologies whose tasks can run where the records are read."""
    inside = frozenset(topology.repartition_topics)
    return frozenset(part.id for part in topology.subtopologies if _maps(part, inside))


def _maps(subtopology: Subtopology, inside: frozenset[str]) -> bool:
    """True if each of its tasks has one partition, and none a state."""
    topics = subtopology.input_topics
    return not subtopology.stateful and len(topics) == 1 and topics[0] not in inside


def _levels(topology: Topology, inside: frozenset[str], mapped: frozenset[int]) -> dict[int, int]:
    """The stage of each subtopology that is not mapped: behind all that write to it."""
    writers = {
        part.id: {
            other.id
            for other in topology.subtopologies
            if inside.intersection(part.input_topics).intersection(other.output_topics)
        }
        for part in topology.subtopologies
    }
    levels = dict.fromkeys(mapped, -1)
    waiting = [part.id for part in topology.subtopologies if part.id not in mapped]
    while waiting:
        ready = [number for number in waiting if writers[number] <= levels.keys()]
        if not ready:
            raise TopologyError(_circle(topology, inside, waiting))
        for number in ready:
            levels[number] = 1 + max((levels[writer] for writer in writers[number]), default=-1)
            waiting.remove(number)
    return {number: level for number, level in levels.items() if level >= 0}


def _circle(topology: Topology, inside: frozenset[str], waiting: list[int]) -> str:
    parts = [part for part in topology.subtopologies if part.id in waiting]
    topics = sorted(
        {topic for part in parts for topic in part.output_topics}
        & {topic for part in parts for topic in part.input_topics}
        & inside
    )
    operators = ", ".join(_operators_below(parts, topics))
    found = f"{operators} by way of {', '.join(topics)}"
    return f"{topology.application}: {REFUSALS['circles'].message([found])}"


def _operators_below(parts: list[Subtopology], topics: list[str]) -> list[str]:
    """The operators that read these topics first."""
    return sorted(
        {
            child
            for part in parts
            for source in part.sources
            if set(topics).intersection(source.topics)
            for child in part.children(source.name)
        }
    )
