"""The edges of an application as one worker sees them, and the edges of each task.

Which topics bear prefixes, and whose; the filters before a task's inputs, and the writer of its own
prefixes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

import attrs

from streamlet.coordinator.commit_metadata import METADATA_MAX_BYTES, InputNote
from streamlet.coordinator.commit_texts import longest_text
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.edges.agreement import Agreement
from streamlet.processing.edges.filter import KINDS, EdgeFilter
from streamlet.processing.edges.forms import OriginForms
from streamlet.processing.edges.held_reader import HeldReader
from streamlet.processing.edges.held_records import task_of, writer_of
from streamlet.processing.edges.held_writer import HeldWriter
from streamlet.processing.edges.records import edge_of, source_of
from streamlet.processing.edges.start import Start
from streamlet.processing.edges.undecided import Undecided
from streamlet.processing.edges.writer import EdgeWriter
from streamlet.processing.edges.writer_keys import WriterKeys
from streamlet.topology.edges import MOST_SOURCES, Edge, edges_of, sources_into
from streamlet.topology.graph import Topology
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import TaskId, TopicPartition

#: End of a partition as far as it is known; None: not known yet.
KnownEnd = Callable[[TopicPartition], int | None]

_OFF = "repartition.exact is false"


class TaskEdges:
    """The edges that lead to a task, and those that begin there.

    Args:
        subtopology: what the task does.
        positions: of its input partitions, where it begins.
        notes: of these positions.
        writer: writes its own edges; None: there are none.
        sources: those that lead to each repartition topic (``records.source_of``).
        writers: the subtopologies whose tasks write to each of these.
        keys: of these tasks.
        ordered: the repartition topics that are released in the order of their offsets.
    """

    def __init__(
        self,
        subtopology: Subtopology,
        positions: Mapping[TopicPartition, int],
        notes: Mapping[TopicPartition, InputNote],
        writer: EdgeWriter | None,
        sources: Mapping[str, Collection[int]],
        writers: Mapping[str, frozenset[int]],
        keys: WriterKeys,
        ordered: Collection[str] = (),
    ) -> None:
        self._notes = dict(notes)
        between = {topic.name for topic in subtopology.repartitions}
        self._filters = {
            tp: EdgeFilter(note, buffered=len(notes) > 1, sources=sources[tp.topic])
            for tp, note in notes.items()
            if tp.topic in between
        }
        self._readers = {
            tp: HeldReader(
                *(notes[tp], positions[tp], one, keys, writers[tp.topic]),
                ordered=tp.topic in ordered,
            )
            for tp, one in self._filters.items()
        }
        self.writer = writer
        #: The time of the present step, ms.
        self.now_ms = 0

    @property
    def held(self) -> HeldWriter | None:
        """The writer of its records that wait for their commit; None: there are none."""
        return None if self.writer is None else self.writer.held

    @property
    def silent(self) -> bool:
        """True if the task may write nothing, until a claim or a commit is accepted."""
        held, writer = self.held, self.writer
        return (held is not None and held.silent) or (writer is not None and writer.forms.silent)

    @property
    def blocked(self) -> bool:
        """True if the task is to begin no batch."""
        held, writer = self.held, self.writer
        return (held is not None and held.blocked) or (writer is not None and writer.forms.silent)

    @property
    def notes(self) -> dict[TopicPartition, InputNote]:
        """The notes of a commit of the positions reached."""
        return self._notes | {tp: one.note for tp, one in self._readers.items()}

    @property
    def dropped(self) -> dict[str, int]:
        """Records that did not count, by kind (``edges.filter``, ``edges.held_reader``)."""
        found = Counter(dict.fromkeys((*KINDS, "uncommitted", "forged"), 0))
        for tp, one in self._filters.items():
            found.update(one.dropped)
            found.update(self._readers[tp].dropped)
        return found

    @property
    def readers(self) -> Mapping[TopicPartition, HeldReader]:
        """Its readers of repartition topics."""
        return self._readers

    @property
    def markers(self) -> int | None:
        """Markers written; None: it writes no records that wait."""
        return None if self.held is None else self.held.markers_sent

    @property
    def waiting(self) -> int | None:
        """Records held that wait for the commit of their writer; None: it reads no such topic."""
        return sum(one.held for one in self._readers.values()) if self._readers else None

    def waits_for(self, longer_ms: int) -> tuple[TaskId, int] | None:
        """The writer whose commit is waited for longest, and so many ms; None: not so long."""
        oldest = (
            min((found[1], found[0]) for one in self._readers.values() if (found := one.oldest))
            if self.waiting
            else None
        )
        if oldest is None or self.now_ms - oldest[0] < longer_ms:
            return None
        return task_of(oldest[1]), self.now_ms - oldest[0]

    def take(self, raw: PartitionBatch) -> tuple[PartitionBatch, int]:
        """The records to process of a batch, as they were before they got a prefix.

        Their offsets are places (``edges.held_reader``), and so is the other result, which is the
        position of the task once they are processed.
        """
        one = self._readers.get(TopicPartition(raw.topic, raw.partition))
        return (raw, raw.offsets[-1] + 1) if one is None else one.take(raw, self.now_ms)

    @property
    def may_go_on(self) -> bool:
        """True if ``more`` has something in it."""
        return any(one.may_go_on for one in self._readers.values())

    def more(self) -> list[PartitionBatch]:
        """Batches without records, of partitions where more is known by now of what was read."""
        found = [tp for tp, one in self._readers.items() if one.may_go_on]
        return [PartitionBatch(*tp, range(0), [], [], []) for tp in found]

    def advance(self, positions: Mapping[TopicPartition, int]) -> None:
        """Note which of the records taken were processed."""
        for tp, one in self._readers.items():
            one.advance(positions[tp])

    def committable(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The positions that a commit may write where the task is at these."""
        readers = self._readers
        return {
            tp: readers[tp].position(at) if tp in readers else at for tp, at in positions.items()
        }

    def at(self, now_ms: int, known_end: KnownEnd) -> KnownEnd:
        """Begin a step at this time; the ends of partitions as numbers to compare with places."""
        self.now_ms = now_ms
        readers = self._readers

        def found(partition: TopicPartition) -> int | None:
            end, one = known_end(partition), readers.get(partition)
            return end if end is None or one is None else one.end(end)

        return found if readers else known_end

    def skip(self, partition: TopicPartition, offset: int, *, lost: bool) -> int:
        """Expect a gap in an input partition, up to ``offset``.

        Args:
            partition: which.
            offset: behind the gap.
            lost: records were there, and are skipped; else there were none, or aborted ones.

        Returns:
            The place behind the gap.
        """
        one = self._readers.get(partition)
        return offset if one is None else one.skip(offset, lost=lost)


