"""``KGroupedTable``: a table whose rows are grouped by other keys, ready to be folded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

from streamlet.absent import explains_misuse
from streamlet.arguments import calls_told_by_form, never_by_hand
from streamlet.dsl.folds.none_results import name_operator, noticed
from streamlet.dsl.folds.on_commit import Emit, check_emit, on_commit
from streamlet.dsl.folds.table_folds import (
    Regroup,
    TableFold,
    TableFolding,
    changes_of,
    counting_rows,
    reducing_rows,
)
from streamlet.dsl.graph.functions import check_begins, check_takes
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.graph.materialized import StoreLike
from streamlet.dsl.graph.ownership import with_own_key
from streamlet.dsl.graph.repartitions import Repartition
from streamlet.dsl.graph.table_node import TableNode
from streamlet.dsl.graph.uses import TableUse
from streamlet.dsl.operators.nulls import skipping_nulls
from streamlet.dsl.rows.versioned import for_newest
from streamlet.lazy_results import looking
from streamlet.serdes import Serde, SerdeLike
from streamlet.topology.nodes import Timed
from streamlet.topology.operator import Operator, OperatorInParts, TaskContext

if TYPE_CHECKING:
    from streamlet.dsl.grouped import Initializer
    from streamlet.dsl.table import KTable

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

#: The reason why groups of a table's rows cannot expire.
_NO_TTL = "a row of the table that leaves its group is taken back from it, which must be there"


@explains_misuse
@never_by_hand("KTable.group_by() makes it")
@calls_told_by_form
@attrs.define(eq=False, repr=False)
class KGroupedTable(Generic[K, V]):
    """Made by ``KTable.group_by``.

    When a row changes, its old value is subtracted from its old group, and its new one added to its
    new group. ``store`` is the store's name, or a ``Materialized``; ``name`` that of the operator's
    node in the topology.
    """

    _node: TableNode
    _function: Callable[..., Any]
    _key: Kind
    _value: Kind
    _name: str | None
    _select: str = attrs.field(init=False)
    _added: bool = attrs.field(default=False, init=False)
    _shared: str | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._select = self._node.builder.graph.new_name("KTABLE-SELECT-", self._name)

    def __repr__(self) -> str:
        return f"KGroupedTable[{self._key.shown}, {self._value.shown}] of {self._node.name}"

    def count(
        self, *, store: StoreLike = None, emit: Emit = "updates", name: str | None = None
    ) -> KTable[K, int]:
        """Number of rows per group; 0 for one that has lost all.

        ``emit`` as of ``KGroupedStream.count``.

        - Nulls: a deleted row is taken from its group.
        - Timestamp: the highest among the changes of the group since it began.
        - Key, headers: those of the record that changed the row.

        Examples:
            >>> by_price = prices.group_by(lambda item, price: (price, item), key=int, value=str)
            >>> by_price.count().to_stream().to("items-per-price")
            >>> run(prices=[("lamp", 20), ("desk", 20)])
            {'items-per-price': [(20, 1), (20, 2)]}
        """
        kind = Kind.given(int, "count()", "value")
        return self._folded(
            "count()", "KTABLE-AGGREGATE-", store, emit, kind, counting_rows(), name
        )

    def reduce(
        self,
        adder: Callable[[V, V], V | None],
        subtractor: Callable[[V, V], V | None],
        *,
        store: StoreLike = None,
        emit: Emit = "updates",
        name: str | None = None,
    ) -> KTable[K, V]:
        """``adder(aggregate, value)`` and ``subtractor(aggregate, value)`` per group.

        A group begins with its first value. Both functions may change and return the aggregate.
        ``emit`` as of ``KGroupedStream.count``.

        - Nulls: a deleted row is subtracted. A result None deletes the group.
        - Timestamp: the highest among the changes of the group since it began.
        - Key, headers: those of the record that changed the row.

        Examples:
            >>> letters = prices.group_by(lambda item, price: (item[0], price), key=str, value=int)
            >>> sums = letters.reduce(lambda sums, new: sums + new, lambda sums, old: sums - old)
            >>> sums.to_stream().to("sums")
            >>> run(prices=[("lamp", 20), ("lens", 5), ("lamp", None)])
            {'sums': [('l', 20), ('l', 25), ('l', 5)]}
        """
        check_takes("reduce()", adder, "aggregate", "value")
        check_takes("reduce()", subtractor, "aggregate", "value")
        steps = [noticed(one, self._value.serde, 0) for one in (adder, subtractor)]
        folding = reducing_rows(steps[0], looking(steps[1]))
        table = self._folded("reduce()", "KTABLE-REDUCE-", store, emit, self._value, folding, name)
        name_operator(table._node.name, *steps)
        return table

    def aggregate(
        self,
        initializer: Initializer[A],
        adder: Callable[[K, V, A], A | None],
        subtractor: Callable[[K, V, A], A | None],
        *,
        value: SerdeLike[A] = None,
        store: StoreLike = None,
        emit: Emit = "updates",
        name: str | None = None,
    ) -> KTable[K, A]:
        """``adder`` and ``subtractor`` of ``(key, value, aggregate)`` per group.

        A group begins with ``initializer()``. Both functions may change and return the aggregate.
        ``value`` is the aggregate's type; without it, that of ``initializer()``, which is called
        once for this. ``emit`` as of ``KGroupedStream.count``.

        - Nulls: a deleted row is subtracted. A result None deletes the group.
        - Timestamp: the highest among the changes of the group since it began.
        - Key, headers: those of the record that changed the row.

        Examples:
            >>> letters = prices.group_by(lambda item, price: (item[0], price), key=str, value=int)
            >>> letters.aggregate(
            ...     lambda: 0, lambda key, price, n: n + 1, lambda key, price, n: n - 1
            ... ).to_stream().to("items-per-letter")
            >>> run(prices=[("lamp", 20), ("lens", 5), ("lamp", None)])
            {'items-per-letter': [('l', 1), ('l', 2), ('l', 1)]}
        """
        check_begins("aggregate()", initializer)
        check_takes("aggregate()", adder, "key", "value", "aggregate")
        check_takes("aggregate()", subtractor, "key", "value", "aggregate")
        kind = self._node.builder.aggregate(value, initializer)
        given = (with_own_key(one, self._key) for one in (adder, subtractor))
        steps = [noticed(one, kind.serde, 2) for one in given]
        folding = TableFolding(looking(initializer), steps[0], looking(steps[1]))
        table = self._folded("aggregate()", "KTABLE-AGGREGATE-", store, emit, kind, folding, name)
        name_operator(table._node.name, *steps)
        return table

    def _folded(
        self,
        call: str,
        prefix: str,
        store: StoreLike,
        emit: Emit,
        value: Kind,
        folding: TableFolding,
        given: str | None,
    ) -> KTable[K, Any]:
        from streamlet.dsl.table import KTable

        above, use = self._node, TableUse()
        builder = above.builder
        key = self._key.needed("group_by()", "key", takes=True)
        change = changes_of(self._value.needed("group_by()", "value", takes=True))
        above.use.want_olds()
        kind = value.needed(call, "value", takes=call[0] == "a")
        spec = builder.store(store, prefix, key, kind, no_ttl=_NO_TTL, groups=True)
        how = Repartition(
            prefix=self._name or spec.name,
            key=key,
            value=change,
            named=self._name is not None or spec.named,
            table=True,
            given=given,
        )
        source = self._repartitioned(how)
        held = check_emit(call, emit)
        timed: Timed = "at commits" if held else ""
        name = builder.graph.new_name(prefix, given)

        def make(context: TaskContext) -> Operator | OperatorInParts:
            kept = context.store(spec.name)
            fold = TableFold(kept, folding, spec.value, change, TableUse() if held else use)
            operator = skipping_nulls(name, context, fold, values=True)
            return on_commit(operator, kept, use, context) if held else operator

        builder.named_processor(name, (source,), make, writes=spec.name, timed=timed, keeps=True)
        return KTable(TableNode(builder, name, use, spec), self._key, value)

    def _repartitioned(self, how: Repartition) -> str:
        """The source of the changes of groups; folds of a named grouped table share a topic."""
        builder = self._node.builder
        if self._name is None or self._shared is None:
            self._shared = builder.repartition(self._regrouped(how.key), how)
            return self._shared
        for prefix, suffix in (("KSTREAM-SINK-", "-sink"), ("KSTREAM-SOURCE-", "-source")):
            builder.graph.new_name(prefix, how.given, suffix)  # used up, as in Kafka Streams
        return self._shared

    def _regrouped(self, key: Serde[Any]) -> str:
        """The node that gives rows their new keys, which all folds share."""
        if not self._added:
            above, function = self._node, self._function
            select = for_newest(
                self._select, lambda _: Regroup(function, key), above.history_ms is not None
            )
            above.builder.named_processor(self._select, (above.name,), select)
            self._added = True
        return self._select
