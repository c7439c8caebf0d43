"""The nodes and topics that records may come to within a subtopology."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from streamlet.topology.nodes import ProcessorNode, SinkNode
from streamlet.topology.subtopologies import Node, Subtopology


def timed_before(subtopology: Subtopology, topic: str) -> ProcessorNode | None:
    """The first operator whose results come at times of their own, and may reach a topic."""
    return first_before(subtopology, (one for one in subtopology.processors if one.timed), topic)


def answers_before(subtopology: Subtopology, topic: str) -> str | None:
    """The first topic of a join by foreign keys whose records may reach a topic."""
    follows = {one.name for one in subtopology.repartitions if one.follows}
    found = (source for source in subtopology.sources if follows & {*source.topics})
    return next((one.topics[0] for one in found if reaches(subtopology, one, topic)), None)


def global_before(subtopology: Subtopology, topic: str) -> ProcessorNode | None:
    """The first operator that looks into a global table, and whose results may reach a topic."""
    return first_before(subtopology, (one for one in subtopology.processors if one.globals), topic)


def joined_before(subtopology: Subtopology, topic: str) -> ProcessorNode | None:
    """The first operator whose results may reach a topic and are those of two streams that meet.

    None where all records come from one topic, in whose order they meet.
    """
    if len(subtopology.input_topics) == 1 and not subtopology.patterns:
        return None
    stores = {spec.name for spec in subtopology.stores if spec.join}
    joins = (node for node in subtopology.processors if stores & {*node.reads})
    return first_before(subtopology, joins, topic)


def first_before(
    subtopology: Subtopology, nodes: Iterable[ProcessorNode], topic: str
) -> ProcessorNode | None:
    """The first of these operators whose results may reach a topic."""
    return next((node for node in nodes if reaches(subtopology, node, topic)), None)


def reaches(subtopology: Subtopology, start: Node, topic: str) -> bool:
    """True if records of a node may reach a topic, directly or through a store."""
    met: set[str] = set()
    waiting = [start.name]
    while waiting:
        node = subtopology.node(waiting.pop())
        if node.name in met:
            continue
        met.add(node.name)
        if isinstance(node, SinkNode) and node.topic == topic:
            return True
        waiting += subtopology.below(node.name)
        if isinstance(node, ProcessorNode):
            written = {*node.stores} - {*node.reads}
            waiting += [one.name for one in subtopology.processors if written & {*one.stores}]
    return False


def with_all_below(subtopology: Subtopology, names: Collection[str]) -> set[str]:
    """The names of these nodes, and of all that their records may come to without a store."""
    found, waiting = set(names), list(names)
    while waiting:
        new = {*subtopology.below(waiting.pop())} - found
        found |= new
        waiting += new
    return found
