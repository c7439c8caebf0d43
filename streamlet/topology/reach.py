"""The topics that the records of an operator may come to within a subtopology."""

from __future__ import annotations

from streamlet.topology.nodes import ProcessorNode, SinkNode
from streamlet.topology.subtopologies import Subtopology


def timed_before(part: Subtopology, topic: str) -> ProcessorNode | None:
    """The first operator whose results come at times of their own, and may reach a topic."""
    timed = (node for node in part.processors if node.timed and reaches(part, node, topic))
    return next(timed, None)


def reaches(part: Subtopology, start: ProcessorNode, topic: str) -> bool:
    """True if records of an operator may reach a topic, or change those that do by a store."""
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
