"""Merges repartition topics: one behind a change of keys, in place of one for each use.

    select_key ─┬─ [topic] ── count             select_key ── [topic] ─┬─ count
                └─ filter ── [topic] ── reduce                         └─ filter ── reduce

As Kafka Streams does it, under the names that it gives. What is between the change of keys and a
topic is moved behind the merged one, so it must neither change keys or values nor have a store.
Where Kafka Streams would move more than that, and results would differ, the topics stay. Nothing is
moved for a single topic either, in which records may wait that did not come to what is moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeAlias, cast

import attrs

from streamlet.config.optimizations import MERGE_REPARTITION_TOPICS
from streamlet.topology.nodes import ProcessorNode, SinkNode, SourceNode
from streamlet.topology.optimization import MergeableRepartition, Optimization
from streamlet.topology.subtopologies import Node, serde_name

#: Nodes by name, parents first.
Nodes: TypeAlias = Mapping[str, Node]


def with_merged_topics(
    application: str, nodes: Nodes, mergeable: Iterable[MergeableRepartition]
) -> tuple[dict[str, Node], list[Optimization]]:
    """The nodes with merged repartition topics, and what was merged."""
    groups: dict[str, list[MergeableRepartition]] = {}
    for one in mergeable:
        anchor = _anchor(nodes, one)
        if anchor is not None:
            groups.setdefault(anchor, []).append(one)
    found, changes = _with_whole_values(nodes, chain.from_iterable(groups.values())), []
    for anchor in [name for name in nodes if name in groups]:  # in order of creation
        merge = _merge(application, found, anchor, groups[anchor])
        if merge is None:
            continue
        found = merge.applied(found)
        kept, *replaced = (one.topic for one in merge.topics)
        if replaced:
            changes.append(Optimization(MERGE_REPARTITION_TOPICS, kept, tuple(replaced)))
    return found, changes


def _with_whole_values(nodes: Nodes, topics: Iterable[MergeableRepartition]) -> dict[str, Node]:
    """The nodes, where each topic has its values also if its reader does not need them.

    Another use of it may be added later, while records wait.
    """
    found = dict(nodes)
    for one in topics:
        sink, source = cast("SinkNode", nodes[one.sink]), cast("SourceNode", nodes[one.source])
        found[one.sink] = attrs.evolve(sink, value=one.value)
        found[one.source] = attrs.evolve(source, value=one.value)
    return found


def _anchor(nodes: Nodes, one: MergeableRepartition) -> str | None:
    """The node behind which a merged topic would be; None: values change in between.

    It is the first one above that changes keys, or in which streams meet.
    """
    above = nodes[one.filter]
    while True:
        assert isinstance(above, ProcessorNode)
        name = above.parents[0]
        above = nodes[name]
        if not isinstance(above, ProcessorNode) or above.results == "others":
            return None
        if above.results == "rekeyed" or len(above.parents) > 1:
            return name


def _merge(
    application: str, nodes: Nodes, anchor: str, topics: Sequence[MergeableRepartition]
) -> _Merge | None:
    """The merge behind one node of the topics for which it can be done; None: there are none."""
    moves = [_Move.of(nodes, anchor, one) for one in topics]
    while True:
        filters = {move.topic.filter for move in moves}
        moved = {move.head: _below(nodes, move.head, filters) for move in moves}
        inside = {anchor}.union(*moved.values())
        good = [move for move in moves if _may_move(nodes, moved[move.head], inside)]
        if len(good) == len(moves):
            break
        moves = good
    if len({(serde_name(move.topic.key), serde_name(move.topic.value)) for move in moves}) != 1:
        return None  # there is none, or their types differ
    leading = {name for one in moved.values() for name in one}
    if leading and len(moves) == 1:
        return None
    return _Merge(application, anchor, tuple(moves), frozenset(leading))


def _below(nodes: Nodes, head: str, ends: set[str]) -> set[str]:
    """A node and all that its records come to, without those at which this ends."""
    found = {head} - ends
    for node in nodes.values():
        if node.name not in ends and found.intersection(node.parents):
            found.add(node.name)
    return found


def _may_move(nodes: Nodes, moved: Iterable[str], inside: set[str]) -> bool:
    """True if no node has a store, asks its task for more than records, or has other parents."""
    found = [nodes[name] for name in moved]
    return all(inside.issuperset(node.parents) for node in found) and not any(
        isinstance(node, ProcessorNode) and (node.stores or not node.alone) for node in found
    )


@attrs.frozen(eq=False)
class _Move:
    """A topic that goes: the child of the anchor that leads to it, and the node in front of it."""

    topic: MergeableRepartition
    head: str
    last: str

    @classmethod
    def of(cls, nodes: Nodes, anchor: str, topic: MergeableRepartition) -> _Move:
        """The move of a topic below a node."""
        way = [topic.filter]
        while way[-1] != anchor:
            way.append(nodes[way[-1]].parents[0])
        return cls(topic, way[-2], way[1])


@attrs.frozen(eq=False)
class _Merge:
    """One topic in place of others; ``leading`` are the nodes that are moved behind it."""

    application: str
    anchor: str
    moves: tuple[_Move, ...]
    leading: frozenset[str]

    @property
    def topics(self) -> tuple[MergeableRepartition, ...]:
        """The topics, that which stays first."""
        return tuple(move.topic for move in self.moves)

    def applied(self, nodes: Nodes) -> dict[str, Node]:
        """The nodes with the merged topic."""
        gone = {name for one in self.topics for name in (one.filter, one.sink, one.source)}
        new = self._repartition(nodes)
        behind = new[-1].name
        above = {
            move.topic.source: behind if move.last == self.anchor else move.last
            for move in self.moves
        }
        heads = {move.head for move in self.moves}
        found: dict[str, Node] = {}
        for node in nodes.values():
            if node.name in gone:
                continue
            if not isinstance(node, SourceNode):
                parents = tuple(above.get(name, name) for name in node.parents)
                if node.name in heads:
                    parents = (behind,)
                node = attrs.evolve(node, parents=parents)
            found[node.name] = node
            if node.name == self.anchor:
                found |= {one.name: one for one in new}
        return found

    def _repartition(self, nodes: Nodes) -> tuple[Node, Node, Node]:
        """The filter, the sink and the source of the merged topic, under Kafka Streams' names."""
        first = self.topics[0]
        own = first.topic.removeprefix(f"{self.application}-")
        filter_ = cast("ProcessorNode", nodes[first.filter])
        sink, source = cast("SinkNode", nodes[first.sink]), cast("SourceNode", nodes[first.source])
        # What leads to the topics saw records without a key, too; those behind leave them out.
        keep = bool(self.leading) or any(one.keeps_null_keys() for one in self.topics)
        name = f"{own}-filter"
        return (
            attrs.evolve(
                filter_, name=name, parents=(self.anchor,), factory=first.filtering(name, keep)
            ),
            attrs.evolve(sink, name=f"{own}-sink", parents=(name,)),
            attrs.evolve(source, name=f"{own}-source"),
        )
