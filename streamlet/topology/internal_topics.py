"""The topics streamlet makes for a topology, with their settings."""

from __future__ import annotations

from collections.abc import Mapping

from streamlet.kafka.ports import NewTopic
from streamlet.topology.graph import Topology

#: One hour. A record of a stale owner may be the last of its key in a changelog; as long as
#: compaction does not run, the good one below it is still there for the next owner to find.
MIN_COMPACTION_LAG_MS = 3_600_000

#: 50 MiB, as in Kafka Streams: small enough that purged records leave the disk soon.
REPARTITION_SEGMENT_BYTES = 52_428_800

CHANGELOG_CONFIG = (
    ("cleanup.policy", "compact"),
    ("min.compaction.lag.ms", str(MIN_COMPACTION_LAG_MS)),
)

#: Records go when they were committed (the worker deletes them), never by age.
REPARTITION_CONFIG = (
    ("cleanup.policy", "delete"),
    ("retention.ms", "-1"),
    ("segment.bytes", str(REPARTITION_SEGMENT_BYTES)),
)


def internal_topics(
    topology: Topology, source_counts: Mapping[str, int], replication: int = -1
) -> tuple[NewTopic, ...]:
    """All topics to create before the topology runs, repartition topics first.

    A changelog has as many partitions as its subtopology has tasks. ``replication`` -1 leaves the
    factor to the broker.

    Raises:
        TopologyError: as ``Topology.partition_counts``.
        MissingTopicError: as ``Topology.partition_counts``.
    """
    counts = topology.partition_counts(source_counts)
    repartitions = [
        NewTopic(name, counts[name], replication, REPARTITION_CONFIG)
        for name in topology.repartition_topics
    ]
    changelogs = [
        NewTopic(name, counts[part.input_topics[0]], replication, CHANGELOG_CONFIG)
        for part in topology.subtopologies
        for name in part.changelog_topics
    ]
    return (*repartitions, *changelogs)
