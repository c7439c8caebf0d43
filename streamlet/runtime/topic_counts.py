"""Compares partitions of internal topics with those that they would be made with now."""

from __future__ import annotations

from collections.abc import Mapping

from streamlet.counted import counted
from streamlet.errors import TopologyError
from streamlet.kafka.ports import NewTopic
from streamlet.topology.graph import Topology


def check_count(topology: Topology, topic: NewTopic, counts: Mapping[str, int]) -> None:
    """Refuse a number of tasks that differs from that of the state or of a topic between tasks.

    Raises:
        TopologyError: ``topic``, as it would be made now, exists with other partitions.
    """
    found = counts.get(topic.name)
    if found is None or found == topic.partitions:
        return
    if found > topic.partitions and _had_more(topology, topic.name):
        return
    sources = [name for name in _behind(topology, topic.name) if counts[name] == topic.partitions]
    partitions = counted(topic.partitions, "partition")
    raise TopologyError(
        f"{' and '.join(sources) or 'the topology'} has {partitions}, but "
        f"{topic.name} was made for {found}: keys would meet the state of other keys. Run the "
        "application under another id, or stop all its instances and give streamlet reset "
        "module:attribute: both begin without state. With repartition(partitions=...) in front of "
        "its stores the number of an application's tasks does not follow its input any more"
    )


def _had_more(topology: Topology, changelog: str) -> bool:
    """True if a topic that is gone may have had as many partitions as a changelog has.

    Keys of the others meet the state of the same keys as before.
    """
    return any(
        part.patterns and changelog in part.changelog_topics for part in topology.subtopologies
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
