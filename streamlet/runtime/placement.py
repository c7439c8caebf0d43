"""Looks whether the keys of input topics lie where their partitioners put them.

A producer with another partitioner puts a key into another partition: no record of it meets those
of its key in a topic that streamlet writes, and none the state that a backfill has made of files.
Keys in another form than streamlet writes, as JSON with spaces, have other bytes, and so lie
elsewhere, too. None of it is an error that any record shows. So of each partition the first records
with keys are looked at, where it matters:

- the topic is joined with one that streamlet writes by key;
- it is joined with another topic of the user's whose keys do lie where they should;
- a backfill has read files in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import attrs

from streamlet.errors import SerdeError
from streamlet.kafka.placements import DEFAULT, is_anywhere, place
from streamlet.kafka.ports import PartitionBatch
from streamlet.logs import get_logger
from streamlet.runtime.catalog import Catalog
from streamlet.runtime.control_link import ControlLink
from streamlet.serdes.serde import Serde
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.meters import Meters
from streamlet.topology.copartition import joined_sources
from streamlet.topology.graph import Topology
from streamlet.topology.nodes import SourceNode
from streamlet.types import TopicPartition

log = get_logger(__name__)

#: Records with keys that are looked at of each partition.
SAMPLE = 1_000
#: So many records tell: of those that lie elsewhere, or of another topic where none does.
ENOUGH = 10


def placement_check(catalog: Catalog, link: ControlLink | None, meters: Meters) -> PlacementCheck:
    """The samples of a worker over what it knows of topics and of resets."""
    return PlacementCheck(
        catalog.topology,
        partitions=lambda topic: catalog.counts.get(topic, 1),
        filled=lambda: () if link is None else link.view.reset.filled,
        count=lambda topic, number: meters.misplaced.update({topic: number}),
    )


@attrs.define
class _Sample:
    """Records looked at, and those of them that lie elsewhere."""

    seen: int = 0
    elsewhere: int = 0


@attrs.define
class PlacementCheck:
    """The samples of one worker.

    Args:
        topology: the application's.
        partitions: how many a topic has now.
        filled: the topics in whose place a backfill has read files.
        count: told the topic and number of records that lie elsewhere.
    """

    _topology: Topology
    _partitions: Callable[[str], int]
    _filled: Callable[[], Collection[str]]
    _count: Callable[[str, int], None]
    _left: dict[TopicPartition, int] = attrs.field(factory=dict, init=False)
    _samples: dict[str, _Sample] = attrs.field(factory=dict, init=False)
    _findings: dict[str, str] = attrs.field(factory=dict, init=False)
    #: Names of joined sources, whether streamlet writes one of their group, and that group.
    _joined: dict[str, tuple[bool, tuple[SourceNode, ...]]] = attrs.field(init=False)

    @_joined.default
    def _groups(self) -> dict[str, tuple[bool, tuple[SourceNode, ...]]]:
        topology = self._topology
        sinks = [sink for part in topology.subtopologies for sink in part.sinks]
        ours = {*topology.repartition_topics}
        # Answers of joins by foreign keys go back to the partition that a row came from.
        by_key = {
            one.topic
            for one in sinks
            if one.topic in ours and not (one.partitioner or one.partitions_of)
        }
        return {
            source.name: (any(by_key.intersection(one.topics) for one in group), group)
            for part in topology.subtopologies
            for group in joined_sources(part)
            if len(group) > 1
            for source in group
            if not ours.intersection(source.topics)
        }

    def look(self, active: ActiveTask, batch: PartitionBatch) -> None:
        """Look at the keys of a batch, unless enough of its partition were looked at."""
        where = TopicPartition(batch.topic, batch.partition)
        left = self._left.get(where, SAMPLE)
        if not left:
            if self._findings and not active.misplaced:  # a task that was away
                active.misplaced = self._findings.get(batch.topic, "")
            return
        source = active.subtopology.source_of(batch.topic)
        joined = self._joined.get(source.name)
        filled = active.subtopology.stateful and batch.topic in self._filled()
        if joined is None and not filled:
            return
        keys = [key for key in batch.keys if not is_anywhere(source.partitioner, key)][:left]
        self._left[where] = left - len(keys)
        elsewhere = self._elsewhere(source, source.partitioner, _written(source, keys), where)
        sample = self._samples.setdefault(batch.topic, _Sample())
        sample.seen += len(keys)
        sample.elsewhere += elsewhere
        if not elsewhere:
            active.misplaced = active.misplaced or self._findings.get(batch.topic, "")
            return
        if self._matters(sample, joined, filled):
            known = batch.topic in self._findings
            self._count(batch.topic, elsewhere if known else sample.elsewhere)
            self._tell(active, source, keys, where)

    def _elsewhere(
        self,
        source: SourceNode,
        partitioner: str,
        keys: list[bytes | None],
        where: TopicPartition,
    ) -> int:
        """The number of keys that a partitioner puts into another partition."""
        count, placed = self._partitions(where.topic), place(partitioner)
        window = getattr(source.key, "window_bytes", 0)  # the window of a key does not count
        bases = (key[: len(key) - window] for key in keys if key is not None)
        return sum(placed(base, count) != where.partition for base in bases)

    def _matters(
        self, sample: _Sample, joined: tuple[bool, tuple[SourceNode, ...]] | None, filled: bool
    ) -> bool:
        if sample.elsewhere < ENOUGH:
            return False
        if filled or (joined is not None and joined[0]):
            return True
        others = (self._samples.get(t) for one in joined[1] for t in one.topics) if joined else ()
        return any(one and one.seen >= ENOUGH and not one.elsewhere for one in others)

    def _tell(
        self,
        active: ActiveTask,
        source: SourceNode,
        keys: list[bytes | None],
        where: TopicPartition,
    ) -> None:
        topic = where.topic
        if topic not in self._findings:
            puts, remedy = self._remedy(source, keys, where)
            sample = self._samples[topic]
            self._findings[topic] = (
                f"{topic}: {sample.elsewhere} of {sample.seen} records "
                f"({100 * sample.elsewhere // sample.seen} %) are not in the partition where "
                f"{source.partitioner} {puts}, so they do not meet the other records and "
                f"the state of their keys. {remedy}"
            )
            log.warning("%s", self._findings[topic])
        active.misplaced = self._findings[topic]

    def _remedy(
        self, source: SourceNode, keys: list[bytes | None], where: TopicPartition
    ) -> tuple[str, str]:
        """The end of the finding's sentence, on what the partitioner does, and the remedy."""
        own = source.partitioner
        pairs = zip(keys, _written(source, keys), strict=True)
        form = next((pair for pair in pairs if pair[0] != pair[1]), None)
        if form is not None and not self._elsewhere(source, own, keys, where):
            return (
                f"puts their keys as streamlet writes them, {form[1]!r:.60} for {form[0]!r:.60}",
                "Read it with stream(), or to_stream() of its table, and send it through "
                "repartition() and to_table() before the join",
            )
        names = DEFAULT, "consistent_random", "fnv1a_random"
        fitting = [name for name in names if not self._elsewhere(source, name, keys, where)]
        name = fitting[0] if fitting else "consistent_random"
        return "puts their keys", (
            f'Give its producer "partitioner": "{own}" and write the topic again, '
            f'or read it with partitioner="{name}"'
            + (", by which it is written" if fitting else ", if it is written by that")
        )


def _written(source: SourceNode, keys: list[bytes | None]) -> list[bytes | None]:
    """The keys as streamlet writes them to its own topics."""
    serde = source.key
    if serde is None or not serde.many_forms:
        return keys
    return [None if key is None else _rewritten(serde, key) for key in keys]


def _rewritten(serde: Serde[Any], key: bytes) -> bytes:
    try:
        return serde.encode(serde.decode(key))
    except SerdeError:
        return key  # an error of its record, which is dealt with where the record is read
