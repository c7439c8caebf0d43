"""Says of each repartition topic how state behind it counts each record once.

Where a task that processes again what it had processed writes the same records, their origins tell
repetitions (``processing/edges/writer``). Anywhere else records wait for the commit of the task
that wrote them (``processing/edges/held_writer``).
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from streamlet.topology.graph import Topology
from streamlet.topology.reach import first_before, global_before, reaches
from streamlet.topology.subtopologies import Subtopology

#: Most input partitions whose records may meet in one partition of a repartition topic: what a
#: reader notes of each of them goes into its commit metadata, of which a broker takes 4,096 bytes.
MOST_SOURCES = 128


@attrs.frozen
class Edge:
    """One repartition topic between the subtopologies that write it and the one that reads it.

    Attributes:
        topic: its name.
        reason: why its records wait for a commit, or are plain; None: they need not wait.
        plain: whether a crash may count a record behind it twice.
        follows: whether its records wait only because others before them do.
    """

    topic: str
    reason: str | None = None
    plain: bool = False
    follows: bool = False

    @property
    def exact(self) -> bool:
        """True if each record counts once behind it, and none waits for that."""
        return self.reason is None

    @property
    def after_commit(self) -> bool:
        """True if each record counts once behind it, after the commit of the task that wrote it."""
        return self.reason is not None and not self.plain

    @property
    def kind(self) -> str:
        """The words for it: ``plain``, ``exact``, or ``exact after commit``."""
        return "plain" if self.plain else "exact" if self.exact else "exact after commit"


def edges_of(topology: Topology, counts: Mapping[str, int] | None = None) -> tuple[Edge, ...]:
    """The edges of a topology, by topic.

    Args:
        topology: the application's.
        counts: partitions of its input topics; None: not known, no limit is checked.
    """
    topics = {topic.name: topic for part in topology.subtopologies for topic in part.repartitions}
    found = {
        name: Edge(name, "plain by wish", plain=True)
        if one.plain
        else Edge(name, _reason(topology, name, counts))
        for name, one in sorted(topics.items())
    }
    while waiting := _behind_others(topology, found):
        found |= waiting
    return tuple(found.values())


def sources_into(topology: Topology, topic: str) -> tuple[str, ...]:
    """The topics whose records lead to a repartition topic."""
    writers = [part for part in topology.subtopologies if topic in part.output_topics]
    return tuple(sorted({name for part in writers for name in _topics_before(part, topic)}))


def _behind_others(topology: Topology, found: Mapping[str, Edge]) -> dict[str, Edge]:
    """Edges that must wait because records wait before them: those come in another order then."""
    waiting = {name for name, edge in found.items() if edge.after_commit}
    behind = {
        name: sorted(waiting.intersection(sources_into(topology, name)))
        for name, edge in found.items()
        if edge.exact
    }
    return {
        name: Edge(
            name,
            f"behind {before[0]}, whose records come in the order of commits",
            follows=True,
        )
        for name, before in behind.items()
        if before
    }


def _reason(topology: Topology, topic: str, counts: Mapping[str, int] | None) -> str | None:
    """The reason why origins do not tell repetitions in a topic; None: they do."""
    if counts is not None:
        sources = sum(counts[name] for name in sources_into(topology, topic))
        if sources > MOST_SOURCES:
            return f"records of {sources} input partitions meet in it, {MOST_SOURCES} at most can"
    for part in topology.subtopologies:
        if topic not in part.output_topics:
            continue
        if part.patterns:
            return f"the topics that match {' and '.join(part.patterns)} may change"
        varies = (one for one in part.processors if one.timed or not one.deterministic)
        varying = first_before(part, varies, topic)
        if varying is not None:
            timed = varying.timed
            why = f"results come {timed}" if timed else "function is non_deterministic()"
            return (
                f"behind {varying.name}, whose {why}: read again after a crash, the same records "
                "may become other records"
            )
        looking = global_before(part, topic)
        if looking is not None:
            return (
                f"behind {looking.name}, which looks into the global table "
                f"{' and '.join(looking.globals)}: read again after a crash, the same records may "
                "meet newer rows and become other records"
            )
        leading = _topics_before(part, topic)
        if part.stateful and len(leading) > 1:
            return (
                f"subtopology {part.id} has a store and reads {', '.join(leading)}: read again "
                "after a crash, their records may meet in another order and become other records"
            )
    return None


def _topics_before(subtopology: Subtopology, topic: str) -> list[str]:
    """The input topics whose records may reach a topic, or change those that do.

    By a store; or all inputs, where an operator may ask for the stream time that they move.
    """
    if any(not node.alone and reaches(subtopology, node, topic) for node in subtopology.processors):
        return list(subtopology.input_topics)
    sources = (source for source in subtopology.sources if reaches(subtopology, source, topic))
    return [name for source in sources for name in source.topics]
