"""The join of two tables: its nodes, and the rows that it has without a store of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from streamlet.dsl.graph.builder import Make, NodeFlags
from streamlet.dsl.graph.functions import takes
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.graph.materialized import StoreLike
from streamlet.dsl.graph.one_app import same_app
from streamlet.dsl.graph.table_node import TableFace, TableNode
from streamlet.dsl.graph.table_views import TableView
from streamlet.dsl.graph.uses import TableUse
from streamlet.dsl.joins.joined_rows import JoinedRow, TableRows, TableTableJoin
from streamlet.dsl.joins.joiner import joiner_of
from streamlet.dsl.joins.shared_changes import SharedTableJoin
from streamlet.dsl.operators.stateless import PassOn
from streamlet.dsl.rows.sources import TableSource
from streamlet.dsl.rows.versioned import for_newest
from streamlet.errors import TopologyError
from streamlet.topology.operator import Operator, TaskContext

#: Call -> whether a left row alone makes a row of the join, and whether a right one does.
_ALONE = {"join()": (False, False), "left_join()": (True, False), "outer_join()": (True, True)}


def joined_tables(
    call: str,
    left: TableFace,
    right: TableFace,
    joiner: Any,
    value: Any,
    store: StoreLike,
    name: str | None,
) -> tuple[TableNode, Kind]:
    """The node of the join of two tables, and its values.

    Raises:
        TopologyError: the other table is not one of keys like these, or one has windows.
    """
    count = takes(call, joiner, "key", "left", "right")
    one, other = left._node, right._node
    same_app(call, one.builder, other.builder)
    for node in (one, other):
        node.check_joins(call)
    keys = one.store.record_key.name, other.store.record_key.name
    if keys[0] != keys[1]:
        raise TopologyError(
            f"{call}: the keys of table {one.store.name} are {keys[0]}, those of table "
            f"{other.store.name} {keys[1]}; they must be alike"
        )
    shared = bool(one.builder.graph.sources_of(one.name) & one.builder.graph.sources_of(other.name))
    kinds = left._key, left._value, right._value
    made, result = joiner_of(call, one.builder, joiner, kinds, count, value)
    makes = JoinedRow(made, *_ALONE[call])
    for use in (one.use, other.use):
        # Those of a topic are read for nothing where two rows make one: readers of the join ask.
        if use.parent is not None or makes.left or makes.right or shared:
            use.want_olds()
    if shared:
        one.builder.noted.names |= {one.store.name, other.store.name}
    return _nodes(one, other, makes, call, result, left._key, (store, name), shared), result


def _nodes(
    one: TableNode,
    other: TableNode,
    makes: JoinedRow,
    call: str,
    result: Kind,
    key: Kind,
    given: tuple[StoreLike, str | None],
    shared: bool,
) -> TableNode:
    builder, use = one.builder, TableUse(kept=True, sides=(one.use, other.use))
    store, own = given
    new, sides, spec = builder.graph.new_name, [], None
    if store is not None:
        serdes = key.needed(call, "key", takes=False), result.needed(call, "value")
        spec = builder.store(store, "KTABLE-MERGE-", *serdes)
    merge = new("KTABLE-MERGE-", own)
    for prefix, mine, theirs in (("THIS", one, other), ("OTHER", other, one)):
        side = _side(theirs, makes, prefix == "THIS", use)
        make: Make = _shared_side(merge, side, mine, theirs) if shared else side
        name = new(f"KTABLE-JOIN{prefix}-", own, f"-join-{prefix.lower()}")
        make = for_newest(name, make, mine.history_ms is not None)
        flags = NodeFlags(by_key=True, values=makes.joiner.values)
        builder.named_processor(name, (mine.name,), make, reads=theirs.stores, **flags)
        sides.append(name)
    parents = sides[0], sides[1]
    if spec is None:
        builder.named_processor(merge, parents, lambda _: PassOn(), values="passed on")
        view = _view(other, makes)
        views = (*one.views, view)
        return attrs.evolve(one, name=merge, use=use, views=views, windows=None, history_ms=None)
    kept = spec
    builder.named_processor(
        merge,
        parents,
        lambda context: TableSource(context.store(kept.name), kept.value, use),
        writes=kept.name,
        by_key=True,
        values="passed on",
    )
    return TableNode(builder, merge, use, kept)


def _side(
    theirs: TableNode, makes: JoinedRow, is_left: bool, use: TableUse
) -> Callable[[TaskContext], TableTableJoin]:
    reads = makes.joiner.reads
    return lambda context: TableTableJoin(rows_of(theirs, context, reads), makes, is_left, use)


def _shared_side(
    join: str, side: Callable[[TaskContext], TableTableJoin], mine: TableNode, theirs: TableNode
) -> Make:
    """The maker of a side of tables that change by the same record."""
    noted = mine.builder.noted

    def make(context: TaskContext) -> Operator:
        stores = (noted.of(context.store(node.store.name)) for node in (mine, theirs))
        return SharedTableJoin(join, side(context), *stores)

    return make


def rows_of(node: TableNode, context: TaskContext, reads: bool = False) -> TableRows:
    """The rows of a table in a task, for who only ``reads`` them or may change them."""
    views = tuple(view.bound(context) for view in node.views)
    times = tuple(view.times(context) for view in node.views if view.times is not None)
    own = None if reads and not views else node.own_row  # the functions of views get them first
    return TableRows(context.store(node.store.name), views, times, own)


def _view(other: TableNode, makes: JoinedRow) -> TableView:
    """The rows of a join without a store: those of the left table with those of the right one."""

    def bound(context: TaskContext) -> Callable[[Any, Any], Any]:
        rows = rows_of(other, context)
        return lambda key, row: makes.of(key, row, rows.of_key(key)[0])

    def times(context: TaskContext) -> Callable[[Any, int], int]:
        rows = rows_of(other, context)
        return lambda key, time: max(time, rows.of_key(key)[1])

    return TableView(bound, other.stores, times)
