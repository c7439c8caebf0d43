"""``KTable``: for each key the newest value, and the changes that lead there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from streamlet.absent import explains_misuse
from streamlet.arguments import calls_told_by_form, never_by_hand
from streamlet.dsl.foreign_keys.nodes import joined_by_foreign_key
from streamlet.dsl.graph.functions import check_takes, takes
from streamlet.dsl.graph.inference import pair_types, result_type
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.graph.materialized import StoreLike
from streamlet.dsl.graph.ownership import owner_of, with_own_key
from streamlet.dsl.graph.stream_node import StreamNode
from streamlet.dsl.graph.table_node import TableNode
from streamlet.dsl.graph.table_views import filter_view, map_values_view
from streamlet.dsl.grouped_table import KGroupedTable
from streamlet.dsl.joins.table_table import joined_tables
from streamlet.dsl.operators.stateless import ToStream
from streamlet.dsl.rows.derived import Derivation, TableFilter, TableMapValues, derived
from streamlet.dsl.suppressing.until import Suppressed, suppressed_node
from streamlet.errors import TopologyError
from streamlet.serdes import SerdeLike
from streamlet.topology.drawing import picture_of

if TYPE_CHECKING:
    from streamlet.dsl.stream import KStream

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")
G = TypeVar("G")
F = TypeVar("F")
R = TypeVar("R")


@explains_misuse
@never_by_hand("App.table(), aggregations and the methods of tables make it")
@calls_told_by_form
class KTable(Generic[K, V]):
    """A table: a value per key. None in its stream of changes is a tombstone.

    Made by ``App.table`` and by aggregations, never by hand. ``name`` is that of the operator's
    node in the topology, as of ``KStream``.
    """

    def __init__(self, node: TableNode, key: Kind, value: Kind) -> None:
        self._node = node
        self._key = key
        self._value = value

    def __repr__(self) -> str:
        kinds = ", ".join(kind.shown for kind in (self._key, self._value))
        return f"KTable[{kinds}] of {self._node.name}"

    def _repr_html_(self) -> str:
        """The topology so far as a picture, for notebooks; the node of this stands out."""
        return picture_of(self._node.builder.graph, marked=self._node.name)

    @property
    def store(self) -> str:
        """Name of the store with the rows, or with the rows that they are derived from."""
        return self._node.store.name

    # Row by row.

    def filter(
        self,
        predicate: Callable[[K, V], object],
        *,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """Rows for which ``predicate(key, value)`` is true.

        A row that passes no more becomes a tombstone. As in Kafka Streams, a row that had not
        passed becomes one, too, where the table comes from ``table`` or ``to_table`` and those were
        not given a ``store=``, or one with a history. With ``store`` the rows that pass have a
        store of that name; else they are worked out from those of this table where they are read.

        - Nulls: the predicate never sees a tombstone. One is sent on if the row had passed; of a
          table without ``store=`` in any case.
        - Key, timestamp, headers: those of the record that changed the row.

        Examples:
            >>> prices.filter(lambda item, price: price < 50).to_stream().to("cheap")
            >>> run(prices=[("lamp", 20), ("lamp", 60)])
            {'cheap': [('lamp', 20), ('lamp', None)]}
        """
        return self._filtered("filter()", predicate, store, name, keep=True)

    def filter_not(
        self,
        predicate: Callable[[K, V], object],
        *,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """Rows for which ``predicate(key, value)`` is false; ``store`` as of ``filter``.

        - Nulls: the predicate never sees a tombstone. One is sent on if the row had passed; of a
          table without ``store=`` in any case.
        - Key, timestamp, headers: those of the record that changed the row.

        Examples:
            >>> prices.filter_not(lambda item, price: price < 50).to_stream().to("dear")
            >>> run(prices=[("desk", 80)])
            {'dear': [('desk', 80)]}
        """
        return self._filtered("filter_not()", predicate, store, name, keep=False)

    @overload
    def map_values(
        self,
        function: Callable[[V], W],
        *,
        value: SerdeLike[W] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[K, W]: ...
    @overload
    def map_values(
        self,
        function: Callable[[K, V], W],
        *,
        value: SerdeLike[W] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[K, W]: ...
    def map_values(
        self,
        function: Callable[..., Any],
        *,
        value: Any = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[K, Any]:
        """Each value replaced by ``function(value)`` or ``function(key, value)``.

        ``value`` is the type of the results, where it is written somewhere and cannot be derived
        from the function. With ``store`` the results have a store of that name; else they are
        worked out from the rows of this table where they are read.

        - Nulls: the function never sees a tombstone, which is sent on. A result None deletes the
          row.
        - Key, timestamp, headers: those of the record that changed the row.

        Examples:
            >>> prices.map_values(lambda price: price * 2, value=int).to_stream().to("doubled")
            >>> run(prices=[("lamp", 20), ("lamp", None)])
            {'doubled': [('lamp', 40), ('lamp', None)]}
        """
        return self._mapped("map_values()", function, value, store, name)

    @overload
    def transform_values(
        self,
        function: Callable[[V | None], W],
        *,
        value: SerdeLike[W] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[K, W]: ...
    @overload
    def transform_values(
        self,
        function: Callable[[K, V | None], W],
        *,
        value: SerdeLike[W] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[K, W]: ...
    def transform_values(
        self,
        function: Callable[..., Any],
        *,
        value: Any = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[K, Any]:
        """Like ``map_values``, and the function sees tombstones too and may make values of them.

        Without ``store`` it is also asked for rows that are not there, where they are looked up.

        - Nulls: the function gets a tombstone as None. A result None deletes the row.
        - Key, timestamp, headers: those of the record that changed the row.

        Examples:
            >>> def label(price: int | None) -> str:
            ...     return "sold out" if price is None else f"{price} euros"
            >>> prices.transform_values(label).to_stream().to("labels")
            >>> run(prices=[("lamp", 20), ("lamp", None)])
            {'labels': [('lamp', '20 euros'), ('lamp', 'sold out')]}
        """
        return self._mapped("transform_values()", function, value, store, name)

    # Joins.

    @overload
    def join(
        self,
        other: KTable[K, W],
        joiner: Callable[[V, W], R] | Callable[[K, V, W], R],
        *,
        value: SerdeLike[R] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[F, W],
        joiner: Callable[[V, W], R],
        *,
        foreign_key: Callable[[V], F | None] | Callable[[K, V], F | None],
        value: SerdeLike[R] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[F, W],
        joiner: Callable[[K, V, W], R],
        *,
        foreign_key: Callable[[V], F | None] | Callable[[K, V], F | None],
        value: SerdeLike[R] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[F, W],
        joiner: Callable[[K, F, V, W], R],
        *,
        foreign_key: Callable[[V], F | None] | Callable[[K, V], F | None],
        value: SerdeLike[R] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...
    def join(
        self,
        other: Any,
        joiner: Callable[..., Any],
        *,
        foreign_key: Callable[..., Any] | None = None,
        value: Any = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[K, Any]:
        """Rows that both tables have, as ``joiner(left, right)`` or ``joiner(key, left, right)``.

        Each change of either table changes the join. ``value`` is the type of the results, where it
        is written somewhere and cannot be derived from the joiner. With ``store`` the results have
        a store; else they are worked out from the rows of both tables where they are read. The
        tables need equal partition counts. ``name`` is that of the node.

        With ``foreign_key``, a function of ``(value)`` or ``(key, value)``, each row of this table
        is joined with the row of the other one whose key that gives; the results have the keys of
        this table. The joiner may also take ``(key, foreign_key, left, right)``. Two topics lead
        from the one table to the other and back, so partition counts may differ; a change of a row
        of the other table is sent to all rows that name it. ``name`` is what the names of the
        topics and of the store of what was asked for begin with. The results have a store in any
        case. Rows of this table are told apart by their bytes, so a pair of functions of yours for
        its values must write a value that it has read in the same bytes again.

        - Nulls: the joiner never sees one; where one row is deleted, so is that of the join. A row
          whose foreign key is None has no match, and is counted as dropped.
        - Timestamp: the highest of the two rows; with a foreign key, of a change of the other table
          its own.
        - Key, headers: those of the record that changed the row; with a foreign key always the key
          of this table.

        Examples:
            >>> stock = app.table("stock", key=str, value=int)
            >>> worth = prices.join(stock, lambda price, pieces: price * pieces, value=int)
            >>> worth.to_stream().to("worth")
            >>> run(prices=[("lamp", 20)], stock=[("lamp", 3), ("desk", 1)])
            {'worth': [('lamp', 60)]}
        """
        result = value, store, name
        return self._join("join()", other, joiner, foreign_key, result)

    @overload
    def left_join(
        self,
        other: KTable[K, W],
        joiner: Callable[[V, W | None], R] | Callable[[K, V, W | None], R],
        *,
        value: SerdeLike[R] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[F, W],
        joiner: Callable[[V, W | None], R],
        *,
        foreign_key: Callable[[V], F | None] | Callable[[K, V], F | None],
        value: SerdeLike[R] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[F, W],
        joiner: Callable[[K, V, W | None], R],
        *,
        foreign_key: Callable[[V], F | None] | Callable[[K, V], F | None],
        value: SerdeLike[R] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[F, W],
        joiner: Callable[[K, F | None, V, W | None], R],
        *,
        foreign_key: Callable[[V], F | None] | Callable[[K, V], F | None],
        value: SerdeLike[R] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...
    def left_join(
        self,
        other: Any,
        joiner: Callable[..., Any],
        *,
        foreign_key: Callable[..., Any] | None = None,
        value: Any = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[K, Any]:
        """All rows of this table, with those of the other where there are any.

        As ``join``, with ``foreign_key`` too, but the joiner gets None for a row that the other
        table does not have.

        - Nulls: the joiner gets None for a right row only, also where the foreign key is None.
        - Timestamp: the highest of the two rows; with a foreign key, of a change of the other table
          its own.
        - Key, headers: those of the record that changed the row; with a foreign key always the key
          of this table.

        Examples:
            >>> stock = app.table("stock", key=str, value=int)
            >>> def shown(price: int, pieces: int | None) -> str:
            ...     return f"{price}, {pieces or 'none'} left"
            >>> prices.left_join(stock, shown).to_stream().to("shown")
            >>> run(prices=[("lamp", 20)], stock=[("lamp", 3)])
            {'shown': [('lamp', '20, none left'), ('lamp', '20, 3 left')]}
        """
        result = value, store, name
        return self._join("left_join()", other, joiner, foreign_key, result)

    def outer_join(
        self,
        other: KTable[K, W],
        joiner: Callable[[V | None, W | None], R] | Callable[[K, V | None, W | None], R],
        *,
        value: SerdeLike[R] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[K, R]:
        """All rows of both tables.

        As ``join``, but the joiner gets None for a row that one table does not have.

        - Nulls: the joiner gets None for one of the rows, never for both.
        - Timestamp: the highest of the two rows.
        - Key, headers: those of the record that changed the row.

        Examples:
            >>> stock = app.table("stock", key=str, value=int)
            >>> def known(price: int | None, pieces: int | None) -> str:
            ...     return f"price {price}, stock {pieces}"
            >>> prices.outer_join(stock, known).to_stream().to("known")
            >>> run(prices=[("lamp", 20)], stock=[("desk", 3)])
            {'known': [('lamp', 'price 20, stock None'), ('desk', 'price None, stock 3')]}
        """
        return self._join("outer_join()", other, joiner, None, (value, store, name))

    # What becomes of its changes.

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
        repartition topic, whose name ``name`` begins, and which is that of the node.

        - Nulls: a row whose new key or value is None is in no group.
        - Key: the first of the pair.
        - Timestamp, headers: those of the record that changed the row.

        Examples:
            >>> by_price = prices.group_by(lambda item, price: (price, item), key=int, value=str)
            >>> by_price.count().to_stream().to("items-per-price")
            >>> run(prices=[("lamp", 20), ("desk", 20), ("desk", 80)])
            {'items-per-price': [(20, 1), (20, 2), (20, 1), (80, 1)]}
        """
        check_takes("group_by()", function, "key", "value")
        inferred = pair_types(result_type(function, self._key.of, self._value.of))
        kinds = self._node.builder.results((key, value), inferred, "group_by()")
        return KGroupedTable(self._node, with_own_key(function, self._key), *kinds, name)

    def suppress(
        self, until: Suppressed, *, store: StoreLike = None, name: str | None = None
    ) -> KTable[K, V]:
        """The same rows, but fewer changes: updates wait, and only the last of each key is sent.

        ``until`` says how long: ``until_window_closes()``, for one final result of each window of
        ``windowed_by``, or ``until_time_limit("10s")``. What waits is kept in a store, whose name
        is ``store``; without it, ``name`` with ``-store`` behind it, if the node is given one.

        - Nulls: a tombstone waits like any update; that of a window that closes is not sent.
        - Key, timestamp, headers: those of the record that changed the row.

        Raises:
            TopologyError: the table's windows never close, or it has none.

        Examples:
            >>> prices.suppress(sl.until_time_limit("10s")).to_stream().to("settled")
            >>> run(prices=[("lamp", 20, 0), ("lamp", 25, 5_000), ("desk", 80, 20_000)])
            {'settled': [('lamp', 25)]}
        """
        node = suppressed_node(self._node, until, store, self._key, self._value, name)
        return KTable(node, self._key, self._value)

    @overload
    def to_stream(self, *, name: str | None = None) -> KStream[K, V]: ...
    @overload
    def to_stream(
        self,
        function: Callable[[K, V | None], G],
        *,
        key: SerdeLike[G] = None,
        name: str | None = None,
    ) -> KStream[G, V]: ...
    def to_stream(
        self,
        function: Callable[[K, Any], Any] | None = None,
        *,
        key: Any = None,
        name: str | None = None,
    ) -> KStream[Any, V]:
        """The changes as a stream; a deletion is a record without a value.

        With a ``function`` the keys are what ``function(key, value)`` gives, as by ``select_key``;
        ``key`` is their type, where it is written somewhere and cannot be derived.

        - Nulls: a tombstone becomes a record whose value is None.
        - Key, timestamp, headers: those of the record that changed the row.

        Examples:
            >>> prices.to_stream(lambda item, price: item.upper(), key=str).to("changes")
            >>> run(prices=[("lamp", 20), ("lamp", None)])
            {'changes': [('LAMP', 20), ('LAMP', None)]}
        """
        # Streams make tables and tables make streams; this one import has to wait.
        from streamlet.dsl.stream import KStream

        if key is not None and function is None:
            raise TopologyError("to_stream(key=) is the type of what a function gives: pass it too")
        above = self._node
        own = above.builder.processor(
            "KTABLE-TOSTREAM-", (above.name,), lambda _: ToStream(), name=name, values="passed on"
        )
        node = StreamNode(above.builder, own)
        stream: KStream[K, V] = KStream(node, self._key, self._value)
        return stream if function is None else stream.select_key(function, key=key)

    # Inside.

    def _filtered(
        self,
        call: str,
        predicate: Callable[[K, V], object],
        store: StoreLike,
        name: str | None,
        keep: bool,
    ) -> KTable[K, V]:
        check_takes(call, predicate, "key", "value")
        versioned = self._node.history_ms is not None
        own = with_own_key(predicate, self._key)
        how = Derivation(
            call,
            "KTABLE-FILTER-",
            lambda _: TableFilter(own, keep, versioned),
            filter_view(own, keep),
            silent=not versioned,
            name=name,
        )
        node = derived(self._node, how, store, self._key, self._value)
        return KTable(node, self._key, self._value)

    def _mapped(
        self, call: str, function: Any, value: Any, store: StoreLike, name: str | None
    ) -> KTable[K, Any]:
        """The table of ``map_values`` or ``transform_values``, which sees tombstones."""
        count, all_ = takes(call, function, "key", "value"), call == "transform_values()"
        inferred = result_type(function, *(self._key.of, self._value.of)[-count:])
        kind = self._node.builder.result(value, inferred, call, "value")
        own, function = owner_of(kind), with_own_key(function, self._key, count == 2)
        how = Derivation(
            call,
            "KTABLE-TRANSFORMVALUES-" if all_ else "KTABLE-MAPVALUES-",
            lambda use: TableMapValues(function, count, use, own, all_),
            map_values_view(function, count, own, all_),
            name=name,
        )
        return KTable(derived(self._node, how, store, self._key, kind), self._key, kind)

    def _join(
        self,
        call: str,
        other: Any,
        joiner: Any,
        foreign_key: Any,
        result: tuple[Any, StoreLike, str | None],
    ) -> KTable[K, Any]:
        value, store, name = result
        if not isinstance(other, KTable):
            from streamlet.dsl.stream import KStream

            wrong = f"{call}: a table joins with a table, not {type(other).__name__}"
            if isinstance(other, KStream):
                method = call.removesuffix("()")
                wrong += f"; {call} is a stream's, with the table: stream.{method}(table, …)"
            raise TopologyError(wrong)
        if foreign_key is not None:
            left = call == "left_join()"
            made = joined_by_foreign_key(self, other, joiner, foreign_key, result, left)
        else:
            made = joined_tables(call, self, other, joiner, value, store, name)
        return KTable(made[0], self._key, made[1])
