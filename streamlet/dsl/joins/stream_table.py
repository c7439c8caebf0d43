"""Streams that meet tables: the join of a stream with a table, and the table of a stream."""

from __future__ import annotations

from typing import Any

import attrs

from streamlet.dsl.graph.builder import NodeParts
from streamlet.dsl.graph.durations import Duration, milliseconds
from streamlet.dsl.graph.functions import takes
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.graph.materialized import Materialized, StoreLike
from streamlet.dsl.graph.one_app import same_app
from streamlet.dsl.graph.repartitions import Repartition
from streamlet.dsl.graph.row_expiry import ttl_of
from streamlet.dsl.graph.stream_node import StreamFace, StreamNode
from streamlet.dsl.graph.table_node import TableFace, TableNode
from streamlet.dsl.graph.versioned_stores import table_store
from streamlet.dsl.joins.joiner import Joiner, joiner_of
from streamlet.dsl.joins.row_lookups import AsOfJoin, StreamTableJoin
from streamlet.dsl.joins.with_grace import JoinLater
from streamlet.dsl.operators.hot_store import accepting, copier
from streamlet.dsl.rows.sources import ToTable
from streamlet.dsl.rows.versioned import source_node
from streamlet.errors import TopologyError
from streamlet.serdes import Serde, serde
from streamlet.state.buffer_rows import buffer_rows
from streamlet.state.store_specs import BufferSpec, StoreSpec
from streamlet.state.window_rows import row_keys
from streamlet.topology.operator import TaskContext

_JOIN = "KSTREAM-JOIN-"


def joined(
    call: str,
    stream: StreamFace,
    table: TableFace,
    joiner: Any,
    value: Any,
    name: str | None,
    grace: Duration | None = None,
    store: StoreLike = None,
) -> tuple[StreamNode, Kind, Kind]:
    """The node, the keys and the values of a stream joined with a table.

    Raises:
        TopologyError: the table is not one of keys like the stream's, or one of windows; or there
            is a grace that the history of the table does not have.
    """
    count = takes(call, joiner, "key", "value", "row")
    rows = table._node
    same_app(call, stream._node.builder, rows.builder)
    rows.check_joins(call)
    grace_ms = _grace(call, grace, store, rows)
    left = copartitioned(call, stream, stream._key, stream._value, name)
    theirs = rows.store.record_key.name
    if stream._key.serde is not None and stream._key.serde.name != theirs:
        raise TopologyError(
            f"{call}: the stream's keys are {stream._key.serde.name}, those of table "
            f"{rows.store.name} {theirs}; select_key() can make them alike"
        )
    kinds = stream._key, stream._value, table._value
    made, result = joiner_of(call, left.builder, joiner, kinds, count, value)
    join = _RowJoin(rows, made, call == "left_join()")
    if join.left:
        left.builder.keep_null_keys(left.name)
    if grace_ms is None:
        prefix, nulls = ("KSTREAM-LEFTJOIN-", "value") if join.left else (_JOIN, "key value")
        node = left.builder.processor(
            prefix,
            (left.name,),
            join.operator,
            reads=rows.stores,
            skip_nulls=nulls,
            name=name,
            by_key=True,
            values=join.joiner.values,
        )
    else:
        serdes = stream._key.needed(call, "key"), stream._value.needed(call, "value")
        node = _add_later(left, join, grace_ms, serdes, store, name)
    return StreamNode(left.builder, node, left.rekeyed), stream._key, result


@attrs.frozen
class _RowJoin:
    """A join of a stream with a table: its rows and the joiner."""

    rows: TableNode
    joiner: Joiner
    left: bool

    def operator(self, context: TaskContext) -> StreamTableJoin:
        """The operator of a task; with a versioned table it is an ``AsOfJoin``."""
        rows = self.rows
        kept = context.store(rows.store.name)
        views = tuple(view.bound(context) for view in rows.views)
        versioned = rows.history_ms is not None
        if versioned:
            views = views[1:]
        own = rows.own_value if versioned else rows.own_row
        if not views:  # the functions of views get rows first
            own = self.joiner.given(own)
        join = AsOfJoin if versioned else StreamTableJoin
        return join(kept, views, self.joiner, self.left, own)


