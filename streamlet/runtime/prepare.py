"""Checks before the first record: are the topics there, do they fit, did the topology change?

Runs in every process that starts; creating a topic that another process creates at the same moment
is not an error.
"""

from __future__ import annotations

from streamlet.errors import TopologyError
from streamlet.kafka.ports import Admin, NewTopic
from streamlet.topology.graph import Topology
from streamlet.topology.internal_topics import internal_topics
from streamlet.topology.moved import check_moved


def prepare_topics(topology: Topology, admin: Admin, *, replication: int = -1) -> dict[str, int]:
    """Create the internal topics that are missing; partition counts of all topics of the topology.

    Raises:
        BrokerError: the broker does not answer.
        MissingTopicError: a source topic does not exist.
        TopologyError: counts do not match, an unnamed store has moved, or an internal topic stems
            from another number of partitions.
    """
    existing = admin.topics()
    counts = {name: info.partitions for name, info in existing.items()}
    wanted = internal_topics(topology, counts, replication)
    check_moved(topology, topology.application, tuple(existing))
    for topic in wanted:
        _check_count(topic, counts.get(topic.name))
    admin.create_topics([topic for topic in wanted if topic.name not in counts])
    return {**counts, **{topic.name: topic.partitions for topic in wanted}}


def _check_count(topic: NewTopic, found: int | None) -> None:
    if found is not None and found != topic.partitions:
        raise TopologyError(
            f"internal topic {topic.name} has {found} partitions but the topology needs "
            f"{topic.partitions}: its source topic was given other partitions. Keys would meet "
            "the wrong state; give streamlet reset module:attribute to begin anew, or give the "
            "source topic its old count back"
        )
