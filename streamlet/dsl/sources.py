"""``stream``, ``table`` and ``global_table``: the part of ``App`` that reads topics."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, overload

from streamlet.arguments import calls_told_by_form, check_is
from streamlet.dsl.global_table import GlobalKTable, global_table_of
from streamlet.dsl.graph.builder import Builder
from streamlet.dsl.graph.kinds import DEFAULT, Kind
from streamlet.dsl.graph.materialized import Materialized, StoreLike
from streamlet.dsl.graph.stream_node import StreamNode
from streamlet.dsl.graph.versioned_stores import table_store
from streamlet.dsl.partition_time import extractor
from streamlet.dsl.rows.versioned import source_node
from streamlet.dsl.stream import KStream
from streamlet.dsl.table import KTable
from streamlet.errors import TopologyError
from streamlet.kafka.placements import DEFAULT as DEFAULT_PARTITIONER
from streamlet.kafka.placements import PartitionerName, partitioner_name
from streamlet.serdes import Serde, SerdeLike
from streamlet.serdes.serde import alike
from streamlet.topology.nodes import ByDuration
from streamlet.user_code import shown

#: One topic, several, or all whose whole names match.
TopicNames: TypeAlias = str | Sequence[str] | re.Pattern[str]

K = TypeVar("K")
V = TypeVar("V")


def names_of(topic: str | Sequence[str]) -> tuple[str, ...]:
    """The topics of a stream, by name.

    Raises:
        TopologyError: there is none, or one of them twice.
    """
    texts = (str,) if isinstance(topic, bytes) else (str, Sequence)
    check_is("stream()", topic, texts, "names of topics or a pattern")
    topics = (topic,) if isinstance(topic, str) else tuple(topic)
    for one in topics:
        check_is("stream()", one, (str,), "names of topics or a pattern")
    if not topics or len(set(topics)) < len(topics):
        raise TopologyError(f"stream({shown(topic)}): expected topics, each once")
    return topics


def _check_reset(call: str, reset: object) -> None:
    known = reset is None or isinstance(reset, ByDuration)
    if not known and not (isinstance(reset, str) and reset in ("earliest", "latest")):
        raise TopologyError(
            f"{call}: reset={shown(reset)} is neither 'earliest' nor 'latest' "
            "nor such as sl.by_duration('7d')"
        )


def partitioner_of(call: str, given: str | None) -> str:
    """The full name of the partitioner of a topic.

    Raises:
        TopologyError: there is none of that name.
    """
    try:
        return DEFAULT_PARTITIONER if given is None else partitioner_name(given)
    except ValueError as error:
        raise TopologyError(f"{call}: partitioner={error}") from error


@calls_told_by_form
class Sources:
    """The part of ``App`` that reads topics."""

    _builder: Builder
    _tables: dict[str, tuple[KTable[Any, Any], tuple[Serde[Any], ...], tuple[Materialized, str]]]

    @overload
    def stream(
        self,
        topic: TopicNames,
        *,
        key: None,
        value: SerdeLike[V],
        timestamp: Callable[[None, V, int], int] | None = None,
        reset: Literal["earliest", "latest"] | ByDuration | None = None,
        partitioner: PartitionerName | None = None,
        name: str | None = None,
    ) -> KStream[None, V]: ...
    @overload
    def stream(
        self,
        topic: TopicNames,
        *,
        key: SerdeLike[K],
        value: SerdeLike[V],
        timestamp: Callable[[K, V, int], int] | None = None,
        reset: Literal["earliest", "latest"] | ByDuration | None = None,
        partitioner: PartitionerName | None = None,
        name: str | None = None,
    ) -> KStream[K, V]: ...
    @overload
    def stream(
        self,
        topic: TopicNames,
        *,
        value: SerdeLike[V],
        timestamp: Callable[[Any, V, int], int] | None = None,
        reset: Literal["earliest", "latest"] | ByDuration | None = None,
        partitioner: PartitionerName | None = None,
        name: str | None = None,
    ) -> KStream[Any, V]: ...
    @overload
    def stream(
        self,
        topic: TopicNames,
        *,
        key: SerdeLike[K],
        timestamp: Callable[[K, Any, int], int] | None = None,
        reset: Literal["earliest", "latest"] | ByDuration | None = None,
        partitioner: PartitionerName | None = None,
        name: str | None = None,
    ) -> KStream[K, Any]: ...
    @overload
    def stream(
        self,
        topic: TopicNames,
        *,
        timestamp: Callable[[Any, Any, int], int] | None = None,
        reset: Literal["earliest", "latest"] | ByDuration | None = None,
        partitioner: PartitionerName | None = None,
        name: str | None = None,
    ) -> KStream[Any, Any]: ...
    def stream(
        self,
        topic: TopicNames,
        *,
        key: Any = DEFAULT,
        value: Any = DEFAULT,
        timestamp: Callable[[Any, Any, int], int] | None = None,
        reset: Literal["earliest", "latest"] | ByDuration | None = None,
        partitioner: PartitionerName | None = None,
        name: str | None = None,
    ) -> KStream[Any, Any]:
        """A stream of the records of one or several topics.

        - Nulls: kept, as None; serdes never see them.
        - Key, timestamp, headers: those of the record; ``timestamp`` computes another time.

        Args:
            topic: name, names, or a compiled regular expression that whole names match, as in
                Kafka Streams: a topic that is made later is read once it is noticed, within
                ``metadata.max.age.ms``. An application's own topics never match.
                There are as many tasks as the topic with the most has partitions; counts need to
                be equal only where the stream is joined, as in Kafka Streams.
            key: type or serde of the keys; None for keys that are always null. Without it, that of
                the application, ``App(key=...)``.
            value: type or serde of the values; without it, that of the application.
            timestamp: ``(key, value, timestamp_ms) -> ms``, the time of the event; a record
                with a negative one is left out and counted as dropped. Without it, the record's
                own, and a negative one is an error (``on_error`` of the application).
            reset: where to begin without a commit, ``sl.by_duration("7d")`` for a time before now;
                None for the setting ``auto.offset.reset``.
            partitioner: how its producer puts keys into partitions, by librdkafka's name:
                ``murmur2_random`` (Java's default; without one), ``consistent_random`` (CRC32,
                librdkafka's default, so that of confluent-kafka), ``fnv1a_random``. Topics that
                are joined need the same; what streamlet writes beside them follows.
            name: of its node in the topology, as of ``Consumed.withName``; made up without it.

        Raises:
            TopologyError: there is no serde for the types, there is no such partitioner, or the
                topic is read otherwise already.

        Examples:
            >>> clicks = app.stream(["clicks", "taps"], key=str, value=str)
            >>> clicks.to("all")
            >>> run(clicks=[("ann", "home")], taps=[("bob", "cart")])
            {'all': [('ann', 'home'), ('bob', 'cart')]}
        """
        pattern = topic if isinstance(topic, re.Pattern) else None
        if pattern is not None:
            check_is("stream()", pattern.pattern, (str,), "a pattern of text, which names are")
        topics = () if isinstance(topic, re.Pattern) else names_of(topic)
        call = f"stream({', '.join(map(repr, topics or (topic,)))})"
        kinds = self._kinds(call, key, value)
        times = extractor(call, timestamp)
        by = partitioner_of(call, partitioner)
        _check_reset(call, reset)
        source = self._builder.source(topics, *kinds, times, reset, name, pattern, by)
        return KStream(StreamNode(self._builder, source), *kinds)

    @overload
    def table(
        self,
        topic: str,
        *,
        key: SerdeLike[K],
        value: SerdeLike[V],
        store: StoreLike = None,
        timestamp: Callable[[K, V, int], int] | None = None,
        partitioner: PartitionerName | None = None,
        name: str | None = None,
    ) -> KTable[K, V]: ...
    @overload
    def table(
        self,
        topic: str,
        *,
        value: SerdeLike[V],
        store: StoreLike = None,
        timestamp: Callable[[Any, V, int], int] | None = None,
        partitioner: PartitionerName | None = None,
        name: str | None = None,
    ) -> KTable[Any, V]: ...
    @overload
    def table(
        self,
        topic: str,
        *,
        key: SerdeLike[K],
        store: StoreLike = None,
        timestamp: Callable[[K, Any, int], int] | None = None,
        partitioner: PartitionerName | None = None,
        name: str | None = None,
    ) -> KTable[K, Any]: ...
    @overload
    def table(
        self,
        topic: str,
        *,
        store: StoreLike = None,
        timestamp: Callable[[Any, Any, int], int] | None = None,
        partitioner: PartitionerName | None = None,
        name: str | None = None,
    ) -> KTable[Any, Any]: ...
    def table(
        self,
        topic: str,
        *,
        key: Any = DEFAULT,
        value: Any = DEFAULT,
        store: StoreLike = None,
        timestamp: Callable[[Any, Any, int], int] | None = None,
        partitioner: PartitionerName | None = None,
        name: str | None = None,
    ) -> KTable[Any, Any]:
        """A table of a topic's newest value per key.

        The topic is the table's own changelog, so it should be compacted: a start warns of one
        whose ``cleanup.policy`` deletes rows by age or size. ``key`` and ``value`` as of
        ``stream``. ``store`` is the name of the store, or a ``Materialized``, whose ``history``
        makes the table versioned; it has a changelog of its own then. Without a name, the store is
        there only if something looks rows up: a join, ``group_by``, ``suppress``, a processor.
        ``partitioner`` is as of ``stream``. ``name`` is that of its node, with ``-source`` behind
        it that of the node that reads the topic.

        - Nulls: a record without a value deletes the row; one without a key is left out and counted
          as dropped.
        - Key, timestamp, headers: those of the record.

        Raises:
            TopologyError: as ``stream``.

        Examples:
            >>> users = app.table("users", key=str, value=str, store="users")
            >>> users.to_stream().to("changes")
            >>> run(users=[("ann", "Berlin"), ("ann", None)])
            {'changes': [('ann', 'Berlin'), ('ann', None)]}
        """
        call = f"table({shown(topic)})"
        kinds = self._kinds(call, key, value)
        serdes = kinds[0].needed(call, "key"), kinds[1].needed(call, "value")
        by = partitioner_of(call, partitioner)
        settings = (Materialized.of(store), by)
        known = self._tables.get(topic)
        if known is not None:
            if known[2] != settings or not all(map(alike, known[1], serdes)):
                raise TopologyError(f"{call}: the topic is a table already, with other settings")
            return known[0]
        times = extractor(call, timestamp)
        restored = None if times[0] is None else times
        spec = table_store(self._builder, call, store, f"{topic}-", serdes, topic, restored)
        above = None if name is None else f"{name}-source"
        source = self._builder.source((topic,), *kinds, times, None, above, None, by)
        own = self._builder.graph.new_name("KTABLE-SOURCE-", name)
        node = source_node(self._builder, own, source, spec, serdes[1])
        table: KTable[Any, Any] = KTable(node, *kinds)
        self._tables[topic] = (table, serdes, settings)
        return table

    @overload
    def global_table(
        self,
        topic: str,
        *,
        key: SerdeLike[K],
        value: SerdeLike[V],
        store: StoreLike = None,
        timestamp: Callable[[K, V, int], int] | None = None,
        name: str | None = None,
    ) -> GlobalKTable[K, V]: ...
    @overload
    def global_table(
        self,
        topic: str,
        *,
        value: SerdeLike[V],
        store: StoreLike = None,
        timestamp: Callable[[Any, V, int], int] | None = None,
        name: str | None = None,
    ) -> GlobalKTable[Any, V]: ...
    @overload
    def global_table(
        self,
        topic: str,
        *,
        key: SerdeLike[K],
        store: StoreLike = None,
        timestamp: Callable[[K, Any, int], int] | None = None,
        name: str | None = None,
    ) -> GlobalKTable[K, Any]: ...
    @overload
    def global_table(
        self,
        topic: str,
        *,
        store: StoreLike = None,
        timestamp: Callable[[Any, Any, int], int] | None = None,
        name: str | None = None,
    ) -> GlobalKTable[Any, Any]: ...
    def global_table(
        self,
        topic: str,
        *,
        key: Any = DEFAULT,
        value: Any = DEFAULT,
        store: StoreLike = None,
        timestamp: Callable[[Any, Any, int], int] | None = None,
        name: str | None = None,
    ) -> GlobalKTable[Any, Any]:
        """A table of a topic's newest value per key, which each process has whole.

        A stream of any key and partition count joins with it, ``join(table, joiner, on=…)``. It is
        read before the process runs tasks, and on as the topic grows; it belongs to no task, so the
        rows that a record meets depend on how far its process has read. ``key`` and ``value`` as
        of ``stream``, ``name`` as of ``table``.

        - Nulls: a record without a value deletes the row; one without a key is left out.
        - Key, timestamp, headers: those of the record.

        Raises:
            TopologyError: the topic is read otherwise already, or there is no serde for the types.

        Examples:
            >>> rates = app.global_table("rates", key=str, value=int)
            >>> def priced(pieces: int, rate: int) -> int:
            ...     return pieces * rate
            >>> orders.join(rates, priced, on=lambda item, pieces: item[0]).to("priced")
            >>> run(rates=[("l", 7)], orders=[("lamp", 3)])
            {'priced': [('lamp', 21)]}
        """
        call = f"global_table({shown(topic)})"
        kinds = self._kinds(call, key, value)
        times = extractor(call, timestamp)
        return global_table_of(self._builder, call, topic, kinds, store, times, name)

    def _kinds(self, call: str, key: Any, value: Any) -> tuple[Kind, Kind]:
        given = self._builder.given
        return given(key, call, "key"), given(value, call, "value")
