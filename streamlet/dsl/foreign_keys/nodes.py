"""The join of two tables by foreign keys: its nodes, topics and stores, named as by Kafka Streams.

The topics are repartition topics: one leads from the tasks of the left table to those of the right
one, and one back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import attrs

from streamlet.dsl.foreign_keys import wire, wire_columns
from streamlet.dsl.foreign_keys.copies import ReplacedRows
from streamlet.dsl.foreign_keys.detours import CopiedTable
from streamlet.dsl.foreign_keys.left_side import ForeignKey, JoinAnswers, Subscribe
from streamlet.dsl.foreign_keys.names import ForeignNames
from streamlet.dsl.foreign_keys.right_side import (
    AnswerChange,
    AnswerSubscriptions,
    KeepSubscriptions,
)
from streamlet.dsl.graph.builder import Builder
from streamlet.dsl.graph.functions import form_of, takes
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.graph.materialized import StoreLike
from streamlet.dsl.graph.one_app import same_app
from streamlet.dsl.graph.ownership import owner_for_reader, with_own_key
from streamlet.dsl.graph.table_node import TableFace, TableNode
from streamlet.dsl.graph.uses import TableUse
from streamlet.dsl.joins.joined_rows import TableRows
from streamlet.dsl.joins.joiner import Joiner, joiner_of
from streamlet.dsl.joins.table_table import rows_of
from streamlet.dsl.rows.sources import TableSource, ToTable
from streamlet.dsl.rows.versioned import for_newest
from streamlet.errors import TopologyError
from streamlet.serdes import Serde
from streamlet.state.store_specs import StoreSpec
from streamlet.topology.names import subscription_topic
from streamlet.topology.nodes import (
    Detour,
    ForeignJoin,
    InternalTopic,
    ProcessorNode,
    SinkNode,
    SourceNode,
)
from streamlet.topology.operator import TaskContext

_FORMS = (
    ("key", "foreign_key", "left", "right"),
    ("key", "left", "right"),
    ("left", "right"),
)

#: Rows of a table in a task.
_Rows: TypeAlias = Callable[[TaskContext], TableRows]

#: The reason why rows cannot expire in joins by foreign keys.
_NO_TTL = "rows find each other in other tasks, which have other stream times"


def joined_by_foreign_key(
    left: TableFace,
    right: TableFace,
    joiner: Any,
    foreign_key: Any,
    result: tuple[Any, StoreLike, str | None],
    keeps_left: bool,
) -> tuple[TableNode, Kind]:
    """The node of a join by foreign keys, and its values.

    ``result`` are the type of these, the store and the name that a user gave.

    Raises:
        TopologyError: one has windows, or a type is not known.
    """
    call = "left_join()" if keeps_left else "join()"
    one, other = left._node, right._node
    same_app(call, one.builder, other.builder)
    for node in (one, other):
        node.check_joins(f"{call}, foreign_key=")
    for rows in (*one.stores, *other.stores):
        spec = one.builder.graph.store(rows)
        if spec is not None and spec.ttl_ms is not None:
            raise TopologyError(f"{call}, foreign_key=: rows of {rows} expire (ttl=): {_NO_TTL}")
    asked = takes(f"{call}, foreign_key=", foreign_key, "key", "value")
    own = owner_for_reader(foreign_key, left._value, right._key)
    foreign = ForeignKey(with_own_key(foreign_key, left._key, asked == 2), asked, own)
    count = form_of(call, joiner, *_FORMS)
    for use in (one.use, other.use):
        use.want_olds()
    value, store, name = result
    keys = (left._key, right._key) if count == len(_FORMS[0]) else (left._key,)
    kinds = *keys, left._value, right._value
    made, kind = joiner_of(call, one.builder, joiner, kinds, count, value)
    serdes = _Serdes(
        left._key.needed(call, "key", takes=False),
        right._key.needed(call, "key", takes=False),
        left._value.needed(call, "value", takes=False),
        right._value.needed(call, "value", takes=False),
    )
    names, named = ForeignNames.of(one.builder, name), name is not None
    join = _ForeignJoin(one, other, serdes, foreign, made, keeps_left, names, named)
    return join.added(store, kind.needed(call, "value")), kind


@attrs.frozen
class _Serdes:
    """Serdes of the keys and values of both tables."""

    key: Serde[Any]
    foreign: Serde[Any]
    left: Serde[Any]
    right: Serde[Any]


@attrs.frozen
class _ForeignJoin:
    """A join by foreign keys, as it is added to a topology."""

    one: TableNode
    other: TableNode
    serdes: _Serdes
    foreign: ForeignKey
    joiner: Joiner
    keeps_left: bool
    names: ForeignNames
    named: bool

    def added(self, store: StoreLike, value: Serde[Any]) -> TableNode:
        """Add its nodes; the node of the result."""
        builder, names = self.one.builder, self.names
        self._add_subscriptions(builder)
        self._add_answers(builder)
        spec, use = (
            builder.store(store, "KTABLE-FK-JOIN-OUTPUT-", self.serdes.key, value, no_ttl=_NO_TTL),
            TableUse(),
        )
        builder.named_processor(
            names.result,
            (names.join,),
            lambda context: ToTable(TableSource(context.store(spec.name), value, use)),
            writes=spec.name,
            by_key=True,
            values="passed on",
        )
        join = ForeignJoin(names.subscribe, names.keep, self._left_detour(), self._right_detour())
        builder.graph.foreign_joins.append(join)
        return TableNode(builder, names.result, use, spec)

    def _add_subscriptions(self, builder: Builder) -> None:
        """From the left table to the store of subscriptions."""
        serdes, names = self.serdes, self.names
        builder.graph.add_processor(self._subscribe(self.one.name))
        raw = wire.opaque(f"subscriptions of {serdes.key.name}")
        topic = _between(builder, names.subscription_topic, self.named)
        to = wire.opaque(f"bytes of {serdes.foreign.name}"), raw
        builder.graph.add_sink(SinkNode(names.subscription_sink, (names.subscribe,), topic, *to))
        builder.graph.add_source(
            SourceNode(names.subscription_source, (topic,), serdes.foreign, raw)
        )
        key = wire.opaque(f"{serdes.foreign.name} with {serdes.key.name}")
        spec = StoreSpec(names.store, key, wire.opaque("subscribers"), named=self.named)
        builder.graph.add_store(spec)
        builder.named_processor(
            names.keep,
            (names.subscription_source,),
            lambda context: KeepSubscriptions(context.store(names.store), serdes.foreign),
            writes=names.store,
            by_key=True,
        )

    def _add_answers(self, builder: Builder) -> None:
        """From the right table to the join with the left one."""
        serdes, names = self.serdes, self.names
        other, one = self.other, self.one
        rows = partial(rows_of, other, reads=True)
        builder.graph.add_processor(self._answer(rows, other.stores))
        builder.graph.add_processor(self._change(other.name, other.history_ms is not None))
        raw = wire.opaque(f"answers of {serdes.right.name}")
        topic = _between(builder, names.response_topic, self.named)
        sink = SinkNode(
            *(names.response_sink, (names.answer, names.change), topic),
            *(wire.opaque(f"bytes of {serdes.key.name}"), raw),
            partitions_of=wire_columns.partitions_of,
        )
        builder.graph.add_sink(sink)
        builder.graph.add_source(SourceNode(names.response_source, (topic,), serdes.key, raw))
        rows = partial(rows_of, one, reads=self.joiner.reads)
        builder.graph.add_processor(self._join(rows, one.stores))

    def _subscribe(self, parent: str) -> ProcessorNode:
        serdes, name = self.serdes, self.names.subscribe
        columns, digest = (serdes.foreign, serdes.key), wire.digests(serdes.left)
        make = for_newest(
            name,
            lambda context: Subscribe(
                name, context, self.foreign, columns, digest, self.keeps_left
            ),
            self.one.history_ms is not None,
        )
        return self.one.builder.node(name, (parent,), make, values="read")

    def _answer(self, rows: _Rows, stores: tuple[str, ...]) -> ProcessorNode:
        return self.one.builder.node(
            self.names.answer,
            (self.names.keep,),
            lambda context: AnswerSubscriptions(context, rows(context), self.serdes.right),
            reads=stores,
            by_key=True,
        )

    def _change(self, parent: str, versioned: bool) -> ProcessorNode:
        serdes, names = self.serdes, self.names
        make = for_newest(
            names.change,
            lambda context: AnswerChange(
                context, context.store(names.store), serdes.foreign, serdes.right
            ),
            versioned,
        )
        return self.one.builder.node(
            names.change, (parent,), make, reads=(names.store,), by_key=True, values="read"
        )

    def _join(
        self,
        rows: _Rows,
        stores: tuple[str, ...],
        before: Callable[[TaskContext], ReplacedRows | None] = lambda _: None,
    ) -> ProcessorNode:
        names, digest = self.names, wire.digests(self.serdes.left)
        return self.one.builder.node(
            names.join,
            (names.response_source,),
            lambda context: JoinAnswers(
                names.join,
                context,
                rows(context),
                digest,
                self.serdes.right,
                self.joiner,
                self.foreign,
                self.serdes.foreign,
                self.keeps_left,
                before(context),
            ),
            reads=stores,
            by_key=True,
        )

    def _left_detour(self) -> Detour:
        """The nodes with which copies of left rows reach the join."""
        name, serdes = f"{self.names.join}-left", (self.serdes.key, self.serdes.left)
        copied = CopiedTable(self.one, name, serdes)
        join = self._join(copied.rows, (copied.store,), copied.replaced)
        return copied.detour(self._subscribe(copied.changes), join, held=True)

    def _right_detour(self) -> Detour:
        """The nodes with which copies of right rows reach the subscriptions."""
        name, serdes = f"{self.names.join}-right", (self.serdes.foreign, self.serdes.right)
        copied = CopiedTable(self.other, name, serdes)
        answer = self._answer(copied.rows, (copied.store,))
        return copied.detour(answer, self._change(copied.copies, False), held=False)


def _between(builder: Builder, name: str, named: bool) -> str:
    """Declare a topic between both sides of a join, and return its name."""
    topic = subscription_topic(builder.application, name)
    builder.graph.add_repartition(InternalTopic(topic, "repartition", named=named, follows=True))
    return topic
