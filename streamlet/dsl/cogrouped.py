"""``CogroupedKStream``: several grouped streams that are folded into one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from streamlet.dsl.absent import no_operator
from streamlet.dsl.aggregations import Aggregate
from streamlet.dsl.builder import Builder, Repartition, same_app
from streamlet.dsl.functions import check_takes
from streamlet.dsl.inference import UNKNOWN
from streamlet.dsl.kinds import Kind
from streamlet.dsl.materialized import StoreLike
from streamlet.dsl.stateless import PassOn
from streamlet.dsl.table import KTable
from streamlet.dsl.table_node import TableNode
from streamlet.dsl.uses import TableUse
from streamlet.errors import TopologyError
from streamlet.serdes import SerdeLike
from streamlet.topology.nodes import StoreSpec
from streamlet.topology.operator import Operator, TaskContext

if TYPE_CHECKING:
    from streamlet.dsl.grouped import Initializer, KGroupedStream

K = TypeVar("K")
W = TypeVar("W")
A = TypeVar("A")


class CogroupedKStream(Generic[K, A]):
    """Made by ``KGroupedStream.cogroup``: grouped streams, each with its own aggregator."""

    def __init__(self, streams: tuple[tuple[KGroupedStream[K, Any], Any], ...]) -> None:
        self._streams = streams

    if not TYPE_CHECKING:  # type checkers go on to refuse names that are not there
        __getattr__ = no_operator

    def cogroup(
        self, grouped: KGroupedStream[K, W], aggregator: Callable[[K, W, A], A | None]
    ) -> CogroupedKStream[K, A]:
        """Adds a grouped stream, whose records ``aggregator(key, value, aggregate)`` takes.

        - Nulls: records without a key or a value are left out and counted as dropped.
        - Key, timestamp, headers: kept.

        Raises:
            TopologyError: it has other keys, or is of another application.
        """
        check_takes("cogroup()", aggregator, "key", "value", "aggregate")
        first = self._streams[0][0]
        same_app("cogroup()", first._builder, grouped._builder)
        names = [one._key.serde.name for one in (first, grouped) if one._key.serde is not None]
        if len(set(names)) > 1:
            raise TopologyError(
                f"cogroup(): keys of one stream are {names[0]}, those of another {names[1]}; "
                "group_by() can make them alike"
            )
        return CogroupedKStream((*self._streams, (grouped, aggregator)))

    def aggregate(
        self, initializer: Initializer[A], *, value: SerdeLike[A] = None, store: StoreLike = None
    ) -> KTable[K, A]:
        """The aggregate of all streams per key, beginning with ``initializer()``.

        An aggregator may change and return the aggregate. ``value`` is the aggregate's type;
        without it, that of ``initializer()``, which is called once for this. ``store`` is the
        store's name, or a ``Materialized``. The streams need equal partition counts.

        - Nulls: records without a key or a value are left out and counted as dropped. A result None
          deletes the row.
        - Timestamp: the highest among the records of the row since it began.
        - Key, headers: those of the record that changed the row.
        """
        from streamlet.dsl.grouped import first_type

        check_takes("aggregate()", initializer)
        inferred = first_type(initializer) if value is None else UNKNOWN
        kind = Kind.of_result(value, inferred, "aggregate()", "value")
        first = self._streams[0][0]
        builder, use = first._builder, TableUse()
        spec = builder.store(
            store,
            "COGROUPKSTREAM-AGGREGATE-",
            first._key.needed("aggregate()", "key", takes=False),
            kind.needed("aggregate()", "value"),
        )
        folds = []
        for number, (grouped, aggregator) in enumerate(self._streams):
            grouped._show()
            parent = partitioned(builder, grouped, spec, number)
            make = folding(spec, use, initializer, aggregator)
            folds.append(
                builder.processor(
                    "COGROUPKSTREAM-AGGREGATE-",
                    (parent,),
                    make,
                    writes=spec.name,
                    skip_nulls="key value",
                )
            )
        name = builder.processor("COGROUPKSTREAM-MERGE-", tuple(folds), lambda _: PassOn())
        return KTable(TableNode(builder, name, use, spec), first._key, kind)


def folding(
    spec: StoreSpec, use: TableUse, initializer: Any, aggregator: Any
) -> Callable[[TaskContext], Operator]:
    """A factory of the operator of one stream."""
    return lambda context: Aggregate(
        context.store(spec.name), initializer, aggregator, spec.value, use
    )


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
    )
    return builder.repartition(grouped._parent, how)
