"""The joins of ``KStream``: with a table, and with another stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from streamlet.dsl.global_table import GlobalKTable, joined_globally
from streamlet.dsl.graph.durations import Duration
from streamlet.dsl.graph.materialized import StoreLike
from streamlet.dsl.joins.stream_stream import JoinKind, joined_streams
from streamlet.dsl.joins.stream_table import joined
from streamlet.dsl.joins.windows import JoinWindows
from streamlet.errors import TopologyError
from streamlet.serdes import SerdeLike

if TYPE_CHECKING:
    from streamlet.dsl.stream import KStream
    from streamlet.dsl.table import KTable

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
R = TypeVar("R")
G = TypeVar("G")


class StreamJoins(Generic[K, V]):
    """The part of ``KStream`` that joins."""

    @overload
    def join(
        self,
        other: KTable[K, T],
        joiner: Callable[[V, T], R],
        *,
        grace: Duration | None = None,
        value: SerdeLike[R] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[K, T],
        joiner: Callable[[K, V, T], R],
        *,
        grace: Duration | None = None,
        value: SerdeLike[R] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[G, T],
        joiner: Callable[[V, T], R],
        *,
        on: Callable[[K, V], G | None],
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[G, T],
        joiner: Callable[[K, V, T], R],
        *,
        on: Callable[[K, V], G | None],
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: KStream[K, T],
        joiner: Callable[[V, T], R],
        *,
        within: JoinWindows,
        value: SerdeLike[R] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: KStream[K, T],
        joiner: Callable[[K, V, T], R],
        *,
        within: JoinWindows,
        value: SerdeLike[R] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...
    def join(
        self,
        other: Any,
        joiner: Callable[..., Any],
        *,
        within: JoinWindows | None = None,
        grace: Duration | None = None,
        on: Callable[..., Any] | None = None,
        value: Any = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KStream[K, Any]:
        """Each record with the table's row of its key, or with the other stream's records.

        ``joiner`` is ``(value, row)`` or ``(key, value, row)``; it must not change the row, which
        is the table's own. A record without a row is left out.
        The row is the newest one when the record is processed; a task takes records of the stream
        and of the table in the order of their timestamps (``max.task.idle.ms``). That of a
        versioned table (``Materialized(history=…)``) is the row as of the record's timestamp. With
        ``grace`` the record waits until stream time, the highest timestamp of the stream, is so
        far behind it, so that the row may come late, too. What waits is in a store, whose name is
        ``store``; it comes out in the order of timestamps, and a record that is later than the
        grace is joined at once.

        With another stream, ``within`` is ``streamlet.join_windows()``: each two records of one
        key whose times are so close give a result, ``joiner(left, right)`` or ``(key, left,
        right)``, when the second one comes. The records of both streams are kept for the length of
        the window and the grace; within that, late ones join too. ``store`` is what the names of
        the stores begin with, or a ``Materialized``.

        With a global table, ``on(key, value)`` gives the key of the row, None for none; the row is
        the newest one that this process has read when the record is processed.

        ``name`` is that of the node, and of the repartition topic, if the key has changed. With two
        streams the names of the nodes begin with it, and those of the topics, with ``-left`` and
        ``-right`` behind it.

        - Nulls: records without a key or a value are left out and counted as dropped.
        - Key, timestamp, headers: those of the stream's record. Of two streams: the later of both
          timestamps, and the headers of the record that came second.

        Examples:
            >>> orders.join(prices, lambda pieces, price: pieces * price, value=int).to("amounts")
            >>> run(prices=[("lamp", 20)], orders=[("lamp", 3), ("desk", 1)])
            {'amounts': [('lamp', 60)]}
        """
        return self._joined("inner", other, joiner, within, value, store, name, grace, on)

    @overload
    def left_join(
        self,
        other: KTable[K, T],
        joiner: Callable[[V, T | None], R],
        *,
        grace: Duration | None = None,
        value: SerdeLike[R] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, T],
        joiner: Callable[[K, V, T | None], R],
        *,
        grace: Duration | None = None,
        value: SerdeLike[R] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[G, T],
        joiner: Callable[[V, T | None], R],
        *,
        on: Callable[[K, V], G | None],
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[G, T],
        joiner: Callable[[K, V, T | None], R],
        *,
        on: Callable[[K, V], G | None],
        value: SerdeLike[R] = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: KStream[K, T],
        joiner: Callable[[V, T | None], R],
        *,
        within: JoinWindows,
        value: SerdeLike[R] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: KStream[K, T],
        joiner: Callable[[K, V, T | None], R],
        *,
        within: JoinWindows,
        value: SerdeLike[R] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...
    def left_join(
        self,
        other: Any,
        joiner: Callable[..., Any],
        *,
        within: JoinWindows | None = None,
        grace: Duration | None = None,
        on: Callable[..., Any] | None = None,
        value: Any = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KStream[K, Any]:
        """Like ``join``, with None in place of a row or a record that is not there.

        With another stream, a record waits for others until stream time, the highest timestamp of
        both, is behind its window and the grace. It is sent with None when a record comes then. One
        whose window alone is behind stream time is sent at once, and may still be joined later.

        - Nulls: records without a value are left out and counted as dropped. One without a key has
          no row and no match, also behind a repartition topic.
        - Key, timestamp, headers: those of the stream's record. Of two streams as in ``join``; what
          had waited has its own timestamp, and the headers of the record that sent it.

        Examples:
            >>> def amount(pieces: int, price: int | None) -> int:
            ...     return -1 if price is None else pieces * price
            >>> orders.left_join(prices, amount).to("amounts")
            >>> run(prices=[("lamp", 20)], orders=[("lamp", 3), ("desk", 1)])
            {'amounts': [('lamp', 60), ('desk', -1)]}
        """
        return self._joined("left", other, joiner, within, value, store, name, grace, on)

    @overload
    def outer_join(
        self,
        other: KStream[K, T],
        joiner: Callable[[V | None, T | None], R],
        *,
        within: JoinWindows,
        value: SerdeLike[R] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def outer_join(
        self,
        other: KStream[K, T],
        joiner: Callable[[K, V | None, T | None], R],
        *,
        within: JoinWindows,
        value: SerdeLike[R] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...
    def outer_join(
        self,
        other: Any,
        joiner: Callable[..., Any],
        *,
        within: JoinWindows,
        value: Any = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KStream[K, Any]:
        """Like ``left_join`` of two streams, and records of the other stream wait, too.

        - Nulls: as of ``left_join``, for both streams.
        - Key: that of both records.
        - Timestamp: the later one of two records; its own of one that had waited.
        - Headers: those of the record that came second, or that sent what had waited.

        Examples:
            >>> paid = app.stream("paid", key=str, value=int)
            >>> def both(pieces: int | None, euros: int | None) -> str:
            ...     return f"{pieces} for {euros}"
            >>> orders.outer_join(paid, both, within=sl.join_windows("1m")).to("sales")
            >>> run(
            ...     orders=[("lamp", 3, 1)],
            ...     paid=[("lamp", 60, 2), ("desk", 9, 100_000), ("bed", 1, 200_000)],
            ... )
            {'sales': [('lamp', '3 for 60'), ('desk', 'None for 9')]}
        """
        return self._joined("outer", other, joiner, within, value, store, name)

    def _joined(
        self,
        kind: JoinKind,
        other: Any,
        joiner: Any,
        within: JoinWindows | None,
        value: Any,
        store: StoreLike,
        name: str | None,
        grace: Duration | None = None,
        on: Any = None,
    ) -> KStream[K, Any]:
        stream: Any = self
        call = "join()" if kind == "inner" else f"{kind}_join()"
        if isinstance(other, GlobalKTable):
            if (within, grace, store) != (None, None, None):
                raise TopologyError(f"{call}: a global table takes on=, value= and name= only")
            parts = joined_globally(call, stream, other, joiner, on, value, name)
            return type(stream)(*parts)  # type: ignore[no-any-return]
        if on is not None:
            raise TopologyError(f"{call}: on= is for global tables")
        if isinstance(other, StreamJoins):
            if grace is not None:
                raise TopologyError(f"{call}: the grace of two streams is in within=")
            streams = stream, other
            parts = joined_streams(kind, streams, joiner, within, value, store, name)  # type: ignore[arg-type]
        elif within is not None:
            raise TopologyError(f"{call}: within= is for joins of two streams")
        else:
            parts = joined(call, stream, other, joiner, value, name, grace, store)
        return type(stream)(*parts)  # type: ignore[no-any-return]