def _grace(call: str, grace: Duration | None, store: StoreLike, rows: TableNode) -> int | None:
    """The time for which records wait, ms; None: they do not."""
    if grace is None:
        if store is not None:
            raise TopologyError(f"{call}: store= is that of records that wait, so it needs grace=")
        return None
    if rows.history_ms is None:
        raise TopologyError(
            f"{call}: with grace= records meet the row of their own time, so the table must be "
            "versioned: give it a store=streamlet.Materialized(name, history=...)"
        )
    grace_ms = milliseconds(f"{call}: grace", grace)
    if grace_ms > rows.history_ms:
        raise TopologyError(
            f"{call}: a grace of {grace_ms} ms is too long for table {rows.store.name}, whose "
            f"history is {rows.history_ms} ms"
        )
    return grace_ms


def _add_later(
    left: StreamNode,
    join: _RowJoin,
    grace_ms: int,
    serdes: tuple[Serde[Any], Serde[Any]],
    store: StoreLike,
    given: str | None,
) -> str:
    """Add the operator whose records wait, and their store; its name."""
    builder, (key, value) = left.builder, serdes
    name = builder.graph.new_name("KSTREAM-LEFTJOIN-" if join.left else _JOIN, given)
    how = Materialized.of(store)
    ttl_of(how, "grace= says how long the store keeps records")
    if how.retention is not None or how.history is not None:
        raise TopologyError("join(): grace= says how long the store keeps records")
    raw = serde(bytes)
    spec = StoreSpec(
        f"{name}-Buffer" if how.name is None else how.name,
        attrs.evolve(row_keys(raw), name=f"until join grace: {key.name}"),
        buffer_rows(value),
        how.persistent,
        how.logged,
        how.name is not None or given is not None,
        buffer=BufferSpec(raw, "join grace", grace_ms),
        rocks=how.rocks,
    )
    builder.graph.add_store(spec)

    def make(context: TaskContext) -> JoinLater:
        return JoinLater(
            context.store(spec.name),
            join.operator(context),
            grace_ms,
            key,
            value,
            accepting(value),
            copier(value),
            lambda count: context.dropped(name, count),
            context.failures,
            name,
        )

    stores = NodeParts(writes=spec.name, reads=join.rows.stores)
    parts = NodeParts(**stores, by_key=True, in_order=True, grace_ms=grace_ms)
    builder.named_processor(name, (left.name,), make, **parts)
    return name


def table_of(
    call: str,
    stream: StreamFace,
    store: StoreLike,
    key: Kind,
    value: Kind,
    name: str | None = None,
) -> TableNode:
    """The node of the table of the newest value per key of a stream."""
    builder = stream._node.builder
    serdes = key.needed(call, "key"), value.needed(call, "value")
    prefix = "KSTREAM-TOTABLE-"
    own = builder.graph.new_name(prefix, name)
    spec = table_store(builder, call, store, prefix, serdes)
    above = copartitioned(call, stream, key, value, own, named=name is not None)
    return source_node(builder, own, above.name, spec, serdes[1], ToTable)


def copartitioned(
    call: str,
    stream: StreamFace,
    key: Kind,
    value: Kind,
    name: str | None,
    *,
    named: bool = True,
) -> StreamNode:
    """The stream's node, behind a repartition topic if its key may have changed.

    ``named`` False: the name is a made-up one.
    """
    node = stream._node
    if not node.rekeyed:
        return node
    how = Repartition(
        prefix=name or node.name,
        key=key.needed(call, "key", takes=call == "to_table()"),
        value=value.needed(call, "value", takes=call == "to_table()"),
        named=named and name is not None,
        mergeable=True,
    )
    return StreamNode(node.builder, node.builder.repartition(node.name, how))
