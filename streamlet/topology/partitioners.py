"""Partitioners of topics that are joined: equal ones, which repartition topics follow.

A record of a joined topic meets those of its key only if both lie in the same partition. How a
topic of the user's is written, ``partitioner=`` of its source says. What streamlet writes itself
goes where that of the topic beside it would put it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from streamlet.errors import TopologyError
from streamlet.kafka.placements import DEFAULT
from streamlet.topology.copartition import joined_sources
from streamlet.topology.nodes import SinkNode, SourceNode
from streamlet.topology.subtopologies import Node, Subtopology


def with_partitioners(nodes: Mapping[str, Node], parts: Iterable[Subtopology]) -> dict[str, Node]:
    """The nodes, with sinks of repartition topics that put keys as the topics beside these do.

    Raises:
        TopologyError: topics that are joined are written by different partitioners.
    """
    wanted = _wanted(parts)
    return {
        name: attrs.evolve(node, by_key=wanted[node.topic])
        if isinstance(node, SinkNode) and wanted.get(node.topic, DEFAULT) != DEFAULT
        else node
        for name, node in nodes.items()
    }


def _wanted(parts: Iterable[Subtopology]) -> dict[str, str]:
    """The partitioner of each repartition topic that is joined with a topic of the user's."""
    found: dict[str, str] = {}
    for part in parts:
        ours = {topic.name for topic in part.repartitions}
        for group in joined_sources(part):
            outside = [one for one in group if not ours.intersection(one.topics)]
            for one in outside[1:]:
                if one.partitioner != outside[0].partitioner:
                    raise TopologyError(
                        f"{_shown(outside[0])} and {_shown(one)} are joined: give both the same "
                        "partitioner=, that by which they are written, or send one of them through "
                        "repartition()"
                    )
            inside = [topic for one in group for topic in one.topics if topic in ours]
            if outside:
                found |= dict.fromkeys(inside, outside[0].partitioner)
    return found


def _shown(source: SourceNode) -> str:
    what = ", ".join(source.topics) if source.pattern is None else source.pattern.pattern
    return f"{what} (partitioner={source.partitioner!r})"
