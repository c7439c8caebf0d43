"""``KTable``: for each key the newest value, and the changes that lead there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import attrs

from streamlet.dsl.absent import no_operator
from streamlet.dsl.builder import StreamNode
from streamlet.dsl.functions import check_takes, takes
from streamlet.dsl.grouped_table import KGroupedTable
from streamlet.dsl.inference import pair_types, result_type
from streamlet.dsl.joins import filter_view, map_values_view
from streamlet.dsl.kinds import Kind
from streamlet.dsl.materialized import StoreLike
from streamlet.dsl.suppress import Suppressed, suppressed_node
from streamlet.dsl.table_node import TableNode
from streamlet.dsl.table_table import joined_tables
from streamlet.dsl.tables import TableFilter, TableMapValues, ToStream
from streamlet.dsl.uses import TableUse
from streamlet.serdes import SerdeLike

if TYPE_CHECKING:
    from streamlet.dsl.stream import KStream

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")
G = TypeVar("G")
R = TypeVar("R")


class KTable(Generic[K, V]):
    """A table: a value per key. None in its stream of changes is a tombstone.

    Made by ``App.table`` and by aggregations, never by hand.
    """

    def __init__(self, node: TableNode, key: Kind, value: Kind) -> None:
        self._node = node
        self._key = key
        self._value = value

    if not TYPE_CHECKING:  # type checkers go on to refuse names that are not there
        __getattr__ = no_operator

    @property
    def store(self) -> str:
        """Name of the store that holds the rows, or those they are worked out from."""
        return self._node.store.name

    def filter(self, predicate: Callable[[K, V], object]) -> KTable[K, V]:
        """Rows for which ``predicate(key, value)`` is true.

        A row that passes no more becomes a tombstone. As in Kafka Streams, a row that had not
        passed becomes one, too, where the table comes from ``table`` or ``to_table`` and those were
        not given a ``store=``.

        - Nulls: the predicate never sees a tombstone. One is sent on if the row had passed; of a
          table without ``store=`` in any case.
        - Key, timestamp, headers: those of the record that changed the row.
        """
        return self._filtered("filter()", predicate, keep=True)

    def filter_not(self, predicate: Callable[[K, V], object]) -> KTable[K, V]:
        """Rows for which ``predicate(key, value)`` is false.

        - Nulls: the predicate never sees a tombstone. One is sent on if the row had passed; of a
          table without ``store=`` in any case.
        - Key, timestamp, headers: those of the record that changed the row.
        """
        return self._filtered("filter_not()", predicate, keep=False)

    @overload
    def map_values(
        self, function: Callable[[V], W], *, value: SerdeLike[W] = None
    ) -> KTable[K, W]: ...
    @overload
    def map_values(
        self, function: Callable[[K, V], W], *, value: SerdeLike[W] = None
    ) -> KTable[K, W]: ...
    def map_values(self, function: Callable[..., Any], *, value: Any = None) -> KTable[K, Any]:
        """Each value replaced by ``function(value)`` or ``function(key, value)``.

        ``value`` is the type of the results, where it is written somewhere and cannot be derived
        from the function.

        - Nulls: the function never sees a tombstone, which is sent on. A result None deletes the
          row.
        - Key, timestamp, headers: those of the record that changed the row.
        """
        count = takes("map_values()", function, "key", "value")
        above = self._node
        use = TableUse(parent=above.use)
        above.use.shown = True
        name = above.builder.processor(
            "KTABLE-MAPVALUES-", (above.name,), lambda _: TableMapValues(function, count, use)
        )
        views = (*above.views, map_values_view(function, count))
        node = attrs.evolve(above, name=name, use=use, views=views)
        inferred = result_type(function, *(self._key.of, self._value.of)[-count:])
        return KTable(node, self._key, Kind.of_result(value, inferred, "map_values()", "value"))

    def group_by(
        self,
        function: Callable[[K, V], tuple[G | None, W | None]],
        *,
        key: SerdeLike[G] = None,
        value: SerdeLike[W] = None,
        name: str | None = None,
    ) -> KGroupedTable[G, W]:
        """Rows by the key that ``function(key, value)`` gives, which returns ``(key, value)``.

        ``key`` and ``value`` are the types of these, where they cannot be derived from the
        function. A fold of the groups adds new rows and subtracts old ones; both go through a
        repartition topic, whose name ``name`` begins.

        - Nulls: a row whose new key or value is None is in no group.
        - Key: the first of the pair.
        - Timestamp, headers: those of the record that changed the row.
        """
        check_takes("group_by()", function, "key", "value")
        inferred = pair_types(result_type(function, self._key.of, self._value.of))
        kinds = (
            Kind.of_result(key, inferred[0], "group_by()", "key"),
            Kind.of_result(value, inferred[1], "group_by()", "value"),
        )
        return KGroupedTable(self._node, function, *kinds, name)

    def join(
        self,
        other: KTable[K, W],
        joiner: Callable[[V, W], R] | Callable[[K, V, W], R],
        *,
        value: SerdeLike[R] = None,
        store: StoreLike = None,
    ) -> KTable[K, R]:
        """Rows that both tables have, as ``joiner(left, right)`` or ``joiner(key, left, right)``.

        Each change of either table changes the join. ``value`` is the type of the results, where it
        is written somewhere and cannot be derived from the joiner. With ``store`` the results have
        a store; else they are worked out from the rows of both tables where they are read. The
        tables need equal partition counts.

        - Nulls: the joiner never sees one; where one row is deleted, so is that of the join.
        - Timestamp: the highest of the two rows.
        - Key, headers: those of the record that changed the row.
        """
        return self._join("join()", other, joiner, value, store)

    def left_join(
        self,
        other: KTable[K, W],
        joiner: Callable[[V, W | None], R] | Callable[[K, V, W | None], R],
        *,
        value: SerdeLike[R] = None,
        store: StoreLike = None,
    ) -> KTable[K, R]:
        """All rows of this table, with those of the other where there are any.

        As ``join``, but the joiner gets None for a row that the other table does not have.

        - Nulls: the joiner gets None for a right row only.
        - Timestamp: the highest of the two rows.
        - Key, headers: those of the record that changed the row.
        """
        return self._join("left_join()", other, joiner, value, store)

    def outer_join(
        self,
        other: KTable[K, W],
        joiner: Callable[[V | None, W | None], R] | Callable[[K, V | None, W | None], R],
        *,
        value: SerdeLike[R] = None,
        store: StoreLike = None,
    ) -> KTable[K, R]:
        """All rows of both tables.

        As ``join``, but the joiner gets None for a row that one table does not have.

        - Nulls: the joiner gets None for one of the rows, never for both.
        - Timestamp: the highest of the two rows.
        - Key, headers: those of the record that changed the row.
        """
        return self._join("outer_join()", other, joiner, value, store)

    def _join(
        self, call: str, other: Any, joiner: Any, value: Any, store: StoreLike
    ) -> KTable[K, Any]:
        node, result = joined_tables(call, self, other, joiner, value, store)
        return KTable(node, self._key, result)

    def suppress(self, until: Suppressed, *, store: StoreLike = None) -> KTable[K, V]:
        """The same rows, but fewer changes: updates wait, and only the last of each key is sent.

        ``until`` says how long: ``until_window_closes()``, for one final result of each window of
        ``windowed_by``, or ``until_time_limit("10s")``. What waits is kept in a store, whose name
        is ``store``.

        - Nulls: a tombstone waits like any update; that of a window that closes is not sent.
        - Key, timestamp, headers: those of the record that changed the row.

        Raises:
            TopologyError: the table's windows never close, or it has none.
        """
        node = suppressed_node(self._node, until, store, self._key, self._value)
        return KTable(node, self._key, self._value)

    def to_stream(self) -> KStream[K, V]:
        """The changes as a stream; a deletion is a record without a value.

        - Nulls: a tombstone becomes a record whose value is None.
        - Key, timestamp, headers: those of the record that changed the row.
        """
        # Streams make tables and tables make streams; this one import has to wait.
        from streamlet.dsl.stream import KStream

        above = self._node
        name = above.builder.processor("KTABLE-TOSTREAM-", (above.name,), lambda _: ToStream())
        return KStream(StreamNode(above.builder, name, uses=(above.use,)), self._key, self._value)

    def _filtered(self, call: str, predicate: Callable[[K, V], object], keep: bool) -> KTable[K, V]:
        check_takes(call, predicate, "key", "value")
        above = self._node
        # Without the previous value every row that does not pass sends a tombstone.
        above.use.wish_olds()
        above.use.shown = True
        name = above.builder.processor(
            "KTABLE-FILTER-", (above.name,), lambda _: TableFilter(predicate, keep)
        )
        views = (*above.views, filter_view(predicate, keep))
        use = TableUse(parent=above.use)
        return KTable(attrs.evolve(above, name=name, use=use, views=views), self._key, self._value)

    def _joined(self) -> TableNode:
        """The row store and notes that a stream needs to join this table."""
        return self._node
