"""Joins by foreign keys where a topology may have no circles, as in a query of Spark.

The two sides of such a join write to each other, so the subtopologies of its tables depend on each
other. With a *detour* the rows of a table reach the join as copies, through a topic of their own,
and no more by the table's store. So the join is in another subtopology than the table:

    left table ──▶ subscriptions ──▶ right table ──▶ answers ──▶ join
        └───────────────────── copies ───────────────────────────▶┘
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from streamlet.topology.graph import Topology
from streamlet.topology.nodes import Detour, ForeignJoin
from streamlet.topology.subtopologies import Node, Subtopology, split


def without_circles(topology: Topology) -> Topology:
    """The topology with detours for its joins by foreign keys; itself if it has none.

    Each left table has one, and each right table whose subtopology would depend on itself else.
    Subtopologies may still depend on each other, because of other operators. Their numbers are not
    those of the topology.
    """
    if not topology.foreign_joins:
        return topology
    found = _with_detours(topology, [join.left for join in topology.foreign_joins])
    circles = [join.right for join in topology.foreign_joins if _in_circle(found, join)]
    return _with_detours(found, circles) if circles else found


def _in_circle(topology: Topology, join: ForeignJoin) -> bool:
    """True if what the right table's subtopology writes comes to the one that asks it."""
    asking = _part_with(topology, join.subscribe)
    waiting, met = [_part_with(topology, join.keep)], set[int]()
    inside = {*topology.repartition_topics}
    while waiting:
        part = waiting.pop()
        if part is asking:
            return True
        if part.id not in met:
            met.add(part.id)
            written = inside.intersection(part.output_topics)
            waiting += [one for one in topology.subtopologies if written & {*one.input_topics}]
    return False


def _part_with(topology: Topology, name: str) -> Subtopology:
    parts = topology.subtopologies
    return next(part for part in parts if any(node.name == name for node in part.processors))


def _with_detours(topology: Topology, detours: Iterable[Detour]) -> Topology:
    """The topology with the nodes of detours, of which some replace others."""
    parts = topology.subtopologies
    nodes: dict[str, Node] = {}
    for part in parts:
        for some in (part.sources, part.processors, part.sinks):
            nodes |= {node.name: node for node in some}
    stores = {spec.name: spec for part in parts for spec in part.stores}
    topics = {topic.name: topic for part in parts for topic in part.repartitions}
    for detour in detours:
        nodes |= {node.name: node for node in detour.nodes}
        stores[detour.store.name] = detour.store
        topics[detour.topic.name] = detour.topic
    found = split(topology.application, _parents_first(nodes), stores, topics)
    return attrs.evolve(topology, subtopologies=found)


def _parents_first(nodes: Mapping[str, Node]) -> list[Node]:
    placed: dict[str, Node] = {}

    def place(node: Node) -> None:
        if node.name not in placed:
            for parent in node.parents:
                place(nodes[parent])
            placed[node.name] = node

    for node in nodes.values():
        place(node)
    return list(placed.values())
