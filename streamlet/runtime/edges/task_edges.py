"""The edges of one task: the filters before its inputs, and the writer of its own prefixes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from streamlet.group.commit_metadata import InputNote
from streamlet.kafka.ports import PartitionBatch
from streamlet.runtime.edges.filter import KINDS, EdgeFilter
from streamlet.runtime.edges.writer import Agreement, EdgeWriter
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import TopicPartition


class TaskEdges:
    """The edges that lead to a task, and those that begin there.

    Args:
        part: what the task does.
        notes: of its input partitions, as of the positions it begins at.
        edges: number of each of its input partitions (``records.edge_of``).
        prefixed: partitions of each repartition topic whose records bear a prefix.
        headed: partitions of each output topic whose records bear their origins in a header.
        agreement: of the group.
    """

    def __init__(
        self,
        part: Subtopology,
        notes: Mapping[TopicPartition, InputNote],
        edges: Mapping[TopicPartition, int],
        prefixed: Mapping[str, int],
        headed: Mapping[str, int],
        agreement: Agreement,
    ) -> None:
        self._notes = dict(notes)
        between = {topic.name for topic in part.repartitions}
        self._filters = {
            tp: EdgeFilter(note, buffered=len(notes) > 1)
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
