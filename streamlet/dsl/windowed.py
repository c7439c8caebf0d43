"""``WindowedKStream``: grouped records that are folded window by window."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from streamlet.absent import explains_misuse
from streamlet.arguments import calls_told_by_form, never_by_hand
from streamlet.dsl.aggregate_results import aggregating, with_results
from streamlet.dsl.aggregates import Aggregations, merging
from streamlet.dsl.folds.none_results import name_operator, noticed
from streamlet.dsl.folds.on_commit import on_commit
from streamlet.dsl.graph.builder import NodeFlags
from streamlet.dsl.graph.functions import check_takes
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.graph.materialized import Materialized, StoreLike
from streamlet.dsl.graph.ownership import with_own_key
from streamlet.dsl.graph.table_node import TableNode
from streamlet.dsl.graph.uses import TableUse
from streamlet.dsl.operators.nulls import skipping_nulls
from streamlet.dsl.table import KTable
from streamlet.dsl.windowing.final_results import FinalResults
from streamlet.dsl.windowing.folding import (
    BoundFolding,
    Folding,
    counting,
    noticed_folding,
    reducing,
)
from streamlet.dsl.windowing.late_records import Late, add_late, check_late
from streamlet.dsl.windowing.stores import (
    WindowStoreOf,
    check_merger,
    skipped_nulls,
    window_operator,
)
from streamlet.dsl.windowing.windows import SessionWindows, UnlimitedWindows, Windows, check_windows
from streamlet.lazy_results import looking
from streamlet.serdes import SerdeLike, Windowed
from streamlet.topology.nodes import Timed
from streamlet.topology.operator import Operator, OperatorInParts, TaskContext

if TYPE_CHECKING:
    from streamlet.dsl.grouped import Initializer, KGroupedStream

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


@explains_misuse
@never_by_hand("KGroupedStream.windowed_by() makes it")
@calls_told_by_form
class WindowedKStream(Generic[K, V]):
    """Made by ``KGroupedStream.windowed_by``.

    Records without a key are left out and counted as dropped; those that come for a window that is
    closed are left out of that window and counted as late. ``store`` is the store's name, or a
    ``Materialized``.
    """

    def __init__(
        self,
        grouped: KGroupedStream[K, V],
        windows: Windows,
        *,
        emit: str,
        idle_ms: int | None,
        interval_ms: int,
        late: Late | None,
    ) -> None:
        check_windows("windowed_by()", windows)
        check_late(late)
        self._grouped = grouped
        self._windows = windows
        self._final = emit == "final"
        self._held = emit == "on_commit"
        self._by_clock = idle_ms, interval_ms
        self._timed: Timed = ""
        if self._held or idle_ms is not None or interval_ms:
            self._timed = "at commits" if self._held else "by the clock"
        self._late = late

    def __repr__(self) -> str:
        return f"WindowedKStream of {self._grouped!r}"

    def count(
        self, *, store: StoreLike = None, name: str | None = None
    ) -> KTable[Windowed[K], int]:
        """Number of records per key and window.

        - Nulls: records without a key are left out and counted as dropped. Records without a value
          count.
        - Key: the record's with the window.
        - Timestamp: the highest of the records in the window.
        - Headers: those of the record that changed the row.

        Examples:
            >>> visits = orders.group_by_key().windowed_by(sl.session("30s")).count()
            >>> times = visits.to_stream(lambda window, n: f"{window.start}-{window.end}", key=str)
            >>> times.to("visits")
            >>> run(orders=[("lamp", 1, 1_000), ("lamp", 1, 20_000)])
            {'visits': [('1000-1000', 1), ('1000-1000', None), ('1000-20000', 2)]}
        """
        kind = Kind.given(int, "count()", "value")
        return self._folded("count()", "KSTREAM-AGGREGATE-", store, kind, counting(), name)

    def reduce(
        self,
        reducer: Callable[[V, V], V | None],
        *,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], V]:
        """``reducer(aggregate, value)`` per key and window, beginning with the first value.

        The reducer may change and return the aggregate.

        - Nulls: records without a key are left out and counted as dropped. The reducer gets a value
          that is None, unless it is a window's first. A result None deletes the row.
        - Key: the record's with the window.
        - Timestamp: the highest of the records in the window.
        - Headers: those of the record that changed the row.

        Examples:
            >>> per_minute = orders.group_by_key().windowed_by(sl.tumbling("1m"))
            >>> best = per_minute.reduce(lambda one, other: max(one, other))
            >>> best.to_stream(lambda window, pieces: window.key, key=str).to("best")
            >>> run(orders=[("lamp", 3, 0), ("lamp", 2, 1)])
            {'best': [('lamp', 3), ('lamp', 3)]}
        """
        check_takes("reduce()", reducer, "aggregate", "value")
        value = self._grouped._value
        function = noticed(reducer, value.serde, 0)
        table = self._folded("reduce()", "KSTREAM-REDUCE-", store, value, reducing(function), name)
        name_operator(table._node.name, function)
        return table

    @overload
    def aggregate(
        self,
        initializer: Initializer[A],
        aggregator: Callable[[K, V, A], A | None],
        merger: Callable[[K, A, A], A] | None = None,
        *,
        value: SerdeLike[A] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], A]: ...
    @overload
    def aggregate(
        self,
        initializer: Aggregations,
        *,
        value: SerdeLike[Any] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], Any]: ...
    def aggregate(
        self,
        initializer: Any,
        aggregator: Any = None,
        merger: Any = None,
        *,
        value: Any = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], Any]:
        """``aggregator(key, value, aggregate)`` per key and window.

        As ``KGroupedStream.aggregate``. Sessions need a ``merger`` too, ``(key, aggregate,
        aggregate) -> aggregate``, for records that join two of them. In place of all functions, an
        aggregation of expressions: ``sum_(col("delay"))``, or a dict of them.

        - Nulls: records without a key are left out and counted as dropped. The aggregator gets
          values that are None. A result None deletes the row.
        - Key: the record's with the window.
        - Timestamp: the highest of the records in the window.
        - Headers: those of the record that changed the row.

        Examples:
            >>> per_minute = orders.group_by_key().windowed_by(sl.tumbling("1m"))
            >>> means = per_minute.aggregate(sl.mean(sl.value()))
            >>> means.to_stream(lambda window, mean: window.key, key=str).to("means")
            >>> run(orders=[("lamp", 3, 0), ("lamp", 2, 1)])
            {'means': [('lamp', 3.0), ('lamp', 2.5)]}
        """
        grouped = self._grouped
        of = grouped._key.of, grouped._value.of
        given, functions, kind = aggregating(grouped._builder, initializer, aggregator, value, of)
        initializer, aggregator = functions
        if given is not None:
            merger = merging(given) if isinstance(self._windows, SessionWindows) else None
        check_merger(self._windows, merger)
        folding = noticed_folding(
            Folding(
                looking(initializer),
                with_own_key(aggregator, grouped._key),
                merger and looking(with_own_key(merger, grouped._key)),
            ),
            kind.serde,
        )
        table = self._folded("aggregate()", "KSTREAM-AGGREGATE-", store, kind, folding, name)
        name_operator(table._node.name, folding.step, folding.merge)
        return with_results(table, given, value, of)

    def _folded(
        self,
        call: str,
        prefix: str,
        store: StoreLike,
        value: Kind,
        folding: Folding,
        given: str | None,
    ) -> KTable[Windowed[K], Any]:
        grouped, windows, use = self._grouped, self._windows, TableUse()
        builder = grouped._builder
        key = grouped._key.needed(call, "key", takes=False)
        value_serde = value.needed(call, "value", takes=call == "aggregate()")
        of = WindowStoreOf(windows, self._final, key, value_serde)
        spec = of.added(builder, call, prefix, store)
        name = builder.graph.new_name(prefix, given)
        parent = grouped._partitioned(spec, counted=folding.counts and self._late is None)
        values = "value" in skipped_nulls(windows)

        bounded = Materialized.of(store).retention is not None

        def make(context: TaskContext) -> Operator | OperatorInParts:
            kept = context.store(spec.name)
            shown = TableUse() if self._held and not windows.bucket_ms else use
            bound = BoundFolding.bind(folding, value_serde)
            inner: Operator | OperatorInParts
            inner = window_operator(name, context, spec, windows, bound, shown)
            if self._final and not isinstance(windows, UnlimitedWindows):
                loses = bounded and not isinstance(windows, SessionWindows)
                how = *self._by_clock, name, loses
                inner = FinalResults(inner, kept, windows, use, context, *how)
            operator = skipping_nulls(name, context, inner, values=values)
            return on_commit(operator, kept, use, context) if self._held else operator

        flags: NodeFlags = {"timed": self._timed, "keeps": True}
        if folding.counts:
            flags["values"] = "ignored"
        builder.named_processor(name, (parent,), make, writes=spec.name, **flags)
        if self._late is not None:
            add_late(builder, name, self._late, grouped._key, grouped._value)
        closing = None if self._final or isinstance(windows, UnlimitedWindows) else windows
        table = TableNode(builder, name, use, spec, windows=closing)
        return KTable(table, Kind(windows.serde(key), Windowed), value)
