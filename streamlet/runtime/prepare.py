"""Checks before the first record: are the topics there, do they fit, did the topology change?

Runs in every process that starts; creating a topic that another process creates at the same moment
is not an error.
"""

from __future__ import annotations

from collections.abc import Mapping

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
        _check_count(topology, topic, counts)
    admin.create_topics([topic for topic in wanted if topic.name not in counts])
    return {**counts, **{topic.name: topic.partitions for topic in wanted}}


def _check_count(topology: Topology, topic: NewTopic, counts: Mapping[str, int]) -> None:
    """Refuse another number of tasks than the state, or a topic between tasks, was made for."""
    found = counts.get(topic.name)
    if found is None or found == topic.partitions:
        return
    sources = [name for name in _behind(topology, topic.name) if counts[name] == topic.partitions]
    raise TopologyError(
        f"{' and '.join(sources) or 'the topology'} has {topic.partitions} partitions, but "
        f"{topic.name} was made for {found}: keys would meet the state of other keys. Run the "
        "application under another id, or stop all its instances and give streamlet reset "
        "module:attribute: both begin without state. With repartition(partitions=...) in front of "
        "its stores the number of an application's tasks does not follow its input any more"
    )


def _behind(topology: Topology, internal: str) -> list[str]:
    """The application's source topics whose partitions an internal topic's follow."""
    found: list[str] = []
    waiting = [
        part
        for part in topology.subtopologies
        if internal in (*part.changelog_topics, *part.output_topics)
    ]
    seen = set()
    while waiting:
        part = waiting.pop()
        seen.add(part.id)
        found += [topic for topic in part.input_topics if topic in topology.source_topics]
        between = {topic.name for topic in part.repartitions}
        waiting += [
            other
            for other in topology.subtopologies
            if other.id not in seen and between.intersection(other.output_topics)
        ]
    return sorted(set(found))
