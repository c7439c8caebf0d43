"""Leaves out the stores of tables of topics that nothing reads, as Kafka Streams does.

Such a table passes its topic's records on. Whether something reads its store is known once all
operators are: a join, a grouping, a processor that names it, or a reader of previous values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import attrs

from streamlet.topology.nodes import ProcessorNode
from streamlet.topology.subtopologies import Node


@attrs.frozen(eq=False)
class SourceTable:
    """A table of a topic whose store has no name of the user's.

    Args:
        store: its store.
        passing: its node without that store.
        wants_olds: tells if a reader needs the previous values, once all operators are known.
    """

    store: str
    passing: ProcessorNode
    wants_olds: Callable[[], bool]


def without_unread_stores(
    nodes: Mapping[str, Node], tables: Iterable[SourceTable]
) -> dict[str, Node]:
    """The nodes, in their order; those of tables whose stores nothing reads pass records on."""
    processors = [node for node in nodes.values() if isinstance(node, ProcessorNode)]
    read = {store for node in processors for store in node.reads}
    written = [store for node in processors for store in node.stores]
    passing = {
        table.passing.name: table.passing
        for table in tables
        if not table.wants_olds() and table.store not in read and written.count(table.store) == 1
    }
    return {**nodes, **passing}
