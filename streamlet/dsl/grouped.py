"""``KGroupedStream``: a stream whose records of one key meet in one task, ready to be folded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, Protocol, TypeVar, overload

import attrs

from streamlet.absent import explains_misuse
from streamlet.arguments import calls_told_by_form, never_by_hand
from streamlet.dsl.aggregate_results import aggregating, with_results
from streamlet.dsl.aggregates import Aggregations
from streamlet.dsl.cogrouped import CogroupedKStream
from streamlet.dsl.folds.none_results import name_operator, noticed
from streamlet.dsl.folds.on_commit import Emit, check_emit, on_commit
from streamlet.dsl.folds.stream_folds import Aggregate, Count, Reduce
from streamlet.dsl.graph.builder import Builder, NodeFlags
from streamlet.dsl.graph.durations import Duration, milliseconds
from streamlet.dsl.graph.functions import check_takes
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.graph.materialized import StoreLike
from streamlet.dsl.graph.ownership import with_own_key
from streamlet.dsl.graph.repartitions import Repartition
from streamlet.dsl.graph.table_node import TableNode
from streamlet.dsl.graph.uses import TableUse
from streamlet.dsl.operators.nulls import skipping_nulls
from streamlet.dsl.table import KTable
from streamlet.dsl.windowed import WindowedKStream
from streamlet.dsl.windowing.late_records import LateRecord
from streamlet.dsl.windowing.windows import UnlimitedWindows, Windows
from streamlet.errors import TopologyError
from streamlet.lazy_results import looking
from streamlet.serdes import SerdeLike
from streamlet.state.store import CachedStore
from streamlet.state.store_specs import StoreSpec
from streamlet.topology.nodes import Timed
from streamlet.topology.operator import Operator, OperatorInParts, TaskContext
from streamlet.user_code import shown

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)

#: Makes the operator from the task's store, what is noted of the table, and the store's spec.
Fold = Callable[[CachedStore, TableUse, StoreSpec], Operator]


class Initializer(Protocol[A_co]):
    """``() -> aggregate``.

    A protocol instead of a ``Callable``, because type checkers look at it before they look at the
    aggregator, whose argument type is then known.
    """

    def __call__(self) -> A_co:
        """The aggregate to begin with, a new one each time."""
        ...


@explains_misuse
@never_by_hand("KStream.group_by() and group_by_key() make it")
@calls_told_by_form
@attrs.define(eq=False, repr=False)
class KGroupedStream(Generic[K, V]):
    """Made by ``KStream.group_by`` and ``group_by_key``.

    Records without a key or a value are left out and counted as dropped. ``store`` is the store's
    name, or a ``Materialized``; ``name`` that of the operator's node in the topology.
    """

    _builder: Builder
    _parent: str
    _key: Kind
    _value: Kind
    _call: str = attrs.field(kw_only=True)
    _repartition: bool = attrs.field(kw_only=True)
    _name: str | None = attrs.field(kw_only=True)

    def __repr__(self) -> str:
        return f"KGroupedStream[{self._key.shown}, {self._value.shown}] of {self._parent}"

    def count(
        self, *, store: StoreLike = None, emit: Emit = "updates", name: str | None = None
    ) -> KTable[K, int]:
        """Number of records per key.

        With ``emit="on_commit"`` not each record's count is sent on, but with each commit
        (``commit.interval.ms``) the last one of each key: what Kafka Streams' record cache does.

        - Nulls: records without a key or a value are left out and counted as dropped.
        - Timestamp: the highest among the records of the row since it began.
        - Key, headers: those of the record that changed the row.

        Examples:
            >>> orders.group_by_key().count(store="orders-per-item").to_stream().to("counts")
            >>> run(orders=[("lamp", 3), ("desk", 1), ("lamp", 2)])
            {'counts': [('lamp', 1), ('desk', 1), ('lamp', 2)]}
        """
        kind = Kind.given(int, "count()", "value")
        return self._folded(
            "count()",
            "KSTREAM-AGGREGATE-",
            store,
            emit,
            kind,
            lambda kept, use, _: Count(kept, use),
            name,
        )

    def reduce(
        self,
        reducer: Callable[[V, V], V | None],
        *,
        store: StoreLike = None,
        emit: Emit = "updates",
        name: str | None = None,
    ) -> KTable[K, V]:
        """``reducer(aggregate, value)`` per key, beginning with the first value as it is.

        The reducer may change and return the aggregate. ``emit`` as of ``count``.

        - Nulls: records without a key or a value are left out and counted as dropped. A result None
          deletes the row.
        - Timestamp: the highest among the records of the row since it began.
        - Key, headers: those of the record that changed the row.

        Examples:
            >>> totals = orders.group_by_key().reduce(lambda total, pieces: total + pieces)
            >>> totals.to_stream().to("totals")
            >>> run(orders=[("lamp", 3), ("lamp", 2)])
            {'totals': [('lamp', 3), ('lamp', 5)]}
        """
        check_takes("reduce()", reducer, "aggregate", "value")

        function = noticed(reducer, self._value.serde, 0)

        def fold(kept: CachedStore, use: TableUse, spec: StoreSpec) -> Operator:
            return Reduce(kept, function, spec.value, use)

        table = self._folded("reduce()", "KSTREAM-REDUCE-", store, emit, self._value, fold, name)
        name_operator(table._node.name, function)
        return table

    @overload
    def aggregate(
        self,
        initializer: Initializer[A],
        aggregator: Callable[[K, V, A], A | None],
        *,
        value: SerdeLike[A] = None,
        store: StoreLike = None,
        emit: Emit = "updates",
        name: str | None = None,
    ) -> KTable[K, A]: ...
    @overload
    def aggregate(
        self,
        initializer: Aggregations,
        *,
        value: SerdeLike[Any] = None,
        store: StoreLike = None,
        emit: Emit = "updates",
        name: str | None = None,
    ) -> KTable[K, Any]: ...
    def aggregate(
        self,
        initializer: Any,
        aggregator: Any = None,
        *,
        value: Any = None,
        store: StoreLike = None,
        emit: Emit = "updates",
        name: str | None = None,
    ) -> KTable[K, Any]:
        """``aggregator(key, value, aggregate)`` per key, beginning with ``initializer()``.

        The aggregator may change and return the aggregate: it is given a copy each time, unless the
        type cannot change in place (numbers, str, frozen classes), which is faster. ``value`` is
        the aggregate's type; without it, that of ``initializer()``, which is called once for this.

        In place of both, an aggregation of expressions: ``sum_(col("delay"))``, or a dict of them,
        which makes a dict of results. ``emit`` as of ``count``.

        - Nulls: records without a key or a value are left out and counted as dropped. A result None
          deletes the row.
        - Timestamp: the highest among the records of the row since it began.
        - Key, headers: those of the record that changed the row.

        Examples:
            >>> def larger(item: str, pieces: int, largest: int) -> int:
            ...     return max(pieces, largest)
            >>> orders.group_by_key().aggregate(lambda: 0, larger).to_stream().to("largest")
            >>> run(orders=[("lamp", 3), ("lamp", 2)])
            {'largest': [('lamp', 3), ('lamp', 3)]}
        """
        of = self._key.of, self._value.of
        given, functions, kind = aggregating(self._builder, initializer, aggregator, value, of)
        initializer, aggregator = functions
        step = noticed(with_own_key(aggregator, self._key), kind.serde, 2)
        begin = looking(initializer)

        def fold(kept: CachedStore, use: TableUse, spec: StoreSpec) -> Operator:
            return Aggregate(kept, begin, step, spec.value, use)

        table = self._folded("aggregate()", "KSTREAM-AGGREGATE-", store, emit, kind, fold, name)
        name_operator(table._node.name, step)
        return with_results(table, given, value, of)

    def cogroup(self, aggregator: Callable[[K, V, A], A | None]) -> CogroupedKStream[K, A]:
        """The first of several streams that are folded into one table.

        Their records go to the aggregator of their stream, ``(key, value, aggregate) ->
        aggregate``. ``cogroup`` of the result adds another stream, its ``aggregate`` ends it.

        - Nulls: records without a key or a value are left out and counted as dropped.
        - Key, timestamp, headers: kept.

        Examples:
            >>> most = orders.group_by_key().cogroup(lambda item, pieces, most: max(most, pieces))
            >>> most.aggregate(lambda: 0).to_stream().to("largest")
            >>> run(orders=[("lamp", 3), ("lamp", 2)])
            {'largest': [('lamp', 3), ('lamp', 3)]}
        """
        check_takes("cogroup()", aggregator, "key", "value", "aggregate")
        return CogroupedKStream(((self, with_own_key(aggregator, self._key)),))

    def windowed_by(
        self,
        windows: Windows,
        *,
        emit: Literal["updates", "on_commit", "final"] = "updates",
        close_idle_after: Duration | None = None,
        emit_interval: Duration = 0,
        late: str | Callable[[LateRecord[K, V]], object] | None = None,
    ) -> WindowedKStream[K, V]:
        """The same records in windows: ``tumbling``, ``hopping``, ``sliding``, ``session``.

        Its folds make a row for each key and window; the keys of their tables are ``Windowed``.

        With ``emit="updates"`` each record's result is sent on; with ``"on_commit"`` each commit
        sends the last result of each window that has changed; with ``"final"`` one result goes out
        for each window, once stream time has passed its end (of a session: its gap) and grace. Then
        results have the headers of the record that closed the window. Each window that closes has
        its result, however far stream time jumps; with a ``Materialized(retention=…)``, results of
        time windows that are older are lost, as in Kafka Streams, counted as dropped, with a
        warning. Tumbling and hopping windows without a grace are shown for two sizes then.

        Without records stream time stands still, and nothing closes. With ``close_idle_after`` all
        windows of a task close once it has had no record for so long, by the clock, and has read
        all there is. Records that come for them later are late. With ``emit_interval`` closed
        windows are looked for with a record once in so long, by the clock; in Kafka Streams that is
        a second. Spark does neither.

        A record that is late for a window is left out of it and counted. With ``late`` it is also
        written to that topic, or given to that function as a ``LateRecord``, once for each window
        that it is late for. The topic gets its key, value, timestamp and headers, and
        headers that say what it was late for and where it was read: ``streamlet.window.start`` and
        ``.window.end``, ``.stream.time``, ``.topic``, ``.partition``, ``.offset``, ``.operator``,
        ``.application``. A function that fails is subject to the error policy.

        - Nulls: a record without a key is left out and counted as dropped; sliding windows do the
          same with one without a value.
        - Key, timestamp, headers: kept.

        Examples:
            >>> per_minute = orders.group_by_key().windowed_by(sl.tumbling("1m"))
            >>> counts = per_minute.count().to_stream()
            >>> counts.map(lambda w, n: (f"{w.key}@{w.start}", n), key=str, value=int).to("counts")
            >>> run(orders=[("lamp", 3, 10), ("lamp", 1, 59_999), ("lamp", 1, 60_000)])
            {'counts': [('lamp@0', 1), ('lamp@0', 2), ('lamp@60000', 1)]}
        """
        if emit not in ("updates", "on_commit", "final"):
            kinds = "'updates', 'on_commit' or 'final'"
            raise TopologyError(f"windowed_by(emit={shown(emit)}): expected {kinds}")
        if emit == "final" and isinstance(windows, UnlimitedWindows):
            raise TopologyError("windowed_by(emit='final'): an unlimited window never closes")
        idle_ms, interval_ms = None, milliseconds("windowed_by(): emit_interval", emit_interval)
        if interval_ms and emit != "final":
            raise TopologyError("windowed_by(emit_interval=…) is for emit='final'")
        if close_idle_after is not None:
            idle_ms = milliseconds("windowed_by(): close_idle_after", close_idle_after, 1)
            if emit != "final":
                raise TopologyError("windowed_by(close_idle_after=…) is for emit='final'")
        return WindowedKStream(
            self, windows, emit=emit, idle_ms=idle_ms, interval_ms=interval_ms, late=late
        )

    def _folded(
        self,
        call: str,
        prefix: str,
        store: StoreLike,
        emit: Emit,
        value: Kind,
        fold: Fold,
        given: str | None,
    ) -> KTable[K, Any]:
        builder, use = self._builder, TableUse()
        spec = builder.store(
            store,
            prefix,
            self._key.needed(call, "key", takes=False),
            value.needed(call, "value", takes=call == "aggregate()"),
        )
        name = builder.graph.new_name(prefix, given)
        parent = self._partitioned(spec, counted=call == "count()")
        held = check_emit(call, emit)
        timed: Timed = "at commits" if held else ""

        def make(context: TaskContext) -> Operator | OperatorInParts:
            kept = context.store(spec.name)
            # Updates that are held are not read, so they need no old values.
            inner = fold(kept, TableUse() if held else use, spec)
            operator = skipping_nulls(name, context, inner, values=True)
            return on_commit(operator, kept, use, context) if held else operator

        flags: NodeFlags = {"timed": timed, "keeps": True}
        if call == "count()":
            flags["values"] = "ignored"
        builder.named_processor(name, (parent,), make, writes=spec.name, **flags)
        return KTable(TableNode(builder, name, use, spec), self._key, value)

    def _partitioned(self, store: StoreSpec, counted: bool) -> str:
        """The node below which records of one key are in one task."""
        if not self._repartition:
            return self._parent
        how = Repartition(
            prefix=self._name or store.name,
            key=self._key.needed(self._call, "key"),
            value=self._value.needed(self._call, "value"),
            named=self._name is not None or store.named,
            counted=counted and self._name is None,  # other folds may read a named topic
            mergeable=True,
        )
        source = self._builder.repartition(self._parent, how)
        if self._name is not None:  # a named topic is written once, however often it is folded
            self._parent, self._repartition = source, False
        return source
