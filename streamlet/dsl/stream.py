"""``KStream``: records one after another, each an event of its own."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, overload

import attrs

from streamlet.absent import explains_misuse
from streamlet.arguments import calls_told_by_form, check_callable, check_is, never_by_hand
from streamlet.bounded import TASK_NUMBER_MAX
from streamlet.dsl.branched import BranchedKStream
from streamlet.dsl.expressions import Expression, plain, type_of
from streamlet.dsl.folds.deduplication import Deduplicate, deduplication_store
from streamlet.dsl.global_table import GlobalKTable, joined_globally
from streamlet.dsl.graph.builder import Make, MakeNode, NodeParts
from streamlet.dsl.graph.durations import Duration, milliseconds, window_ms
from streamlet.dsl.graph.functions import check_not_marked, check_takes, takes, takes_async
from streamlet.dsl.graph.inference import (
    awaited_type,
    column_type,
    element_type,
    pair_types,
    result_type,
)
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.graph.materialized import StoreLike
from streamlet.dsl.graph.one_app import same_app
from streamlet.dsl.graph.ownership import owner_of, owner_of_results, with_own_key
from streamlet.dsl.graph.record_context import applied
from streamlet.dsl.graph.repartitions import Repartition
from streamlet.dsl.graph.stream_node import StreamNode
from streamlet.dsl.grouped import KGroupedStream
from streamlet.dsl.joins.stream_stream import JoinKind, joined_streams
from streamlet.dsl.joins.stream_table import joined, table_of
from streamlet.dsl.joins.windows import JoinWindows
from streamlet.dsl.operators.async_calls import CALL, MapValuesAsync, Order, check_calls, retry_rule
from streamlet.dsl.operators.batch_functions import MapBatches, check_most
from streamlet.dsl.operators.record_batch import Column, RecordBatch
from streamlet.dsl.operators.stateless import (
    Filter,
    FlatMap,
    FlatMapValues,
    Foreach,
    Map,
    MapValues,
    PassOn,
    Peek,
    SelectKey,
)
from streamlet.dsl.operators.topics import ChooseTopics, TopicNames
from streamlet.dsl.processors.keyed_state import State
from streamlet.dsl.processors.nodes import Processing
from streamlet.dsl.processors.processor import Processor
from streamlet.dsl.processors.punctuators import PunctuationType
from streamlet.dsl.processors.record import Record
from streamlet.dsl.processors.signatures import (
    S2,
    Forwarded,
    S,
    StateFunction,
    TakesRecords,
    TimerFunction,
    Valued,
)
from streamlet.dsl.processors.state_nodes import StateOptions, repartitioned, takes_state
from streamlet.dsl.processors.store_builders import Stores
from streamlet.dsl.table import KTable
from streamlet.errors import TopologyError
from streamlet.serdes import SerdeLike
from streamlet.topology.drawing import picture_of
from streamlet.topology.names import check_topic_name
from streamlet.topology.nodes import Partitions, Timed
from streamlet.topology.operator import RetryRule, TaskContext
from streamlet.user_code import shown
from streamlet.visible import visible

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from streamlet.dsl.processors.signatures import StateOrContext

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
T = TypeVar("T")
R = TypeVar("R")
G = TypeVar("G")


@explains_misuse
@never_by_hand("App.stream() and the methods of streams and tables make it")
@calls_told_by_form
class KStream(Generic[K, V]):
    """A stream of records. All methods but ``to`` and ``foreach`` return a new stream or table.

    User functions take ``(key, value)``; those that only make a new value may take ``(value)``.
    An expression (``streamlet.col``) may stand wherever one value is computed.
    ``name`` is that of the operator's node in the topology and in errors; without it one is made
    up, which moves when operators are added above.
    Made by ``App.stream`` and by other streams and tables, never by hand.
    """

    def __init__(self, node: StreamNode, key: Kind, value: Kind) -> None:
        self._node = node
        self._key = key
        self._value = value

    def __repr__(self) -> str:
        kinds = ", ".join(kind.shown for kind in (self._key, self._value))
        return f"KStream[{kinds}] of {self._node.name}"

    def _repr_html_(self) -> str:
        """The topology so far as a picture, for notebooks; the node of this stands out."""
        return picture_of(self._node.builder.graph, marked=self._node.name)

    # One record at a time.

    def filter(
        self, predicate: Callable[[K, V], object], *, name: str | None = None
    ) -> KStream[K, V]:
        """Records for which ``predicate(key, value)`` is true.

        - Nulls: the predicate gets them as None.
        - Key, timestamp, headers: kept.

        Examples:
            >>> orders.filter(lambda item, pieces: pieces > 1).to("large")
            >>> run(orders=[("lamp", 1), ("desk", 2)])
            {'large': [('desk', 2)]}
        """
        return self._filtered("filter()", predicate, name, keep=True)

    def filter_not(
        self, predicate: Callable[[K, V], object], *, name: str | None = None
    ) -> KStream[K, V]:
        """Records for which ``predicate(key, value)`` is false.

        - Nulls: the predicate gets them as None.
        - Key, timestamp, headers: kept.

        Examples:
            >>> orders.filter_not(lambda item, pieces: pieces < 0).to("sold")
            >>> run(orders=[("lamp", 3), ("lamp", -1)])
            {'sold': [('lamp', 3)]}
        """
        return self._filtered("filter_not()", predicate, name, keep=False)

    def select_key(
        self,
        function: Callable[[K, V], K2],
        *,
        key: SerdeLike[K2] = None,
        name: str | None = None,
    ) -> KStream[K2, V]:
        """Each key replaced by ``function(key, value)``.

        What groups or joins by the new key goes through a repartition topic.

        - Nulls: the function gets them as None.
        - Key: the result, which may be None.
        - Timestamp, headers: kept.

        Examples:
            >>> orders.select_key(lambda item, pieces: item[0], key=str).to("by-letter")
            >>> run(orders=[("lamp", 3)])
            {'by-letter': [('l', 3)]}
        """
        return KStream(*self._selected("select_key()", function, key, name))

    def map(
        self,
        function: Callable[[K, V], tuple[K2, V2]],
        *,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        name: str | None = None,
    ) -> KStream[K2, V2]:
        """Each record replaced by the pair that ``function(key, value)`` returns.

        What groups or joins by the new key goes through a repartition topic, unlike with
        ``map_values``. ``key`` and ``value`` are the types of the results, where they are written
        somewhere and cannot be derived from the function.

        - Nulls: the function gets them as None.
        - Key: the first of the pair.
        - Timestamp, headers: kept.

        Examples:
            >>> taken = orders.map(lambda item, pieces: (item.upper(), -pieces), key=str, value=int)
            >>> taken.to("stock")
            >>> run(orders=[("lamp", 3)])
            {'stock': [('LAMP', -3)]}
        """
        check_takes("map()", function, "key", "value", context=True)
        inferred = pair_types(result_type(function))
        kinds = self._node.builder.results((key, value), inferred, "map()")
        own = owner_of(*kinds)
        make = self._applied(function, lambda f: Map(f, own))
        return KStream(self._below("KSTREAM-MAP-", make, name, results="rekeyed"), *kinds)

    @overload
    def map_values(
        self,
        function: Callable[[V], V2],
        *,
        value: SerdeLike[V2] = None,
        name: str | None = None,
    ) -> KStream[K, V2]: ...
    @overload
    def map_values(
        self,
        function: Callable[[K, V], V2],
        *,
        value: SerdeLike[V2] = None,
        name: str | None = None,
    ) -> KStream[K, V2]: ...
    def map_values(
        self, function: Callable[..., Any], *, value: Any = None, name: str | None = None
    ) -> KStream[K, Any]:
        """Each value replaced by ``function(value)`` or ``function(key, value)``.

        ``value`` is the type of the results, where they are written somewhere and it cannot be
        inferred from the function (from its annotation, or because it is as simple as ``lambda v:
        v.name``).

        - Nulls: the function gets them as None; a result None is a null value.
        - Key, timestamp, headers: kept.

        Examples:
            >>> orders.map_values(lambda pieces: f"{pieces} pieces", value=str).to("texts")
            >>> run(orders=[("lamp", 3)])
            {'texts': [('lamp', '3 pieces')]}
        """
        made = plain(function, self._value.of)
        count = takes("map_values()", made, "key", "value", context=True)
        inferred = self._result_type(function, count)
        kind = self._node.builder.result(value, inferred, "map_values()", "value")
        own = owner_of_results(made, (self._key, self._value), count, kind)
        make = self._applied(made, lambda f: MapValues(f, count, own), count == 2)
        return KStream(self._below("KSTREAM-MAPVALUES-", make, name), self._key, kind)

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
        are made again by its next owner. So are those since the last commit after a crash,
        where a call may have another result. So in a repartition topic behind such results records
        wait for their commit (``non_deterministic``).

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
        count = takes_async(CALL, function, "key", "value")
        check_calls(concurrency, order)
        limit = None if timeout is None else milliseconds(f"{CALL}: timeout", timeout, 1)
        key = self._key.needed(CALL, "key", takes=False) if order == "key" else None
        how = concurrency, limit, retry_rule(retry), order == "partition"
        made = with_own_key(function, self._key, count == 2)
        calls = MapValuesAsync(made, count, *how, key)
        prefix = "KSTREAM-MAPVALUESASYNC-"
        node = self._below(prefix, lambda _: calls, name, timed="when calls end")
        kind = node.builder.result(value, awaited_type(result_type(function)), CALL, "value")
        return KStream(node, self._key, kind)

    @overload
    def map_batches(
        self,
        function: Callable[[RecordBatch[K, V]], list[V2]],
        *,
        max_records: int = 1_000,
        max_wait: Duration | None = None,
        value: SerdeLike[V2] = None,
        name: str | None = None,
    ) -> KStream[K, V2]: ...
    @overload
    def map_batches(
        self,
        function: Callable[[RecordBatch[K, V]], NDArray[np.floating[Any]]],
        *,
        max_records: int = 1_000,
        max_wait: Duration | None = None,
        value: type[float] | None = None,
        name: str | None = None,
    ) -> KStream[K, float]: ...
    @overload
    def map_batches(
        self,
        function: Callable[[RecordBatch[K, V]], NDArray[np.integer[Any]]],
        *,
        max_records: int = 1_000,
        max_wait: Duration | None = None,
        value: type[int] | None = None,
        name: str | None = None,
    ) -> KStream[K, int]: ...
    @overload
    def map_batches(
        self,
        function: Callable[[RecordBatch[K, V]], Column],
        *,
        max_records: int = 1_000,
        max_wait: Duration | None = None,
        value: SerdeLike[V2],
        name: str | None = None,
    ) -> KStream[K, V2]: ...
    def map_batches(
        self,
        function: Callable[[RecordBatch[K, V]], Any],
        *,
        max_records: int = 1_000,
        max_wait: Duration | None = None,
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K, Any]:
        """Each value replaced by its entry in the column that ``function(batch)`` returns.

        For functions that are quicker for many records than for each: a model, an array of numpy.
        ``function`` gets a ``RecordBatch`` and returns a list, or an array or Series of numpy,
        pandas or pyarrow, with one value for each of its records, in their order. What it returns
        for a record must not depend on the other records of the batch, as batches may begin and
        end anywhere; it may be ``non_deterministic`` as that of ``map_values``.

        - ``max_records``, 1 to 100,000: the most records in a call.
        - ``max_wait``: None has it called for the records that are there, which under load are
          thousands. With a time records wait for others, each so long at most. A commit, a
          hand-over and the end of the task wait for none: they empty the batch first, so nothing
          is lost or counted twice.

        An error that the function raises is met record by record: it is called for each record
        alone, and the error policy decides about those that fail so. It is quicker if it raises
        ``FailedAt(index)``: that record alone meets the policy, and the function is called again
        for the others. What is no column of that length (None, a generator, a coroutine, too few
        values) fails every record of the call. Values in a list are as those of ``map_values``.

        - Nulls: the function gets them as None; a result None is a null value.
        - Key, timestamp, headers: kept.

        Raises:
            TopologyError: an argument cannot be.

        Examples:
            >>> def amounts(batch: sl.RecordBatch[str, int]) -> list[int]:
            ...     return [pieces * 20 for pieces in batch.values]
            >>> orders.map_batches(amounts).to("amounts")
            >>> run(orders=[("lamp", 3), ("desk", 1)])
            {'amounts': [('lamp', 60), ('desk', 20)]}
        """
        call = "map_batches()"
        check_takes(call, function, "batch", varies=True)
        check_most(max_records)
        wait_ms = 0 if max_wait is None else milliseconds(f"{call}: max_wait", max_wait)
        kind = self._node.builder.result(value, column_type(result_type(function)), call, "value")
        owners = owner_of(self._key, self._value), owner_of(kind)
        make = applied(function, lambda f: MapBatches(f, max_records, wait_ms, *owners))
        timed: Timed = "when batches end" if wait_ms else ""
        node = self._below("KSTREAM-MAPBATCHES-", make, name, timed=timed)
        return KStream(node, self._key, kind)

    def flat_map(
        self,
        function: Callable[[K, V], Iterable[tuple[K2, V2]]],
        *,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        name: str | None = None,
    ) -> KStream[K2, V2]:
        """Each record replaced by any number of pairs that ``function(key, value)`` returns.

        Types and repartitioning as with ``map``.

        - Nulls: the function gets them as None.
        - Key: the first of each pair.
        - Timestamp, headers: those of the record, in each result.

        Examples:
            >>> def each(item: str, pieces: int) -> list[tuple[str, int]]:
            ...     return [(f"{item}-{number}", 1) for number in range(pieces)]
            >>> orders.flat_map(each).to("pieces")
            >>> run(orders=[("lamp", 2), ("desk", 0)])
            {'pieces': [('lamp-0', 1), ('lamp-1', 1)]}
        """
        check_takes("flat_map()", function, "key", "value", context=True, yields=True)
        inferred = pair_types(element_type(result_type(function)))
        kinds = self._node.builder.results((key, value), inferred, "flat_map()")
        own = owner_of(*kinds)
        make = self._applied(function, lambda f: FlatMap(f, own))
        return KStream(self._below("KSTREAM-FLATMAP-", make, name, results="rekeyed"), *kinds)

    @overload
    def flat_map_values(
        self,
        function: Callable[[V], Iterable[V2]],
        *,
        value: SerdeLike[V2] = None,
        name: str | None = None,
    ) -> KStream[K, V2]: ...
    @overload
    def flat_map_values(
        self,
        function: Callable[[K, V], Iterable[V2]],
        *,
        value: SerdeLike[V2] = None,
        name: str | None = None,
    ) -> KStream[K, V2]: ...
    def flat_map_values(
        self, function: Callable[..., Any], *, value: Any = None, name: str | None = None
    ) -> KStream[K, Any]:
        """Each value replaced by any number of values; the key stays, and its partition.

        The function returns them in a list or the like, or yields them. A text, a dict or another
        value that would be taken apart is refused: ``[text]`` is one value.

        - Nulls: the function gets them as None.
        - Key, timestamp, headers: those of the record, in each result.

        Examples:
            >>> orders.flat_map_values(lambda pieces: [1] * pieces, value=int).to("pieces")
            >>> run(orders=[("lamp", 2), ("desk", 0)])
            {'pieces': [('lamp', 1), ('lamp', 1)]}
        """
        count = takes("flat_map_values()", function, "key", "value", context=True, yields=True)
        inferred = element_type(result_type(function, *(self._key.of, self._value.of)[-count:]))
        kind = self._node.builder.result(value, inferred, "flat_map_values()", "value")
        own = owner_of(kind)
        make = self._applied(function, lambda f: FlatMapValues(f, count, own), count == 2)
        return KStream(self._below("KSTREAM-FLATMAPVALUES-", make, name), self._key, kind)

    def peek(self, function: Callable[[K, V], object], *, name: str | None = None) -> KStream[K, V]:
        """Calls ``function(key, value)`` for each record, which goes on as it is.

        - Nulls: the function gets them as None.
        - Key, timestamp, headers: kept.

        Examples:
            >>> seen = []
            >>> orders.peek(lambda item, pieces: seen.append(item)).to("same")
            >>> run(orders=[("lamp", 3)])
            {'same': [('lamp', 3)]}
            >>> seen
            ['lamp']
        """
        check_takes("peek()", function, "key", "value", context=True)
        node = self._below("KSTREAM-PEEK-", self._applied(function, Peek), name, results="same")
        return KStream(node, self._key, self._value)

    def foreach(self, function: Callable[[K, V], object], *, name: str | None = None) -> None:
        """Calls ``function(key, value)`` for each record, again for those processed again.

        - Nulls: the function gets them as None.
        - Key, timestamp, headers: nothing comes after it.

        Examples:
            >>> totals = {}
            >>> orders.foreach(lambda item, pieces: totals.update({item: pieces}))
            >>> run(orders=[("lamp", 3), ("lamp", 5)])
            {}
            >>> totals
            {'lamp': 5}
        """
        check_takes("foreach()", function, "key", "value", context=True)
        self._below("KSTREAM-FOREACH-", self._applied(function, Foreach), name)

    def print(self, label: str | None = None, *, name: str | None = None) -> None:
        """Prints each record to standard output: ``[label]: key, value``.

        ``label`` is the name of the stream's node without one, as in Kafka Streams; ``name`` is
        that of the node that prints. A terminal is shown control characters and does not obey them.

        - Nulls: printed as None.
        - Key, timestamp, headers: nothing comes after it.

        Examples:
            >>> orders.print("order")
            >>> run(orders=[("lamp", 3)])
            [order]: lamp, 3
            {}
        """
        shown = self._node.name if label is None else label

        def show(key: Any, value: Any) -> None:
            text = f"[{shown}]: {key}, {value}"
            print(visible(text) if sys.stdout.isatty() else text, flush=True)

        self._below("KSTREAM-PRINTER-", applied(show, Foreach), name)

    def deduplicate(
        self,
        within: Duration,
        *,
        grace: Duration | None = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KStream[K, V]:
        """The records that repeat none of their key within a time.

        A record goes on unless one of its key did whose timestamp is at most ``within`` before or
        after its own. So of records that come out of order the one that comes first goes on. Times
        are kept until stream time, the highest timestamp, is ``within`` and ``grace`` past them; a
        record that is older than ``grace`` by stream time cannot be compared any more, so it is
        left out and counted as late. Without ``grace`` that is ``within``. ``store`` is the name of
        the store, or a ``Materialized``; ``name`` that of the node, and of the repartition topic,
        if there is one.

        - Nulls: a record without a key is left out and counted as dropped; values are kept.
        - Key, timestamp, headers: kept.

        Raises:
            TopologyError: a time is no duration, or the type of the keys is not known.

        Examples:
            >>> orders.deduplicate("10s").to("first")
            >>> run(orders=[("lamp", 3, 0), ("lamp", 3, 9_000), ("lamp", 3, 30_000)])
            {'first': [('lamp', 3), ('lamp', 3)]}
        """
        call, above = "deduplicate()", self._node
        within_ms = window_ms(f"{call}: within", within, 0)
        grace_ms = within_ms if grace is None else milliseconds(f"{call}: grace", grace)
        parent = repartitioned(call, above, self._key, self._value, name)
        key = self._key.needed(call, "key", takes=False)
        spec = deduplication_store(above.builder, store, key, within_ms, grace_ms)
        own = above.builder.graph.new_name("KSTREAM-DEDUPLICATE-", name)

        def make(context: TaskContext) -> Deduplicate:
            return Deduplicate(own, context, context.store(spec.name), within_ms, grace_ms)

        above.builder.named_processor(
            own, (parent,), make, writes=spec.name, skip_nulls="key", values="passed on"
        )
        return KStream(StreamNode(above.builder, own), self._key, self._value)

    # Several streams of one, one of several.

    def split(self, *, name: str = "") -> BranchedKStream[K, V]:
        """Begins branches of the stream; each record goes to the first one that it fits.

        ``name`` is what the names of the branches begin with.

        - Nulls: kept.
        - Key, timestamp, headers: kept.

        Examples:
            >>> split = orders.split(name="size-")
            >>> split = split.branch(lambda item, pieces: pieces > 9, name="large")
            >>> branches = split.default_branch(name="small")
            >>> sorted(branches)
            ['size-large', 'size-small']
            >>> branches["size-large"].to("by-truck")
            >>> run(orders=[("lamp", 3), ("desk", 12)])
            {'by-truck': [('desk', 12)]}
        """
        return BranchedKStream(self, name)

    def merge(self, other: KStream[K, V], *, name: str | None = None) -> KStream[K, V]:
        """Records of both streams; each one's order is kept.

        - Nulls: kept.
        - Key, timestamp, headers: kept.

        Examples:
            >>> returns = app.stream("returns", key=str, value=int)
            >>> orders.merge(returns.map_values(lambda pieces: -pieces, value=int)).to("moves")
            >>> run(orders=[("lamp", 3)], returns=[("lamp", 1)])
            {'moves': [('lamp', 3), ('lamp', -1)]}
        """
        check_is("merge()", other, (KStream,), "another stream")
        one, two = self._node, other._node
        same_app("merge()", one.builder, two.builder)
        merged = one.builder.processor(
            "KSTREAM-MERGE-",
            (one.name, two.name),
            lambda _: PassOn(),
            name=name,
            results="same",
            values="passed on",
        )
        node = StreamNode(one.builder, merged, one.rekeyed or two.rekeyed)
        key = one.builder.merged(self._key, other._key, "key")
        return KStream(node, key, one.builder.merged(self._value, other._value, "value"))

    # Topics and tables.

    def to(
        self,
        topic: str | Callable[[K, V], str],
        *,
        key: SerdeLike[K] = None,
        value: SerdeLike[V] = None,
        partitioner: Callable[[K, V, int], Partitions] | None = None,
        origin: bool = False,
        feedback: bool = False,
        name: str | None = None,
    ) -> None:
        """Writes the records to a topic that exists, or each to the one that a function names.

        The function is ``(key, value) -> topic``. ``partitioner`` is ``(key, value, partitions) ->
        partition``; with several partitions each gets the record, with none of them (an empty list)
        none does, and it counts as dropped; with None the key decides, as in Java's client. So it
        does without a partitioner, a windowed key without its window, as in Kafka Streams. A
        partitioner needs a single topic. So does ``origin``: then each record bears a header that
        says which input record it stems from, and ``streamlet.without_repeats`` can tell what a
        crash had written again. A topic that the stream itself comes from is refused, since each
        record would be read again for ever; ``feedback`` permits it, for streams that write fewer
        records there than they read. A function that chooses it, or a topic that the application
        makes for itself, fails its record.

        - Nulls: written as they are; a record without a key goes to any partition.
        - Key, timestamp, headers: those of the record.

        Examples:
            >>> orders.to(lambda item, pieces: "large" if pieces > 9 else "small")
            >>> run(orders=[("lamp", 3), ("desk", 12)])
            {'large': [('desk', 12)], 'small': [('lamp', 3)]}
        """
        call = f"to({shown(topic)})" if isinstance(topic, str) else "to()"
        target: str | Make
        if isinstance(topic, str):
            target = topic
            if not feedback:
                self._node.builder.graph.check_no_loop(self._node.name, topic)
        else:
            check_callable(call, topic, "a topic's name or a function (key, value) that chooses it")
            check_takes(call, topic, "key", "value", context=True)
            if partitioner is not None or origin:
                what = "origin=True needs" if origin else "a partitioner knows"
                raise TopologyError(f"{call}: {what} one topic, not one of each record")
            check = self._node.builder.graph.check_of_chosen(self._node.name, feedback)
            target = self._applied(topic, lambda chosen: ChooseTopics(chosen, TopicNames(check)))
        if partitioner is not None:
            check_takes(call, partitioner, "key", "value", "partitions")
        new_key, new_value = self._written(key, value, call)
        serdes = (new_key.needed(call, "key"), new_value.needed(call, "value"))
        self._node.builder.sink(self._node.name, target, *serdes, partitioner, origin, name)

    def repartition(
        self,
        *,
        name: str | None = None,
        partitions: int | None = None,
        key: SerdeLike[K] = None,
        value: SerdeLike[V] = None,
        partitioner: Callable[[K, V, int], Partitions] | None = None,
        plain: bool = False,
    ) -> KStream[K, V]:
        """The stream sent through a topic of its own, partitioned by its present key.

        Without ``partitions`` it gets as many as what it is used with, or as it came from. A
        ``name`` keeps the topic when the topology changes. ``partitioner`` as of ``to``. ``plain``
        keeps values as they are.

        - Nulls: a record without a key is left out and counted as dropped, unless a left or outer
          join behind it has a result for it; values are kept.
        - Key, timestamp, headers: kept.

        Examples:
            >>> by_letter = orders.select_key(lambda item, pieces: item[0], key=str)
            >>> by_letter.repartition(name="letters", partitions=4).to("spread")
            >>> run(orders=[("lamp", 3)])
            {'spread': [('l', 3)]}
            >>> app.topology().repartition_topics
            ('shop-letters-repartition',)
        """
        if partitions is not None and not 1 <= partitions <= TASK_NUMBER_MAX + 1:
            raise TopologyError(
                f"repartition(): partitions must be 1 to {TASK_NUMBER_MAX + 1}, not {partitions}"
            )
        if partitioner is not None:
            check_takes("repartition()", partitioner, "key", "value", "partitions")
            check_not_marked("repartition()", partitioner)
        if name is not None:
            check_topic_name(name, "repartition(name=)")
        builder = self._node.builder
        kinds = self._written(key, value, "repartition()")
        how = Repartition(
            prefix=builder.graph.new_name("KSTREAM-REPARTITION-") if name is None else name,
            key=kinds[0].needed("repartition()", "key"),
            value=kinds[1].needed("repartition()", "value"),
            named=name is not None,
            partitions=partitions,
            plain=plain,
            partitioner=partitioner,
        )
        return KStream(StreamNode(builder, builder.repartition(self._node.name, how)), *kinds)

    def to_table(
        self,
        *,
        key: SerdeLike[K] = None,
        value: SerdeLike[V] = None,
        store: StoreLike = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """The table of the newest value per key.

        It is made of records that went through a repartition topic if the key may have changed.
        ``key`` and ``value`` are the types of what is stored, where they cannot be inferred;
        ``store`` is the name of the store, or a ``Materialized``.

        - Nulls: a record without a value deletes the row; one without a key is left out and counted
          as dropped.
        - Key, timestamp, headers: those of the record.

        Examples:
            >>> orders.to_table().filter(lambda item, pieces: pieces > 1).to_stream().to("large")
            >>> run(orders=[("lamp", 2), ("lamp", 1)])
            {'large': [('lamp', 2), ('lamp', None)]}
        """
        kinds = self._written(key, value, "to_table()")
        return KTable(table_of("to_table()", self, store, *kinds, name), *kinds)

    def group_by(
        self,
        function: Callable[[K, V], K2],
        *,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V] = None,
        name: str | None = None,
    ) -> KGroupedStream[K2, V]:
        """Records gathered by ``function(key, value)``, through a repartition topic.

        ``key`` and ``value`` are the types of what is written there, where they cannot be inferred.
        ``name`` is that of the topic; without it, that of the store behind it.

        - Nulls: the function gets them as None. Records whose new key is None are left out and
          counted as dropped.
        - Key: the result.
        - Timestamp, headers: kept.

        Examples:
            >>> letters = orders.group_by(lambda item, pieces: item[0], key=str)
            >>> letters.count().to_stream().to("letters")
            >>> run(orders=[("lamp", 3), ("lens", 1)])
            {'letters': [('l', 1), ('l', 2)]}
        """
        node, new_key, same = self._selected("group_by()", function, key, name)
        return KGroupedStream(
            node.builder,
            node.name,
            new_key,
            same if value is None else Kind.given(value, "group_by()", "value"),
            call="group_by()",
            repartition=True,
            name=name,
        )

    def group_by_key(
        self, *, key: SerdeLike[K] = None, value: SerdeLike[V] = None, name: str | None = None
    ) -> KGroupedStream[K, V]:
        """Records gathered by their key; through a repartition topic if it may have changed.

        Arguments as of ``group_by``.

        - Nulls: records without a key are left out and counted as dropped.
        - Key, timestamp, headers: kept.

        Examples:
            >>> orders.group_by_key().count().to_stream().to("counts")
            >>> run(orders=[("lamp", 3), ("lamp", 1)])
            {'counts': [('lamp', 1), ('lamp', 2)]}
        """
        node = self._node
        return KGroupedStream(
            node.builder,
            node.name,
            *self._written(key, value, "group_by_key()"),
            call="group_by_key()",
            repartition=node.rekeyed,
            name=name,
        )

    # Joins.

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

    # Processors.

    @overload
    def process(
        self,
        processor: Callable[[], Processor[K, V, K2, V2]],
        *,
        stores: Stores = (),
        name: str | None = None,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
    ) -> KStream[K2, V2]: ...
    @overload
    def process(
        self,
        processor: Callable[[], TakesRecords[K, V]],
        *,
        stores: Stores = (),
        name: str | None = None,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
    ) -> KStream[K2, V2]: ...
    @overload
    def process(
        self,
        processor: Callable[[Record[K, V]], Forwarded[K2, V2]],
        *,
        stores: Stores = (),
        name: str | None = None,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
    ) -> KStream[K2, V2]: ...
    @overload
    def process(
        self,
        processor: Callable[[Record[K, V], StateOrContext[K, K2, V2]], Forwarded[K2, V2]],
        *,
        stores: Stores = (),
        name: str | None = None,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
    ) -> KStream[K2, V2]: ...
    @overload
    def process(
        self,
        processor: Callable[[Record[K, V], State[K]], Forwarded[K2, V2]],
        *,
        stores: Stores = (),
        name: str | None = None,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
        state: SerdeLike[Any] = None,
        on_timer: TimerFunction[K, Forwarded[Any, Any], S2, Any, Any] | None = None,
        timers: PunctuationType = "stream_time",
        ttl: Duration | None = None,
    ) -> KStream[K2, V2]: ...
    @overload
    def process(
        self,
        processor: StateFunction[K, V, Forwarded[K2, V2], S, K2, V2],
        *,
        stores: Stores = (),
        name: str | None = None,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
        state: SerdeLike[Any] = None,
        on_timer: TimerFunction[K, Forwarded[Any, Any], S2, Any, Any] | None = None,
        timers: PunctuationType = "stream_time",
        ttl: Duration | None = None,
    ) -> KStream[K2, V2]: ...
    def process(
        self,
        processor: Callable[..., Any],
        *,
        stores: Stores = (),
        name: str | None = None,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
        state: SerdeLike[Any] = None,
        on_timer: Callable[..., Any] | None = None,
        timers: PunctuationType = "stream_time",
        ttl: Duration | None = None,
    ) -> KStream[K2, V2]:
        """Each record given to a processor of the user's, which forwards any records.

        ``processor`` is a class such as ``streamlet.Processor``, with ``process(record)`` and
        perhaps ``init(context)`` and ``close()``; or a function that returns such an object, one
        for each task; or a function ``(record)`` or ``(record, context)`` that returns or yields
        a ``Record``, or a pair ``(key, value)`` with the time and headers of the record.

        ``stores`` are the stores that the context gives it: ``streamlet.key_value_store()`` and its
        like, or names of stores; those of operators and of global tables can be read only.
        ``key`` and ``value`` are the types of the results, where they are written somewhere and
        cannot be derived. ``schedules`` says whether it calls ``ProcessorContext.schedule``, where
        that is not seen in its code. What groups or joins by the new key goes through a repartition
        topic; the processor itself is given what its task has.

        A function ``(record, state)``, or ``(record, state, context)``, has a dict for each key,
        its ``State``: what it changes there is kept, in a store with a changelog that moves with
        the task. An annotation (``State`` or a dict, ``ProcessorContext``) tells an argument, else
        its name: ``state``, ``context`` or ``ctx``. ``state.timer(at=…)`` has ``on_timer(timer,
        state)`` called at a time, which may return or yield the same; timers are kept like the dict
        and go by ``timers``. ``state`` is a type in place of ``dict``, as a ``TypedDict``; with
        ``ttl`` the dict of a key is dropped so long after its last change, by the timers' time.
        Where the key may have changed, records go through a repartition topic before such a
        function. With a ``name`` the stores are ``NAME-state`` and ``NAME-timers``.

        - Nulls: the processor gets them as None; before a state function a record without a key is
          left out and counted as dropped.
        - Key, timestamp, headers: those of what it forwards; of a timer's pair its time.

        Raises:
            TopologyError: it is no processor, or a store is not there or there twice.

        Examples:
            >>> orders.process(lambda record: (record.key[0], 1), key=str, value=int).to("ones")
            >>> run(orders=[("lamp", 3), ("desk", 10)])
            {'ones': [('l', 1), ('d', 1)]}
        """
        kinds, options = (self._key, self._value), StateOptions(state, on_timer, timers, ttl)
        processing = Processing("process()", self._node, kinds, stores, name)
        added = processing.added(processor, options, schedules, False)
        node = StreamNode(self._node.builder, added.name, rekeyed=True, children=added.children)
        inferred = added.key, added.value
        return KStream(node, *node.builder.results((key, value), inferred, "process()"))

    @overload
    def process_values(
        self,
        processor: Callable[[], Processor[K, V, K, V2]],
        *,
        stores: Stores = (),
        name: str | None = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
    ) -> KStream[K, V2]: ...
    @overload
    def process_values(
        self,
        processor: Callable[[], TakesRecords[K, V]],
        *,
        stores: Stores = (),
        name: str | None = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
    ) -> KStream[K, V2]: ...
    @overload
    def process_values(
        self,
        processor: Callable[[Record[K, V]], Iterator[Record[K, V2]] | Record[K, V2] | None],
        *,
        stores: Stores = (),
        name: str | None = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
    ) -> KStream[K, V2]: ...
    @overload
    def process_values(
        self,
        processor: Callable[[Record[K, V]], Iterator[V2]],
        *,
        stores: Stores = (),
        name: str | None = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
    ) -> KStream[K, V2]: ...
    @overload
    def process_values(
        self,
        processor: Callable[[Record[K, V]], V2 | None],
        *,
        stores: Stores = (),
        name: str | None = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
    ) -> KStream[K, V2]: ...
    @overload
    def process_values(
        self,
        processor: Callable[[Record[K, V], StateOrContext[K, K, V2]], Any],
        *,
        stores: Stores = (),
        name: str | None = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
    ) -> KStream[K, V2]: ...
    @overload
    def process_values(
        self,
        processor: Callable[[Record[K, V], State[K]], Any],
        *,
        stores: Stores = (),
        name: str | None = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
        state: SerdeLike[Any] = None,
        on_timer: TimerFunction[K, Valued[K, Any], S2, Any, Any] | None = None,
        timers: PunctuationType = "stream_time",
        ttl: Duration | None = None,
    ) -> KStream[K, V2]: ...
    @overload
    def process_values(
        self,
        processor: StateFunction[K, V, Any, S, K, V2],
        *,
        stores: Stores = (),
        name: str | None = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
        state: SerdeLike[Any] = None,
        on_timer: TimerFunction[K, Valued[K, Any], S2, Any, Any] | None = None,
        timers: PunctuationType = "stream_time",
        ttl: Duration | None = None,
    ) -> KStream[K, V2]: ...
    def process_values(
        self,
        processor: Callable[..., Any],
        *,
        stores: Stores = (),
        name: str | None = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
        state: SerdeLike[Any] = None,
        on_timer: Callable[..., Any] | None = None,
        timers: PunctuationType = "stream_time",
        ttl: Duration | None = None,
    ) -> KStream[K, V2]:
        """Like ``process``, with the key of each record kept, and so its partition.

        A function returns or yields values, each with the key, time and headers of the record; or
        records with this key. None that is returned forwards nothing; a null value is
        ``record.with_value(None)``. Punctuators cannot forward, since there is no record; timers
        of state functions can.

        - Nulls: the processor gets them as None; before a state function as of ``process``.
        - Key: kept.
        - Timestamp, headers: those of what it forwards.

        Raises:
            TopologyError: as ``process``.

        Examples:
            >>> def numbered(record, state):
            ...     state["n"] = state.get("n", 0) + 1
            ...     return f"order {state['n']}: {record.value}"
            >>> orders.process_values(numbered, value=str).to("numbered")
            >>> run(orders=[("lamp", 3), ("lamp", 10)])
            {'numbered': [('lamp', 'order 1: 3'), ('lamp', 'order 2: 10')]}
        """
        call, above = "process_values()", self._node
        kinds, options = (self._key, self._value), StateOptions(state, on_timer, timers, ttl)
        processing = Processing(call, above, kinds, stores, name)
        added = processing.added(processor, options, schedules, True)
        rekeyed = above.rekeyed and not takes_state(call, processor, options)
        node = StreamNode(above.builder, added.name, rekeyed, children=added.children)
        kind = above.builder.result(value, added.value, call, "value")
        return KStream(node, self._key, kind)

    def child(self, name: str) -> KStream[K, V]:
        """The records that the processor above forwards to this name, or to all.

        ``ProcessorContext.forward(record, name)`` sends one here. The stream of the processor
        itself then only has those that are forwarded to all.

        - Nulls: kept.
        - Key, timestamp, headers: kept.

        Raises:
            TopologyError: the stream does not come from ``process`` or ``process_values``.

        Examples:
            >>> def sort(record, context):
            ...     context.forward(record, "large" if record.value > 9 else "small")
            >>> sorted_orders = orders.process(sort, key=str, value=int)
            >>> sorted_orders.child("large").to("by-truck")
            >>> sorted_orders.child("small").to("by-hand")
            >>> run(orders=[("lamp", 3), ("desk", 12)])
            {'by-hand': [('lamp', 3)], 'by-truck': [('desk', 12)]}
        """
        above = self._node
        if above.children is None:
            raise TopologyError(f"child({shown(name)}): the stream is not that of a processor")
        node = f"{above.name}-{name}"
        if name not in above.children:
            above.children.add(name)
            above.builder.named_processor(
                node, (above.name,), lambda _: PassOn(), child=name, values="passed on"
            )
        below = attrs.evolve(above, name=node, children=None)
        return KStream(below, self._key, self._value)

    # Inside.

    def _filtered(
        self, call: str, predicate: Any, name: str | None, *, keep: bool
    ) -> KStream[K, V]:
        """The records for which a function is true, if ``keep``, else the others."""
        function = plain(predicate, self._value.of)
        check_takes(call, function, "key", "value", context=True)
        make = self._applied(function, lambda f: Filter(f, keep))
        node = self._below("KSTREAM-FILTER-", make, name, results="same")
        return KStream(node, self._key, self._value)

    def _selected(
        self, call: str, function: Any, key: Any, name: str | None
    ) -> tuple[StreamNode, Kind, Kind]:
        made = plain(function, self._value.of)
        check_takes(call, made, "key", "value", context=True)
        kind = self._node.builder.result(key, self._result_type(function, 2), call, "key")
        own = owner_of(kind)
        make = self._applied(made, lambda f: SelectKey(f, own))
        return self._below("KSTREAM-KEY-SELECT-", make, name, results="rekeyed"), kind, self._value

    def _applied(self, function: Any, make: Callable[[Any], Any], keyed: bool = True) -> Make:
        """A factory of operators with a user's function, given a key of its own if any."""
        return applied(with_own_key(function, self._key, keyed), make)

    def _written(self, key: Any, value: Any, call: str) -> tuple[Kind, Kind]:
        return (
            self._key if key is None else Kind.given(key, call, "key"),
            self._value if value is None else Kind.given(value, call, "value"),
        )

    def _result_type(self, function: Any, count: int) -> Any:
        """The type of what a function of ``(value)`` or ``(key, value)`` returns."""
        if isinstance(function, Expression):
            return type_of(function, self._key.of, self._value.of)
        return result_type(function, *(self._key.of, self._value.of)[-count:])

    def _below(
        self, prefix: str, make: MakeNode, name: str | None, **parts: Unpack[NodeParts]
    ) -> StreamNode:
        """The node of an operator below this one's."""
        above = self._node
        own = above.builder.processor(prefix, (above.name,), make, name, **parts)
        rekeyed = above.rekeyed or parts.get("results") == "rekeyed"
        return StreamNode(above.builder, own, rekeyed)

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
        call = "join()" if kind == "inner" else f"{kind}_join()"
        if isinstance(other, GlobalKTable):
            if any(one is not None for one in (within, grace, store)):
                raise TopologyError(f"{call}: a global table takes on=, value= and name= only")
            return KStream(*joined_globally(call, self, other, joiner, on, value, name))
        if on is not None:
            raise TopologyError(f"{call}: on= is for global tables")
        if isinstance(other, KStream):
            if grace is not None:
                raise TopologyError(f"{call}: the grace of two streams is in within=")
            streams = self, other
            return KStream(*joined_streams(kind, streams, joiner, within, value, store, name))
        if not isinstance(other, KTable):
            raise TopologyError(
                f"{call}: a stream joins with a stream or a table, as of App.stream(topic) or "
                f"App.table(topic), not with {shown(other)}"
            )
        if kind == "outer":
            raise TopologyError(
                f"{call} is of two streams or of two tables: left_join() keeps the records that "
                "have no row, and to_table().outer_join(table) makes a table of both"
            )
        if within is not None:
            raise TopologyError(f"{call}: within= is for joins of two streams")
        return KStream(*joined(call, self, other, joiner, value, name, grace, store))
