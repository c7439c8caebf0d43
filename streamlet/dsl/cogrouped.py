"""``CogroupedKStream``: several grouped streams that are folded into one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from streamlet.absent import explains_misuse
from streamlet.arguments import calls_told_by_form, check_is, never_by_hand
from streamlet.dsl.folds.none_results import name_operator, noticed
from streamlet.dsl.folds.stream_folds import Aggregate
from streamlet.dsl.graph.builder import Builder
from streamlet.dsl.graph.functions import check_begins, check_takes
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.graph.materialized import StoreLike
from streamlet.dsl.graph.one_app import same_app
from streamlet.dsl.graph.ownership import with_own_key
from streamlet.dsl.graph.repartitions import Repartition
from streamlet.dsl.graph.table_node import TableNode
from streamlet.dsl.graph.uses import TableUse
from streamlet.dsl.operators.stateless import PassOn
from streamlet.dsl.table import KTable
from streamlet.dsl.windowing.folding import BoundFolding, Folding, noticed_folding
from streamlet.dsl.windowing.late_records import Late, LateRecord, add_late, check_late
from streamlet.dsl.windowing.stores import (
    WindowStoreOf,
    check_merger,
    skipped_nulls,
    window_operator,
)
from streamlet.dsl.windowing.windows import UnlimitedWindows, Windows, check_windows
from streamlet.errors import TopologyError
from streamlet.lazy_results import looking
from streamlet.serdes import Serde, SerdeLike, Windowed
from streamlet.state.store_specs import StoreSpec
from streamlet.topology.operator import Operator, TaskContext

if TYPE_CHECKING:
    from streamlet.dsl.grouped import Initializer, KGroupedStream

K = TypeVar("K")
W = TypeVar("W")
A = TypeVar("A")


#: Grouped streams with their aggregators.
Streams: TypeAlias = "tuple[tuple[KGroupedStream[Any, Any], Any], ...]"


@explains_misuse
@never_by_hand("KGroupedStream.cogroup() makes it")
@calls_told_by_form
class CogroupedKStream(Generic[K, A]):
    """Made by ``KGroupedStream.cogroup``: grouped streams, each with its own aggregator."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def cogroup(
        self, grouped: KGroupedStream[K, W], aggregator: Callable[[K, W, A], A | None]
    ) -> CogroupedKStream[K, A]:
        """Adds a grouped stream, whose records ``aggregator(key, value, aggregate)`` takes.

        - Nulls: records without a key or a value are left out and counted as dropped.
        - Key, timestamp, headers: kept.

        Raises:
            TopologyError: it has other keys, or is of another application.

        Examples:
            >>> returns = app.stream("returns", key=str, value=int)
            >>> sold = orders.group_by_key().cogroup(lambda item, pieces, left: left + pieces)
            >>> back = returns.group_by_key()
            >>> both = sold.cogroup(back, lambda item, pieces, left: left - pieces)
            >>> both.aggregate(lambda: 0).to_stream().to("sold")
            >>> run(orders=[("lamp", 3)], returns=[("lamp", 1)])
            {'sold': [('lamp', 3), ('lamp', 2)]}
        """
        check_takes("cogroup()", aggregator, "key", "value", "aggregate")
        first = self._streams[0][0]
        check_is("cogroup()", grouped, (type(first),), "a grouped stream")
        same_app("cogroup()", first._builder, grouped._builder)
        names = [one._key.serde.name for one in (first, grouped) if one._key.serde is not None]
        if len(set(names)) > 1:
            raise TopologyError(
                f"cogroup(): keys of one stream are {names[0]}, those of another {names[1]}; "
                "group_by() can make them alike"
            )
        own = with_own_key(aggregator, grouped._key)
        return CogroupedKStream((*self._streams, (grouped, own)))

    def windowed_by(
        self,
        windows: Windows,
        *,
        late: str | Callable[[LateRecord[K, Any]], object] | None = None,
    ) -> WindowedCogroupedKStream[K, A]:
        """The same records in windows: ``tumbling``, ``hopping``, ``sliding``, ``session``.

        The keys of the table that ``aggregate`` makes are ``Windowed``. ``late`` is a topic or a
        function for late records of all streams, as of ``KGroupedStream.windowed_by``; the topic
        gets them as the serdes of their streams write them. There is no ``emit``: the result of
        each record is sent on, and ``suppress`` behind the table keeps results back.

        - Nulls: a record without a key is left out and counted as dropped; sliding windows do the
          same with one without a value.
        - Key, timestamp, headers: kept.

        Examples:
            >>> seen = orders.group_by_key().cogroup(lambda item, pieces, n: n + 1)
            >>> per_minute = seen.windowed_by(sl.tumbling("1m")).aggregate(lambda: 0)
            >>> per_minute.to_stream(lambda window, n: window.key, key=str).to("per-minute")
            >>> run(orders=[("lamp", 3, 0), ("lamp", 1, 1), ("lamp", 1, 60_000)])
            {'per-minute': [('lamp', 1), ('lamp', 2), ('lamp', 1)]}
        """
        check_windows("windowed_by()", windows)
        check_late(late)
        return WindowedCogroupedKStream(self, windows, late=late)

    def aggregate(
        self,
        initializer: Initializer[A],
        *,
        value: SerdeLike[A] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[K, A]:
        """The aggregate of all streams per key, beginning with ``initializer()``.

        An aggregator may change and return the aggregate. ``value`` is the aggregate's type;
        without it, that of ``initializer()``, which is called once for this. ``store`` is the
        store's name, or a ``Materialized``. The streams need equal partition counts.

        - Nulls: records without a key or a value are left out and counted as dropped. A result None
          deletes the row.
        - Timestamp: the highest among the records of the row since it began.
        - Key, headers: those of the record that changed the row.

        Examples:
            >>> items = orders.group_by_key()
            >>> histories = items.cogroup(lambda item, pieces, texts: [*texts, str(pieces)])
            >>> histories.aggregate(list, value=sl.json()).to_stream().to("histories")
            >>> run(orders=[("lamp", 3), ("lamp", 2)])
            {'histories': [('lamp', ['3']), ('lamp', ['3', '2'])]}
        """
        check_begins("aggregate()", initializer)
        first = self._streams[0][0]
        builder, use = first._builder, TableUse()
        kind = builder.aggregate(value, initializer)
        spec = builder.store(
            store,
            "COGROUPKSTREAM-AGGREGATE-",
            first._key.needed("aggregate()", "key", takes=False),
            kind.needed("aggregate()", "value"),
        )
        make = [folding(spec, use, initializer, aggregator) for _, aggregator in self._streams]
        node = merged(self._streams, spec, make, "key value", name)
        return KTable(TableNode(builder, node, use, spec), first._key, kind)


@explains_misuse
@never_by_hand("CogroupedKStream.windowed_by() makes it")
@calls_told_by_form
class WindowedCogroupedKStream(Generic[K, A]):
    """Made by ``CogroupedKStream.windowed_by``."""

    def __init__(
        self, cogrouped: CogroupedKStream[K, A], windows: Windows, *, late: Late | None
    ) -> None:
        self._streams = cogrouped._streams
        self._windows = windows
        self._late = late

    def aggregate(
        self,
        initializer: Initializer[A],
        merger: Callable[[K, A, A], A] | None = None,
        *,
        value: SerdeLike[A] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], A]:
        """The aggregate of all streams per key and window.

        As ``CogroupedKStream.aggregate``. Sessions need a ``merger``, ``(key, aggregate, aggregate)
        -> aggregate``, for records that join two of them. A record is late by the stream time of
        its own stream, as in Kafka Streams.

        - Nulls: records without a key are left out and counted as dropped. The aggregators get
          values that are None, but not those of sliding windows. A result None deletes the row.
        - Key: the record's with the window.
        - Timestamp: the highest of the records in the window.
        - Headers: those of the record that changed the row.

        Examples:
            >>> pieces = orders.group_by_key().cogroup(lambda item, pieces, total: total + pieces)
            >>> totals = pieces.windowed_by(sl.hopping("2m", "1m")).aggregate(lambda: 0)
            >>> starts = totals.to_stream(lambda window, n: f"{window.key}@{window.start}", key=str)
            >>> starts.to("totals")
            >>> run(orders=[("lamp", 3, 60_000)])
            {'totals': [('lamp@0', 3), ('lamp@60000', 3)]}
        """
        check_begins("aggregate()", initializer)
        check_merger(self._windows, merger)
        first, windows, use = self._streams[0][0], self._windows, TableUse()
        kind = first._builder.aggregate(value, initializer)
        key = first._key.needed("aggregate()", "key", takes=False)
        of = WindowStoreOf(windows, False, key, kind.needed("aggregate()", "value"))
        spec = of.added(first._builder, "aggregate()", "COGROUPKSTREAM-AGGREGATE-", store)
        folds = [
            noticed_folding(
                Folding(
                    looking(initializer),
                    aggregator,
                    merger and looking(with_own_key(merger, grouped._key)),
                ),
                of.value,
            )
            for grouped, aggregator in self._streams
        ]
        make = [
            windowed_folding(spec, windows, use, of.value, fold, stream)
            for stream, fold in enumerate(folds)
        ]
        node = merged(self._streams, spec, make, skipped_nulls(windows), name, self._late)
        closing = None if isinstance(windows, UnlimitedWindows) else windows
        table = TableNode(first._builder, node, use, spec, windows=closing)
        return KTable(table, Kind(windows.serde(key), Windowed), kind)


