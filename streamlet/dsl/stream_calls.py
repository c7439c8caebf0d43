"""The part of ``KStream`` that calls users' async functions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, overload

import attrs

from streamlet.dsl.graph.builder import StreamNode
from streamlet.dsl.graph.durations import Duration, milliseconds
from streamlet.dsl.graph.functions import takes_async
from streamlet.dsl.graph.inference import awaited_type, result_type
from streamlet.dsl.graph.kinds import Kind
from streamlet.errors import TopologyError
from streamlet.serdes import Serde, SerdeLike
from streamlet.topology.operator import RetryRule

if TYPE_CHECKING:
    from streamlet.dsl.stream import KStream

K = TypeVar("K")
V = TypeVar("V")
V2 = TypeVar("V2")

#: The orders in which results of calls go on.
Order: TypeAlias = Literal["key", "partition"]

_CALL = "map_values_async()"
_MOST = 10_000


class StreamCalls(Generic[K, V]):
    """The part of ``KStream`` that calls users' async functions."""

    _node: StreamNode
    _key: Kind
    _value: Kind

    @overload
    def map_values_async(
        self,
        function: Callable[[V], Awaitable[V2]],
        *,
        concurrency: int = 100,
        timeout: Duration | None = None,
        retry: RetryRule | None = None,
        order: Order = "key",
        value: SerdeLike[V2] = None,
        name: str | None = None,
    ) -> KStream[K, V2]: ...
    @overload
    def map_values_async(
        self,
        function: Callable[[K, V], Awaitable[V2]],
        *,
        concurrency: int = 100,
        timeout: Duration | None = None,
        retry: RetryRule | None = None,
        order: Order = "key",
        value: SerdeLike[V2] = None,
        name: str | None = None,
    ) -> KStream[K, V2]: ...
    def map_values_async(
        self,
        function: Callable[..., Any],
        *,
        concurrency: int = 100,
        timeout: Duration | None = None,
        retry: RetryRule | None = None,
        order: Order = "key",
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K, Any]:
        """Each value replaced by the awaited result of ``function(value)`` or ``(key, value)``.

        Calls of an ``async def`` function run beside each other, in each task ``concurrency`` of
        them at most, on an event loop in a thread of its own. While they last the worker's other
        tasks and its heartbeats go on. ``order`` says what waits for what:

        - ``"key"``: calls for one key are made one after another, so an endpoint sees them in
          order, and their results go on in this order. Results of different keys go on as they
          come. Records without a key wait for none.
        - ``"partition"``: calls are made whatever the key, and results go on in the order of the
          records. A slow call holds up the results behind it.

        A call that takes longer than ``timeout`` fails with ``TimeoutError``. ``retry``, a
        ``streamlet.Retry``, has failed calls made again while others go on; a call that failed for
        the last time is a failed record like any other, of which ``processing_handler`` or
        ``on_error`` of the ``App`` decides. ``value`` as of ``map_values``.

        Positions are committed behind records only whose results have gone on, and state behind
        them with their positions: it stays exact. A commit has the task begin no calls until those
        that run have ended; a task that is to stop or to move waits two seconds for them, else they
        are made again by its next owner. So are those since the last commit after a crash. A
        repartition topic behind such results is not exact, since a call may then have another
        result (``non_deterministic``).

        - Nulls: the function gets them as None; a result None is a null value.
        - Key, timestamp, headers: kept.

        Raises:
            TopologyError: an argument cannot be, or with order ``"key"`` the type of the keys is
                not known.

        Examples:
            >>> async def amount(item: str, pieces: int) -> int:
            ...     return pieces * 20
            >>> orders.map_values_async(amount, concurrency=50).to("amounts")
            >>> run(orders=[("lamp", 3)])
            {'amounts': [('lamp', 60)]}
        """
        count = takes_async(_CALL, function, "key", "value")
        _check(concurrency, order)
        limit = None if timeout is None else milliseconds(f"{_CALL}: timeout", timeout, 1)
        in_order = order == "partition"
        key = None if in_order else self._key.needed(_CALL, "key", takes=False)
        calls = MapValuesAsync(function, count, concurrency, limit, _rule(retry), in_order, key)
        node = self._below_calls(calls, name)
        kind = node.builder.result(value, awaited_type(result_type(function)), _CALL, "value")
        made: KStream[K, Any] = self._made(node, self._key, kind)
        return made

    def _below_calls(self, calls: MapValuesAsync, name: str | None) -> StreamNode:
        above, builder = self._node, self._node.builder
        own = builder.graph.new_name("KSTREAM-MAPVALUESASYNC-", name)
        builder.named_processor(own, (above.name,), lambda _: calls, timed="when calls end")
        return StreamNode(builder, own, above.rekeyed)

    def _made(self, node: StreamNode, key: Kind, value: Kind) -> Any:
        return type(self)(node, key, value)  # type: ignore[call-arg]


def _check(concurrency: int, order: str) -> None:
    if type(concurrency) is not int or not 1 <= concurrency <= _MOST:
        raise TopologyError(f"{_CALL}: concurrency {concurrency!r}: expected 1 to {_MOST:,}")
    if order not in ("key", "partition"):
        raise TopologyError(f"{_CALL}: order {order!r}: it is 'key' or 'partition'")


def _rule(retry: Any) -> RetryRule | None:
    """The rule for failed calls; another answer at their end is that of the application."""
    if retry is None:
        return None
    if not isinstance(retry, RetryRule):
        raise TopologyError(f"{_CALL}: retry {retry!r}: expected a streamlet.Retry")
    if retry.then.action != "fail":
        raise TopologyError(
            f"{_CALL}: retry {retry!r}: what becomes of a record whose calls have all failed is "
            "decided by processing_handler or on_error of the App; leave out then="
        )
    return retry


@attrs.frozen
class MapValuesAsync:
    """Replaces values by the awaited results of ``function(value)`` or ``function(key, value)``.

    ``takes`` is the number of its arguments. ``key`` is the serde of the keys, by which calls wait
    for each other; None: they do not. The others as of ``topology.operator.CallingOperator``.
    """

    function: Callable[..., Any]
    takes: int
    concurrency: int
    timeout_ms: int | None
    retry: RetryRule | None
    in_order: bool
    key: Serde[Any] | None

    def call(self, key: Any, value: Any) -> Awaitable[Any]:
        """The call for a record."""
        made: Awaitable[Any] = (
            self.function(value) if self.takes == 1 else self.function(key, value)
        )
        return made

    def lane(self, key: Any) -> Hashable | None:
        """The key itself if it is plain, else its bytes.

        Raises:
            SerdeError: the key cannot be encoded.
        """
        if self.key is None or key is None or type(key) in (str, bytes, int):
            return None if self.key is None else key
        encoded: bytes | None = self.key.encode(key)
        return encoded
