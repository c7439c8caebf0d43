"""Adds repartition topics to a topology, with the nodes around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from streamlet.dsl.graph import presence
from streamlet.dsl.operators.stateless import DropNullKeys, PassOn
from streamlet.serdes import Serde
from streamlet.topology.graph import Graph
from streamlet.topology.nodes import (
    InternalTopic,
    Partitions,
    ProcessorNode,
    SinkNode,
    SourceNode,
)
from streamlet.topology.operator import OperatorFactory
from streamlet.topology.optimization import MergeableRepartition


@attrs.frozen(eq=False)
class Repartition:
    """A topic to send a stream through, so that records of one key meet in one task.

    ``counted``: its reader asks only whether a record has a value. ``plain``: others read it too.
    ``table``: it has the changes of a grouped table, whose fold was ``given`` a name or not.
    ``mergeable``: it may be merged with others (``topology.optimization``).
    """

    prefix: str
    key: Serde[Any]
    value: Serde[Any]
    named: bool
    partitions: int | None = None
    counted: bool = False
    plain: bool = False
    partitioner: Callable[[Any, Any, int], Partitions] | None = None
    table: bool = False
    given: str | None = None
    mergeable: bool = False


@attrs.define(eq=False)
class NullKeyRequest:
    """The request of a join behind a repartition topic for records without a key."""

    wanted: bool = False


def add_repartition(
    graph: Graph,
    parent: str,
    how: Repartition,
    topic: str,
    names: tuple[str, str, str],
    nulls: NullKeyRequest,
) -> None:
    """Add a topic below a node; ``names`` are those of the filter, the sink and the source."""
    filter_, sink, source = names
    graph.add_repartition(
        InternalTopic(topic, "repartition", how.partitions, named=how.named, plain=how.plain)
    )

    def filtering(name: str, keep: bool) -> OperatorFactory:
        return lambda context: PassOn() if keep or nulls.wanted else DropNullKeys(name, context)

    make = filtering(filter_, False)
    graph.add_processor(ProcessorNode(filter_, (parent,), make, alone=True, values="passed on"))
    values = how.value, how.value
    if how.counted:
        values = presence.written(how.value), presence.read(how.value)
    graph.add_sink(SinkNode(sink, (filter_,), topic, how.key, values[0], how.partitioner))
    graph.add_source(SourceNode(source, (topic,), how.key, values[1]))
    if how.mergeable:
        graph.mergeable.append(
            MergeableRepartition(
                *(topic, *names, how.key, how.value), lambda: nulls.wanted, filtering
            )
        )