#: ``(name of the node) -> factory of its operator``.
MakeNamed: TypeAlias = Callable[[str], Callable[[TaskContext], Operator]]


def merged(
    streams: Streams,
    spec: StoreSpec,
    make: Sequence[MakeNamed],
    skip_nulls: str,
    given: str | None,
    late: Late | None = None,
) -> str:
    """The node behind those that fold one stream each; late records of all go to ``late``."""
    builder, folds = streams[0][0]._builder, []
    for number, ((grouped, _), made) in enumerate(zip(streams, make, strict=True)):
        parent = partitioned(builder, grouped, spec, number)
        name = builder.graph.new_name("COGROUPKSTREAM-AGGREGATE-", given, f"-cogroup-agg-{number}")
        builder.named_processor(
            name, (parent,), made(name), writes=spec.name, skip_nulls=skip_nulls, keeps=True
        )
        folds.append(name)
    name = builder.graph.new_name("COGROUPKSTREAM-MERGE-", given, "-cogroup-merge")
    builder.named_processor(name, tuple(folds), lambda _: PassOn(), values="passed on")
    if late is not None:
        for fold, (grouped, _) in zip(folds, streams, strict=True):
            add_late(builder, fold, late, grouped._key, grouped._value)
    return name


def folding(spec: StoreSpec, use: TableUse, initializer: Any, aggregator: Any) -> MakeNamed:
    """A factory of the operator of one stream."""
    step, begin = noticed(aggregator, spec.value, 2), looking(initializer)

    def named(name: str) -> Callable[[TaskContext], Operator]:
        name_operator(name, step)
        return lambda context: Aggregate(context.store(spec.name), begin, step, spec.value, use)

    return named


def windowed_folding(
    spec: StoreSpec,
    windows: Windows,
    use: TableUse,
    value: Serde[Any],
    fold: Folding,
    stream: int,
) -> MakeNamed:
    """A factory of the operator that folds one stream into windows; ``stream`` is its number."""

    def named(name: str) -> Callable[[TaskContext], Operator]:
        name_operator(name, fold.step, fold.merge)
        return lambda context: window_operator(
            name, context, spec, windows, BoundFolding.bind(fold, value), use, stream
        )

    return named


def partitioned(
    builder: Builder, grouped: KGroupedStream[Any, Any], store: StoreSpec, number: int
) -> str:
    """The node below which records of one key are in one task; ``number`` is the stream's."""
    if not grouped._repartition or grouped._name is not None or number == 0:
        return grouped._partitioned(store, counted=False)
    how = Repartition(
        prefix=f"{store.name}-{number}",
        key=grouped._key.needed(grouped._call, "key"),
        value=grouped._value.needed(grouped._call, "value"),
        named=store.named,
        mergeable=True,
    )
    return builder.repartition(grouped._parent, how)
