"""Finds where order inside a batch can be seen from outside, so that the batch must be cut there.

The task sends a whole batch through one child of a node before the next. Record by record would be:
each record through all children, then the next record. The difference cannot be seen unless two
ways of a record meet again: in a node (a merge), in an output topic, or in a store that one of them
writes.

    fork ─┬─ map ────┐            fork: cut, `merge` must see a1 b1 a2 b2, not a1 a2 b1 b2
          └─ filter ─┴─ merge

    source ── table ── join       source: cut, `join` reads the store that `table` writes; with a
                                  batch, it would see the table as it is behind the batch

A cut node hands its output on in batches of one record.

Where the branches keep nothing and meet in one node, no cut is needed: the batch goes through each
branch as a whole, and what comes to that node is put back into the order of the records
(``processing.output_order``).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import attrs

from streamlet.topology.nodes import ProcessorNode, SinkNode
from streamlet.topology.subtopologies import Node, Subtopology

#: Topic of a sink that writes each record to a topic that is chosen for it.
ANY_TOPIC = ""


@attrs.frozen
class _Reach:
    """The nodes and stores that records of a node can get to, the node itself included."""

    nodes: frozenset[str]
    topics: frozenset[str]
    stores: frozenset[str]
    written: frozenset[str]

    def __or__(self, other: _Reach) -> _Reach:
        return _Reach(
            self.nodes | other.nodes,
            self.topics | other.topics,
            self.stores | other.stores,
            self.written | other.written,
        )

    def meets(self, other: _Reach) -> bool:
        """True if the order of two records that go different ways can be seen."""
        return bool(
            self.nodes & other.nodes
            or self.topics & other.topics
            or (ANY_TOPIC in self.topics and other.topics)
            or (ANY_TOPIC in other.topics and self.topics)
            or self.shares_store(other)
        )

    def shares_store(self, other: _Reach) -> bool:
        """True if one writes a store that the other reads or writes."""
        return bool(self.written & other.stores or other.written & self.stores)


@attrs.frozen
class Forks:
    """The forks whose branches meet again.

    Args:
        cut: nodes whose output must go on record by record.
        gathered: nodes whose output need not, each with the node in which its branches meet.
    """

    cut: frozenset[str]
    gathered: Mapping[str, str]


def forks_of(subtopology: Subtopology) -> Forks:
    """The forks of a subtopology at which the order inside a batch could be seen."""
    nodes: tuple[Node, ...] = (*subtopology.sources, *subtopology.processors, *subtopology.sinks)
    reach: dict[str, _Reach] = {}
    by_name = {node.name: node for node in nodes}
    for node in nodes:
        _reach(subtopology, by_name, node.name, reach)
    cut: set[str] = set()
    gathered: dict[str, str] = {}
    for node in nodes:
        pairs = combinations(subtopology.below(node.name), 2)
        meeting = {name for pair in pairs if reach[pair[0]].meets(reach[pair[1]]) for name in pair}
        if meeting:
            found = _meeting_node(subtopology, meeting, by_name, reach)
            if found is None:
                cut.add(node.name)
            else:
                gathered[node.name] = found
        below = [reach[child] for child in subtopology.below(node.name)]
        own = _own(node)
        if any(own.shares_store(other) for other in below):
            cut.update(node.parents)
    left = {fork: node for fork, node in gathered.items() if fork not in cut}
    return Forks(frozenset(cut), left)


def _meeting_node(
    subtopology: Subtopology, branches: set[str], by_name: dict[str, Node], reach: dict[str, _Reach]
) -> str | None:
    """The node in which all ways of these branches end that keep nothing; None: there is none."""
    common = frozenset.intersection(*(reach[one].nodes for one in branches))
    every = frozenset.union(*(reach[one].nodes for one in branches))
    for name in by_name:
        if name in common:
            behind = reach[name].nodes
            between = every - behind
            leaving = {child for one in between for child in subtopology.below(one)} - between
            nodes = [by_name[one] for one in between]
            if leaving <= {name} and all(
                isinstance(node, ProcessorNode) and node.keeps_nothing for node in nodes
            ):
                return name
    return None


def _reach(
    subtopology: Subtopology, by_name: dict[str, Node], name: str, reach: dict[str, _Reach]
) -> _Reach:
    if name not in reach:
        whole = _own(by_name[name])
        for child in subtopology.below(name):
            whole |= _reach(subtopology, by_name, child, reach)
        reach[name] = whole
    return reach[name]


def _own(node: Node) -> _Reach:
    none: frozenset[str] = frozenset()
    topics = frozenset({node.topic}) if isinstance(node, SinkNode) else none
    stores = frozenset(node.stores) if isinstance(node, ProcessorNode) else none
    written = stores - set(node.reads) if isinstance(node, ProcessorNode) else none
    return _Reach(frozenset({node.name}), topics, stores, written)
