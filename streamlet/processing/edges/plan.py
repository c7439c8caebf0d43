"""The edges of an application as one worker sees them, and the edges of each task.

Which topics bear prefixes, and whose; the filters before a task's inputs, and the writer of its own
prefixes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import attrs

from streamlet.coordinator.commit_metadata import InputNote
from streamlet.kafka.ports import PartitionBatch
from streamlet.logs import get_logger
from streamlet.processing.edges.filter import KINDS, EdgeFilter
from streamlet.processing.edges.records import edge_of, source_of
from streamlet.processing.edges.writer import Agreement, EdgeWriter
from streamlet.topology.edges import MOST_SOURCES, edges_of, sources_into
from streamlet.topology.graph import Topology
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import TopicPartition

log = get_logger(__name__)

_OFF = "repartition.exact is false"


class TaskEdges:
    """The edges that lead to a task, and those that begin there.

    Args:
        part: what the task does.
        notes: of its input partitions, as of the positions it begins at.
        edges: number of each of its input partitions (``records.edge_of``).
        prefixed: partitions of each repartition topic whose records bear a prefix.
        headed: partitions of each output topic whose records bear their origins in a header.
        agreement: of the group.
        sources: those that lead to each repartition topic (``records.source_of``).
    """

    def __init__(
        self,
        part: Subtopology,
        notes: Mapping[TopicPartition, InputNote],
        edges: Mapping[TopicPartition, int],
        prefixed: Mapping[str, int],
        headed: Mapping[str, int],
        agreement: Agreement,
        sources: Mapping[str, Collection[int]],
    ) -> None:
        self._notes = dict(notes)
        between = {topic.name for topic in part.repartitions}
        self._filters = {
            tp: EdgeFilter(note, buffered=len(notes) > 1, sources=sources[tp.topic])
            for tp, note in notes.items()
            if tp.topic in between
        }
        counts = {**prefixed, **headed}
        writes = {topic: counts[topic] for topic in part.output_topics if topic in counts}
        self.writer = EdgeWriter(writes, edges, headed, agreement) if writes else None

    @property
    def notes(self) -> dict[TopicPartition, InputNote]:
        """The notes of a commit of the positions reached."""
        return self._notes | {tp: one.note for tp, one in self._filters.items()}

    @property
    def dropped(self) -> dict[str, int]:
        """Records that did not count, by kind (``edges.filter``)."""
        found = Counter(dict.fromkeys(KINDS, 0))
        for one in self._filters.values():
            found.update(one.dropped)
        return found

    def take(self, raw: PartitionBatch) -> PartitionBatch:
        """The records of a batch that are new, as they were before they got a prefix."""
        one = self._filters.get(TopicPartition(raw.topic, raw.partition))
        return raw if one is None else one.take(raw)

    def advance(self, positions: Mapping[TopicPartition, int]) -> None:
        """Note which of the records taken were processed."""
        for tp, one in self._filters.items():
            one.advance(positions[tp])

    def skip(self, partition: TopicPartition, offset: int) -> None:
        """Expect a gap in an input partition: its records before ``offset`` are skipped."""
        if partition in self._filters:
            self._filters[partition].skip(offset)


class EdgePlan:
    """Knowledge that tasks begin with: the notes on their inputs, and the numbers of their edges.

    Args:
        topology: the application's.
        counts: partitions of every topic.
        topic_ids: of the topics that tasks read.
        exact: ``repartition.exact``.
    """

    def __init__(
        self,
        topology: Topology,
        counts: Mapping[str, int],
        topic_ids: Mapping[str, str],
        *,
        exact: bool,
    ) -> None:
        self._topology = topology
        self._counts = dict(counts)
        self._ids = dict(topic_ids)
        #: Partitions of the topics whose records we give an origin in a header.
        self._headed = {topic: counts[topic] for topic in topology.topics_with_origins}
        #: Whether the group agrees to prefixes: all its members can read them.
        self.agreement = Agreement()
        #: Partitions of the topics whose records we give a prefix.
        self._prefixed: dict[str, int] = {}
        #: The repartition topics, with the reasons why some are not exact.
        self.edges = tuple(
            attrs.evolve(edge, reason=edge.reason or self._collision(edge.topic) if exact else _OFF)
            for edge in edges_of(topology, counts if exact else None)
        )
        for edge in self.edges if exact else ():
            if edge.exact:
                self._prefixed[edge.topic] = counts[edge.topic]
            else:
                log.warning("%s is not exact: %s", edge.topic, edge.reason)

    def pruned(self, notes: Mapping[TopicPartition, InputNote]) -> dict[TopicPartition, InputNote]:
        """The notes of inputs without unneeded sources, where there are too many for a commit.

        Those are the sources that lead to the topic no longer.
        """
        return {
            tp: self._pruned(tp.topic, note) if len(note.applied) > MOST_SOURCES else note
            for tp, note in notes.items()
        }

    def of_task(
        self,
        part: Subtopology,
        notes: Mapping[TopicPartition, InputNote],
        topic_ids: Mapping[str, str],
    ) -> TaskEdges:
        """The edges of a task that begins with these notes; ``topic_ids`` as far as just read."""
        ids = {**self._ids, **topic_ids}
        edges = {
            tp: edge_of(tp, ids.get(tp.topic, ""), note.incarnation) for tp, note in notes.items()
        }
        sources = {topic.name: self._sources(topic.name) for topic in part.repartitions}
        return TaskEdges(part, notes, edges, self._prefixed, self._headed, self.agreement, sources)

    def _sources(self, topic: str) -> list[int]:
        return [
            source_of(TopicPartition(name, partition), self._ids.get(name, ""))
            for name in sources_into(self._topology, topic)
            for partition in range(self._counts[name])
        ]

    def _collision(self, topic: str) -> str | None:
        sources = self._sources(topic)
        same = len(sources) - len(set(sources))
        return f"{same} of its input partitions have the same number" if same else None

    def _pruned(self, topic: str, note: InputNote) -> InputNote:
        sources = set(self._sources(topic))
        applied = {edge: at for edge, at in note.applied.items() if edge >> 32 in sources}
        return attrs.evolve(note, applied=applied, loose=note.loose & applied.keys())
