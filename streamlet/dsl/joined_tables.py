"""The joins of ``KTable``: with a table of the same keys, and by foreign keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from streamlet.dsl.foreign_keys.nodes import joined_by_foreign_key
from streamlet.dsl.graph.materialized import StoreLike
from streamlet.dsl.joins.table_table import joined_tables
from streamlet.serdes import SerdeLike

if TYPE_CHECKING:
    from streamlet.dsl.table import KTable

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")
F = TypeVar("F")
R = TypeVar("R")


class TableJoins(Generic[K, V]):
    """The part of ``KTable`` that joins."""

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

    def _join(
        self,
        call: str,
        other: Any,
        joiner: Any,
        foreign_key: Any,
        result: tuple[Any, StoreLike, str | None],
    ) -> KTable[K, Any]:
        table: Any = self
        value, store, name = result
        if foreign_key is not None:
            left = call == "left_join()"
            parts = joined_by_foreign_key(table, other, joiner, foreign_key, result, left)
        else:
            parts = joined_tables(call, table, other, joiner, value, store, name)
        return type(table)(parts[0], table._key, parts[1])  # type: ignore[no-any-return]
