"""Joins of a stream with itself: one store in place of two, as Kafka Streams does it (KIP-862)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streamlet.config.optimizations import SINGLE_STORE_SELF_JOIN
from streamlet.topology.optimization import InnerJoin, Optimization
from streamlet.topology.subtopologies import Node


def with_single_stores(
    nodes: Mapping[str, Node], joins: Iterable[InnerJoin]
) -> tuple[dict[str, Node], list[Optimization]]:
    """The nodes with one store for each join whose sides are one stream, and what was left out."""
    found, changes = dict(nodes), []
    for join in joins:
        above, others = (found[name].parents for name in join.windowed)
        if above != others:
            continue
        for gone in (join.windowed[1], *join.sides):
            del found[gone]
        found[join.alone.name] = join.alone
        changes.append(Optimization(SINGLE_STORE_SELF_JOIN, join.stores[0], join.stores[1:]))
    return found, changes
