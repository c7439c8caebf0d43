"""The nodes and topics that records may come to within a subtopology."""

from __future__ import annotations

from collections.abc import Collection

from streamlet.topology.nodes import ProcessorNode, SinkNode
from streamlet.topology.subtopologies import Node, Subtopology


def timed_before(part: Subtopology, topic: str) -> ProcessorNode | None:
    """The first operator whose results come at times of their own, and may reach a topic."""
    timed = (node for node in part.processors if node.timed and reaches(part, node, topic))
    return next(timed, None)


def answers_before(part: Subtopology, topic: str) -> str | None:
    """The first topic of a join by foreign keys whose records may reach a topic."""
    follows = {one.name for one in part.repartitions if one.follows}
    found = (source for source in part.sources if follows & {*source.topics})
    return next((one.topics[0] for one in found if reaches(part, one, topic)), None)


def global_before(part: Subtopology, topic: str) -> ProcessorNode | None:
    """The first operator that looks into a global table, and whose results may reach a topic."""
    looking = (node for node in part.processors if node.globals and reaches(part, node, topic))
    return next(looking, None)


def joined_before(part: Subtopology, topic: str) -> ProcessorNode | None:
    """The first operator whose results may reach a topic and are those of two streams that meet.

    None where all records come from one topic, in whose order they meet.
    """
    if len(part.input_topics) == 1 and not part.patterns:
        return None
    stores = {spec.name for spec in part.stores if spec.join}
    joins = (node for node in part.processors if stores & {*node.reads})
    return next((node for node in joins if reaches(part, node, topic)), None)


def reaches(part: Subtopology, start: Node, topic: str) -> bool:
    """True if records of a node may reach a topic, directly or through a store."""
    met: set[str] = set()
    waiting = [start.name]
    while waiting:
        node = part.node(waiting.pop())
        if node.name in met:
            continue
        met.add(node.name)
        if isinstance(node, SinkNode) and node.topic == topic:
            return True
        waiting += part.below(node.name)
        if isinstance(node, ProcessorNode):
            written = {*node.stores} - {*node.reads}
            waiting += [one.name for one in part.processors if written & {*one.stores}]
    return False


def with_all_below(part: Subtopology, names: Collection[str]) -> set[str]:
    """The names of these nodes, and of all that their records may come to without a store."""
    found, waiting = set(names), list(names)
    while waiting:
        new = {*part.below(waiting.pop())} - found
        found |= new
        waiting += new
    return found
