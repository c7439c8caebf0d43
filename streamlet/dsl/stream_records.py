"""The part of ``KStream`` that looks at one record at a time: filters, maps, side effects."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from streamlet.dsl.expressions import Expression, plain, type_of
from streamlet.dsl.graph.builder import Make, StreamNode
from streamlet.dsl.graph.functions import check_takes, takes
from streamlet.dsl.graph.inference import element_type, pair_types, result_type
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.graph.ownership import owner_of, owner_of_results
from streamlet.dsl.graph.record_context import applied
from streamlet.dsl.operators.stateless import (
    Filter,
    FlatMap,
    FlatMapValues,
    Foreach,
    Map,
    MapValues,
    Peek,
)
from streamlet.serdes import SerdeLike
from streamlet.topology.nodes import Results
from streamlet.visible import visible

if TYPE_CHECKING:
    from streamlet.dsl.stream import KStream

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


class StreamRecords(Generic[K, V]):
    """The part of ``KStream`` that looks at one record at a time: filters, maps, side effects."""

    _node: StreamNode
    _key: Kind
    _value: Kind

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
        function = plain(predicate, self._value.of)
        check_takes("filter()", function, "key", "value", context=True)
        node = self._below(
            "KSTREAM-FILTER-", applied(function, lambda f: Filter(f, keep=True)), name, "same"
        )
        return self._made(node, self._key, self._value)

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
        function = plain(predicate, self._value.of)
        check_takes("filter_not()", function, "key", "value", context=True)
        node = self._below(
            "KSTREAM-FILTER-", applied(function, lambda f: Filter(f, keep=False)), name, "same"
        )
        return self._made(node, self._key, self._value)

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
        kinds = self._pair_kinds("map()", (key, value), pair_types(result_type(function)))
        own = owner_of(*kinds)
        make = applied(function, lambda f: Map(f, own))
        return self._made(self._below("KSTREAM-MAP-", make, name, "rekeyed"), *kinds)

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
        make = applied(made, lambda f: MapValues(f, count, own))
        return self._made(self._below("KSTREAM-MAPVALUES-", make, name), self._key, kind)

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
        kinds = self._pair_kinds("flat_map()", (key, value), inferred)
        own = owner_of(*kinds)
        make = applied(function, lambda f: FlatMap(f, own))
        return self._made(self._below("KSTREAM-FLATMAP-", make, name, "rekeyed"), *kinds)

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
        make = applied(function, lambda f: FlatMapValues(f, count, own))
        return self._made(self._below("KSTREAM-FLATMAPVALUES-", make, name), self._key, kind)

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
        node = self._below("KSTREAM-PEEK-", applied(function, Peek), name, "same")
        return self._made(node, self._key, self._value)

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
        self._below("KSTREAM-FOREACH-", applied(function, Foreach), name)

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
        builder = self._node.builder
        own = builder.graph.new_name("KSTREAM-PRINTER-", name)
        shown = self._node.name if label is None else label

        def show(key: Any, value: Any) -> None:
            text = f"[{shown}]: {key}, {value}"
            print(visible(text) if sys.stdout.isatty() else text, flush=True)

        builder.named_processor(own, (self._node.name,), applied(show, Foreach))

    def _result_type(self, function: Any, count: int) -> Any:
        """The type of what a function of ``(value)`` or ``(key, value)`` returns."""
        if isinstance(function, Expression):
            return type_of(function, self._key.of, self._value.of)
        return result_type(function, *(self._key.of, self._value.of)[-count:])

    def _pair_kinds(
        self, call: str, given: tuple[Any, Any], inferred: tuple[Any, Any]
    ) -> tuple[Kind, Kind]:
        """The kinds of the keys and values of pairs that a function returns."""
        result = self._node.builder.result
        return (
            result(given[0], inferred[0], call, "key"),
            result(given[1], inferred[1], call, "value"),
        )

    def _below(
        self, prefix: str, make: Make, name: str | None = None, results: Results = "others"
    ) -> StreamNode:
        """Add an operator with a user function below this stream."""
        above = self._node
        own = above.builder.processor(prefix, (above.name,), make, name=name, results=results)
        return StreamNode(above.builder, own, above.rekeyed or results == "rekeyed")

    def _made(self, node: StreamNode, key: Kind, value: Kind) -> KStream[Any, Any]:
        made: Any = type(self)
        return cast("KStream[Any, Any]", made(node, key, value))
