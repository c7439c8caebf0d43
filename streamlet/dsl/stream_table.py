"""Streams that meet tables: the join of a stream with a table, and the table of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamlet.dsl.builder import Repartition, StreamNode, same_app
from streamlet.dsl.functions import takes
from streamlet.dsl.inference import result_type
from streamlet.dsl.joins import StreamTableJoin
from streamlet.dsl.kinds import Kind
from streamlet.dsl.materialized import StoreLike
from streamlet.dsl.table import KTable
from streamlet.dsl.table_node import TableNode
from streamlet.dsl.tables import TableSource, ToTable
from streamlet.dsl.uses import TableUse
from streamlet.errors import TopologyError

if TYPE_CHECKING:
    from streamlet.dsl.stream import KStream


def joined(
    call: str, stream: KStream[Any, Any], table: Any, joiner: Any, value: Any, name: str | None
) -> tuple[StreamNode, Kind, Kind]:
    """The node, the keys and the values of a stream joined with a table.

    Raises:
        TopologyError: it is no table, or not one of keys like the stream's.
    """
    if not isinstance(table, KTable):
        raise TopologyError(f"{call}: a stream joins with a table, not {type(table).__name__}")
    count = takes(call, joiner, "key", "value", "row")
    rows = table._joined()
    same_app(call, stream._node.builder, rows.builder)
    stream._show()
    left = copartitioned(call, stream, stream._key, stream._value, name)
    if stream._key.serde is not None and stream._key.serde.name != rows.store.key.name:
        raise TopologyError(
            f"{call}: the stream's keys are {stream._key.serde.name}, those of table "
            f"{rows.store.name} {rows.store.key.name}; select_key() can make them alike"
        )

    def make(context: Any) -> StreamTableJoin:
        store = context.store(rows.store.name)
        views = tuple(view.bound(context) for view in rows.views)
        return StreamTableJoin(store, views, joiner, count, left=call == "left_join()")

    prefix, nulls = "KSTREAM-JOIN-", "key value"
    if call == "left_join()":
        prefix, nulls = "KSTREAM-LEFTJOIN-", "value"
    node = left.builder.processor(prefix, (left.name,), make, reads=rows.stores, skip_nulls=nulls)
    inferred = result_type(joiner, *(stream._key.of, stream._value.of, table._value.of)[-count:])
    return (
        StreamNode(left.builder, node, left.rekeyed),
        stream._key,
        Kind.of_result(value, inferred, call, "value"),
    )


def table_of(
    call: str, stream: KStream[Any, Any], store: StoreLike, key: Kind, value: Kind
) -> KTable[Any, Any]:
    """The table of the newest value per key of a stream."""
    builder = stream._node.builder
    serdes = key.needed(call, "key"), value.needed(call, "value")
    above = copartitioned(call, stream, key, value, None)
    spec = builder.store(store, "KSTREAM-TOTABLE-", *serdes)
    use = TableUse(unnamed=not spec.named)
    node = builder.processor(
        "KSTREAM-TOTABLE-",
        (above.name,),
        lambda context: ToTable(TableSource(context.store(spec.name), spec.value, use)),
        writes=spec.name,
        skip_nulls="key",
    )
    return KTable(TableNode(builder, node, use, spec), key, value)


def copartitioned(
    call: str, stream: KStream[Any, Any], key: Kind, value: Kind, name: str | None
) -> StreamNode:
    """The stream's node, behind a repartition topic if its key may have changed."""
    node = stream._node
    if not node.rekeyed:
        return node
    how = Repartition(
        prefix=name or node.name,
        key=key.needed(call, "key", takes=call == "to_table()"),
        value=value.needed(call, "value", takes=call == "to_table()"),
        named=name is not None,
    )
    return StreamNode(node.builder, node.builder.repartition(node.name, how))
