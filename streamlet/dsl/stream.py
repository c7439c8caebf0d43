"""``KStream``: records one after another, each an event of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from streamlet.dsl.absent import no_operator
from streamlet.dsl.branched import BranchedKStream
from streamlet.dsl.expressions import plain
from streamlet.dsl.graph.arguments import check_is
from streamlet.dsl.graph.builder import Make, StreamNode, same_app
from streamlet.dsl.graph.functions import check_not_marked, check_takes
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.graph.materialized import StoreLike
from streamlet.dsl.graph.ownership import owner_of
from streamlet.dsl.graph.record_context import applied
from streamlet.dsl.graph.repartitions import Repartition
from streamlet.dsl.grouped import KGroupedStream
from streamlet.dsl.joins.stream_table import table_of
from streamlet.dsl.operators.stateless import PassOn, SelectKey
from streamlet.dsl.operators.topics import ChooseTopics
from streamlet.dsl.stream_calls import StreamCalls
from streamlet.dsl.stream_deduplication import StreamDeduplication
from streamlet.dsl.stream_joins import StreamJoins
from streamlet.dsl.stream_processors import StreamProcessors
from streamlet.dsl.stream_records import StreamRecords
from streamlet.dsl.table import KTable
from streamlet.errors import TopologyError
from streamlet.serdes import SerdeLike
from streamlet.topology.nodes import Partitions

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


class KStream(
    StreamRecords[K, V],
    StreamJoins[K, V],
    StreamProcessors[K, V],
    StreamDeduplication[K, V],
    StreamCalls[K, V],
):
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

    if not TYPE_CHECKING:  # type checkers go on to refuse names that are not there
        __getattr__ = no_operator

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
        return table_of("to_table()", self, store, *self._written(key, value, "to_table()"), name)

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
        if partitions is not None:
            check_is("repartition(partitions=)", partitions, (int,), "a number of partitions")
        if partitions is not None and partitions < 1:
            raise TopologyError(f"repartition(): partitions must be at least 1, not {partitions}")
        if partitioner is not None:
            check_takes("repartition()", partitioner, "key", "value", "partitions")
            check_not_marked("repartition()", partitioner)
        builder = self._node.builder
        kinds = self._written(key, value, "repartition()")
        how = Repartition(
            prefix=name or builder.graph.new_name("KSTREAM-REPARTITION-"),
            key=kinds[0].needed("repartition()", "key"),
            value=kinds[1].needed("repartition()", "value"),
            named=name is not None,
            partitions=partitions,
            plain=plain,
            partitioner=partitioner,
        )
        return KStream(StreamNode(builder, builder.repartition(self._node.name, how)), *kinds)

    def to(
        self,
        topic: str | Callable[[K, V], str],
        *,
        key: SerdeLike[K] = None,
        value: SerdeLike[V] = None,
        partitioner: Callable[[K, V, int], Partitions] | None = None,
        origin: bool = False,
        name: str | None = None,
    ) -> None:
        """Writes the records to a topic that exists, or each to the one that a function names.

        The function is ``(key, value) -> topic``. ``partitioner`` is ``(key, value, partitions) ->
        partition``; with several partitions each gets the record, with none of them (an empty list)
        none does, and it counts as dropped; with None the key decides, as in Java's client. So it
        does without a partitioner, a windowed key without its window, as in Kafka Streams. A
        partitioner needs a single topic. So does ``origin``: then each record bears a header that
        says which input record it stems from, and ``streamlet.without_repeats`` can tell what a
        crash had written again.

        - Nulls: written as they are; a record without a key goes to any partition.
        - Key, timestamp, headers: those of the record.

        Examples:
            >>> orders.to(lambda item, pieces: "large" if pieces > 9 else "small")
            >>> run(orders=[("lamp", 3), ("desk", 12)])
            {'large': [('desk', 12)], 'small': [('lamp', 3)]}
        """
        call = f"to({topic!r})" if isinstance(topic, str) else "to()"
        target: str | Make
        if isinstance(topic, str):
            target = topic
        else:
            check_takes(call, topic, "key", "value", context=True)
            if partitioner is not None or origin:
                what = "origin=True needs" if origin else "a partitioner knows"
                raise TopologyError(f"{call}: {what} one topic, not one of each record")
            target = applied(topic, ChooseTopics)
        if partitioner is not None:
            check_takes(call, partitioner, "key", "value", "partitions")
        new_key, new_value = self._written(key, value, call)
        serdes = (new_key.needed(call, "key"), new_value.needed(call, "value"))
        self._node.builder.sink(self._node.name, target, *serdes, partitioner, origin, name)

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
        if name is not None:
            check_is("group_by_key(name=)", name, (str,), "a text")
        return KGroupedStream(
            node.builder,
            node.name,
            *self._written(key, value, "group_by_key()"),
            call="group_by_key()",
            repartition=node.rekeyed,
            name=name,
        )

    def _selected(
        self, call: str, function: Any, key: Any, name: str | None
    ) -> tuple[StreamNode, Kind, Kind]:
        made = plain(function, self._value.of)
        check_takes(call, made, "key", "value", context=True)
        kind = self._node.builder.result(key, self._result_type(function, 2), call, "key")
        own = owner_of(kind)
        make = applied(made, lambda f: SelectKey(f, own))
        return self._below("KSTREAM-KEY-SELECT-", make, name, "rekeyed"), kind, self._value

    def _written(self, key: Any, value: Any, call: str) -> tuple[Kind, Kind]:
        return (
            self._key if key is None else Kind.given(key, call, "key"),
            self._value if value is None else Kind.given(value, call, "value"),
        )
