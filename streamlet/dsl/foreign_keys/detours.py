"""The nodes of a topic with copies of a table's rows, for a join by foreign keys elsewhere."""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import attrs

from streamlet.dsl.foreign_keys import wire, wire_columns
from streamlet.dsl.foreign_keys.copies import CopiedRows, HeldChanges, PackedRows, ReplacedRows
from streamlet.dsl.graph.table_node import TableNode
from streamlet.dsl.graph.uses import TableUse
from streamlet.dsl.joins.joined_rows import TableRows
from streamlet.dsl.operators.copies import owner
from streamlet.dsl.rows.sources import TableSource
from streamlet.serdes import Serde
from streamlet.state.store_specs import StoreSpec
from streamlet.topology.nodes import Detour, InternalTopic, ProcessorNode, SinkNode, SourceNode
from streamlet.topology.operator import TaskContext


@attrs.frozen(eq=False)
class CopiedTable:
    """A table whose rows reach a join as copies.

    Args:
        table: the table.
        name: the beginning of the names of nodes, store and topic.
        serdes: of its keys and values.
    """

    table: TableNode
    name: str
    serdes: tuple[Serde[Any], Serde[Any]]
    _replaced: WeakKeyDictionary[TaskContext, ReplacedRows] = attrs.field(
        factory=WeakKeyDictionary, init=False
    )

    @property
    def changes(self) -> str:
        """The node that sends one change of each row with a commit."""
        return f"{self.name}-changes"

    @property
    def store(self) -> str:
        """The store of the copies."""
        return f"{self.name}-rows"

    @property
    def copies(self) -> str:
        """The node that writes the store, and hands the copies on as changes."""
        return f"{self.name}-copies"

    def rows(self, context: TaskContext) -> TableRows:
        """The copies in a task."""
        return TableRows(context.store(self.store), (), (), owner(self.serdes[1]))

    def replaced(self, context: TaskContext) -> ReplacedRows:
        """The rows that later copies replaced in the batch that a task processes."""
        found = self._replaced.get(context)
        if found is None:
            found = self._replaced[context] = ReplacedRows(wire.digests(self.serdes[1]))
        return found

    def detour(self, *nodes: ProcessorNode, held: bool) -> Detour:
        """The detour with these nodes behind it.

        Args:
            nodes: that replace those of the topology.
            held: whether it has one change of each row and batch, ahead of other records.
        """
        builder, (key, value) = self.table.builder, self.serdes
        packed, sink, source = (f"{self.name}-{end}" for end in ("packed", "sink", "source"))
        raw, copied = wire.opaque(f"copies of {value.name}"), partial(self._copied, held=held)
        # By the first of the characters that names of topics have, before those with equal times.
        topic = f"{builder.application}--{self.name}"
        parent = self.changes if held else self.table.name
        changes = builder.node(self.changes, (self.table.name,), self._held, timed="at commits")
        return Detour(
            InternalTopic(topic, "repartition"),
            StoreSpec(self.store, key, value, logged=False),
            (
                *((changes,) if held else ()),
                builder.node(packed, (parent,), lambda at: PackedRows(packed, at, value, held)),
                SinkNode(
                    sink, (packed,), topic, key, raw, partitions_of=wire_columns.partitions_of
                ),
                SourceNode(source, (topic,), key, raw),
                builder.node(self.copies, (source,), copied, writes=self.store, by_key=True),
                *nodes,
            ),
        )

    def _held(self, context: TaskContext) -> HeldChanges:
        return HeldChanges(self.changes, context, *self.serdes)

    def _copied(self, context: TaskContext, held: bool) -> CopiedRows:
        table = TableSource(context.store(self.store), self.serdes[1], TableUse(olds=held))
        return CopiedRows(table, self.replaced(context) if held else None)
