"""The topics of a ``TopologyTestDriver``: their partitions, what was written, how it is encoded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from streamlet.absent import explains_misuse
from streamlet.errors import ConfigError, NotFoundError
from streamlet.kafka.placements import DEFAULT, place
from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.processing.outputs import Output
from streamlet.serdes import Serde
from streamlet.serdes import serde as serde_of
from streamlet.topology.graph import Topology
from streamlet.types import TopicPartition
from streamlet.user_code import listed, shown


@explains_misuse
@dataclass(frozen=True, slots=True)
class OutputRecord:
    """A record that the application wrote, decoded; many are rows of ``pandas.DataFrame``.

    ``timestamp`` is in ms since the epoch. ``partition`` is the one that the partitioner chose, or
    that Kafka's default partitioner gives the key; None where the producer may take any, which is
    where a record without a key goes to one of several.
    """

    key: Any
    value: Any
    timestamp: int
    headers: Headers | None = field(default=None, compare=False)
    partition: int | None = 0


class DriverTopics:
    """Topics that the application reads and writes, as lists.

    Args:
        topology: the application's.
        dead_letters: where records go that fail, as far as it is known.
        any_letters: whether a handler may name any other topic for them.
        given: partition counts; topics that are not in it have one, and repartition topics as many
            as follow from those of the topics that are read.

    Raises:
        ConfigError: a topic in ``given`` is neither read nor written.
        TopologyError: topics that need equal counts have others.
    """

    def __init__(
        self,
        topology: Topology,
        dead_letters: Set[str],
        given: Mapping[str, int],
        *,
        any_letters: bool,
    ) -> None:
        parts = topology.subtopologies
        self._topology = topology
        #: Repartition topics.
        self.ours = frozenset(topology.repartition_topics)
        #: Topics that are read, repartition topics included.
        self.read = frozenset(topic for part in parts for topic in part.topics_among(given)) | {
            table.topic for table in topology.global_tables
        }
        written = {topic for part in parts for topic in part.output_topics} - self.ours
        #: Topics that are written, dead letters included, repartition topics not.
        self.written = written | dead_letters
        by_record = any(sink.by_record for part in parts for sink in part.sinks)
        #: Whether topics are chosen for single records, so that any name may come.
        self.any_written = by_record or any_letters
        self.counts = self._counted(given)
        self._next_offset: dict[TopicPartition, int] = {}
        self._records: dict[str, deque[OutputRecord]] = {}

    def _counted(self, given: Mapping[str, int]) -> dict[str, int]:
        problems = []
        for topic, count in given.items():
            if topic in self.ours:
                problems.append(f"{shown(topic)} has as many partitions as the topics before it")
            elif topic not in self.read | self.written and not self.any_written:
                application = self._topology.application
                problems.append(f"{shown(topic)} is neither read nor written by {application}")
            elif count < 1:
                problems.append(f"{shown(topic)} cannot have {count} partitions")
        if problems:
            raise ConfigError([f"partitions=: {problem}" for problem in problems])
        names = self._topology.source_topics_among(given)
        sources = {topic: given.get(topic, 1) for topic in names}
        if not sources.keys() & given.keys():  # a task of each subtopology will do
            return {**dict.fromkeys(self.read, 1), **given}
        counted = self._topology.partition_counts(sources)
        return {**dict.fromkeys(self.read, 1), **given, **counted}

    # Input.

    def batches(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        headers: Sequence[Headers | None] | None = None,
        partitions: Sequence[int] | None = None,
    ) -> list[PartitionBatch]:
        """Records as they are read, a batch for each partition; the key decides about theirs.

        Those without a key are in partition 0.
        """
        if partitions is None:
            partitions = [0 if key is None else self._placed(topic, key) for key in keys]
        found = []
        for partition in dict.fromkeys(partitions):
            of = [index for index, place in enumerate(partitions) if place == partition]
            where = TopicPartition(topic, partition)
            first = self._next_offset.get(where, 0)
            self._next_offset[where] = first + len(of)
            found.append(
                PartitionBatch(
                    topic,
                    partition,
                    range(first, first + len(of)),
                    [keys[index] for index in of],
                    [values[index] for index in of],
                    [timestamps[index] for index in of],
                    None if headers is None else [headers[index] for index in of],
                )
            )
        return found

    def check_partition(self, topic: str, partition: int | None) -> None:
        """Refuse a partition that a topic does not have.

        Raises:
            NotFoundError: it has not.
        """
        count = self.counts.get(topic, 1)
        if partition is not None and not 0 <= partition < count:
            raise NotFoundError(f"{shown(topic)} has no partition {partition}; it has {count}")

    # Output.

    def take(self, out: Output) -> list[PartitionBatch]:
        """Keep written records; those of topics that the application reads are also input."""
        if out.topic not in self.ours:
            partitions: Sequence[int | None] = out.partitions or [
                self._default(out.topic, key) for key in out.keys
            ]
            headers = out.headers or [None] * len(out.keys)
            columns = zip(out.keys, out.values, out.timestamps, headers, partitions, strict=True)
            kept = self._records.setdefault(out.topic, deque())
            kept.extend(OutputRecord(*record) for record in columns)
        if out.topic not in self.read:
            return []
        columns_of = out.topic, out.keys, out.values, out.timestamps, out.headers
        return self.batches(*columns_of, out.partitions)

    def produced(self) -> list[str]:
        """Names of the topics that were written, sorted."""
        return sorted(self._records)

    def taken(
        self, topic: str, decoded: Callable[[OutputRecord], OutputRecord]
    ) -> list[OutputRecord]:
        """The records written since the last call; all are kept if one cannot be decoded.

        Raises:
            NotFoundError: the application does not write the topic.
        """
        if topic not in self.written and not self.any_written:
            application = self._topology.application
            known = listed(sorted(self.written)) or "no topic"
            raise NotFoundError(f"{application} does not write {shown(topic)}; it writes {known}")
        kept = self._records.get(topic, deque())
        records = list(map(decoded, kept))
        kept.clear()
        return records

    def serdes(self, topic: str) -> tuple[Serde[Any], Serde[Any]]:
        """Serdes that the application writes a topic with; bytes where no sink is known."""
        sinks = [sink for part in self._topology.subtopologies for sink in part.sinks]
        own = [sink for sink in sinks if sink.topic == topic]
        if topic not in self.written:
            own += [sink for sink in sinks if sink.by_record]
        return (own[0].key, own[0].value) if own else (serde_of(bytes), serde_of(bytes))

    def _default(self, topic: str, key: bytes | None) -> int | None:
        """The partition that Kafka's default partitioner gives a key; None if it may be any."""
        if key is not None:
            return self._placed(topic, key)
        return 0 if self.counts.get(topic, 1) == 1 else None

    def _placed(self, topic: str, key: bytes) -> int:
        return place(self._partitioner(topic))(key, self.counts.get(topic, 1))

    def _partitioner(self, topic: str) -> str:
        """The partitioner by which a topic is written, as its source or the default says."""
        parts = self._topology.subtopologies
        sources = (one for part in parts for one in part.sources if one.reads(topic))
        return next((one.partitioner for one in sources), DEFAULT)