class EdgePlan:
    """Knowledge that tasks begin with: the notes on their inputs, and the numbers of their edges.

    Args:
        topology: the application's.
        counts: partitions of every topic.
        topic_ids: of the topics that tasks read.
        exact: ``repartition.exact``.
        transactions: tasks commit by transactions: what they write counts with their commits, so
            they go on with prefixes and bases only for what was written without transactions.
        timeout_ms: ``session.timeout.ms``.
    """

    def __init__(
        self,
        topology: Topology,
        counts: Mapping[str, int],
        topic_ids: Mapping[str, str],
        *,
        exact: bool,
        transactions: bool = False,
        timeout_ms: int = 0,
    ) -> None:
        exact = exact and not transactions
        self._timeout_ms = timeout_ms
        #: The repartition topics that may have records in the forms of earlier commits.
        self._between = frozenset(topology.repartition_topics)
        self._topology = topology
        self._counts = dict(counts)
        self._ids = dict(topic_ids)
        #: Partitions of the topics whose records we give an origin in a header.
        self._headed = {topic: counts[topic] for topic in topology.topics_with_origins}
        #: What the group agrees to: all its members can read it.
        self.agreement = Agreement()
        #: Of the tasks that write records that wait.
        self.keys = WriterKeys()
        #: What those of this worker wrote, as far as it waits.
        self.undecided = Undecided()
        self._exact = exact
        #: Partitions of the topics whose records we give a prefix.
        self._prefixed: dict[str, int] = {}
        found = [
            attrs.evolve(edge, reason=edge.reason or self._collision(edge.topic)) if exact else edge
            for edge in edges_of(topology, counts if exact else None)
        ]
        #: Partitions of the topics whose records wait for their commit.
        self._held = {
            edge.topic: counts[edge.topic]
            for edge in found
            if edge.after_commit and edge.topic in counts and not transactions
        }
        #: The repartition topics, with the reasons why records of some wait or are plain.
        self.edges = tuple(
            edge if exact or edge.plain else Edge(edge.topic, _OFF, plain=True) for edge in found
        )
        for edge in found if exact else ():
            if edge.exact or edge.follows:
                self._prefixed[edge.topic] = counts[edge.topic]
        #: The topics that are read in the order of their offsets.
        self.ordered = frozenset(
            topic.name
            for part in topology.subtopologies
            for topic in part.repartitions
            if topic.name in self._held and self._in_order(part, topic.name)
        )

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
        subtopology: Subtopology,
        positions: Mapping[TopicPartition, int],
        notes: Mapping[TopicPartition, InputNote],
        topic_ids: Mapping[str, str],
        start: Start,
    ) -> TaskEdges:
        """The edges of a task that begins at these positions, with these notes.

        ``topic_ids`` as far as just read.
        """
        read = {topic.name for topic in subtopology.repartitions}
        sources = {topic: self._sources(topic) for topic in read}
        writer = self._writer(subtopology, notes, topic_ids, start)
        writers = {topic: self._writers_of(topic) for topic in read}
        noted = {tp.topic for tp, note in notes.items() if note.held}
        for topic in read & (self._held.keys() | noted):
            self.keys.expect(self._tasks_of(writers[topic]))
        # Origins are made of offsets, as places have to be then, also where some waited before.
        ordered = read if self._orderly(subtopology, start) else read - self._held.keys()
        facts = writer, sources, writers, self.keys, self.ordered | ordered
        return TaskEdges(subtopology, positions, notes, *facts)

    def _writers_of(self, topic: str) -> frozenset[int]:
        """The subtopologies whose tasks write to a topic."""
        return frozenset(
            one.id for one in self._topology.subtopologies if topic in one.output_topics
        )

    def _tasks_of(self, subtopologies: Collection[int]) -> list[int]:
        return [
            writer_of(TaskId(number, partition))
            for number in subtopologies
            for partition in range(self._topology.subtopology(number).task_count(self._counts))
        ]

    def _writer(
        self,
        subtopology: Subtopology,
        notes: Mapping[TopicPartition, InputNote],
        topic_ids: Mapping[str, str],
        start: Start,
    ) -> EdgeWriter | None:
        begun = self._begun(subtopology, start)
        counts = {**self._prefixed, **self._headed, **{one: self._counts[one] for one in begun}}
        writes = {topic: counts[topic] for topic in subtopology.output_topics if topic in counts}
        waits = {
            topic: self._held[topic] for topic in subtopology.output_topics if topic in self._held
        }
        # Where nothing waits any more, what did is still to be decided.
        written = self._between.intersection(subtopology.output_topics)
        tells = {one: self._counts[one] for one in written} if start.signs else waits
        if not writes and not tells:
            return None
        ids = {**self._ids, **topic_ids}
        edges = {
            tp: edge_of(tp, ids.get(tp.topic, ""), note.incarnation) for tp, note in notes.items()
        }
        agreement, held = self.agreement, None
        if tells:
            known = start.period, tells, agreement, self.keys, self.undecided
            held = HeldWriter(*known, exact=self._exact, holds=waits)
        wanted = self._prefixed.keys() & set(subtopology.output_topics)
        if not self._orderly(subtopology, start):
            wanted -= self._held.keys()
        forms = OriginForms(wanted, begun, agreement, held, self._timeout_ms)
        return EdgeWriter(writes, edges, self._headed, agreement, held, forms)

    def _begun(self, subtopology: Subtopology, start: Start) -> frozenset[str]:
        """The topics to which records bear origins as of the commit of a start."""
        return start.bearing(self._between.intersection(subtopology.output_topics))

    def _orderly(self, subtopology: Subtopology, start: Start) -> bool:
        """True if what is written may bear origins although records wait in what is read."""
        return bool(self._begun(subtopology, start)) or not self.agreement.held

    def _in_order(self, subtopology: Subtopology, topic: str) -> bool:
        """True if places in a topic are to be offsets: origins are made of them, or marks are many.

        Marks of writers have to fit into what a broker takes with a commit.
        """
        writers = [one for one in self._topology.subtopologies if topic in one.output_topics]
        count = sum(one.task_count(self._counts) for one in writers)
        between = len(self._between.intersection(subtopology.output_topics))
        size = longest_text(subtopology.changelog_topics, count, signs=True, between=between)
        if count > MOST_SOURCES or size > METADATA_MAX_BYTES:
            return True
        return any(sink.origin for sink in subtopology.sinks)

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
