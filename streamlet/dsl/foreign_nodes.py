"""The join of two tables by foreign keys: its nodes, topics and stores, named as by Kafka Streams.

The topics are repartition topics: one leads from the tasks of the left table to those of the right
one, and one back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from streamlet.dsl import foreign_wire as wire
from streamlet.dsl.builder import Builder, same_app
from streamlet.dsl.foreign_keys import (
    AnswerChange,
    AnswerSubscriptions,
    ForeignKey,
    JoinAnswers,
    KeepSubscriptions,
    Subscribe,
)
from streamlet.dsl.functions import form_of, takes
from streamlet.dsl.inference import result_type
from streamlet.dsl.kinds import Kind
from streamlet.dsl.materialized import StoreLike
from streamlet.dsl.table_node import TableNode
from streamlet.dsl.table_table import rows_of
from streamlet.dsl.tables import TableSource, ToTable
from streamlet.dsl.uses import TableUse
from streamlet.dsl.versioned_tables import for_newest
from streamlet.errors import TopologyError
from streamlet.serdes import Serde
from streamlet.topology.names import subscription_topic
from streamlet.topology.nodes import InternalTopic, SinkNode, SourceNode, StoreSpec

if TYPE_CHECKING:
    from streamlet.dsl.table import KTable

_FORMS = (
    ("key", "foreign_key", "left", "right"),
    ("key", "left", "right"),
    ("left", "right"),
)

#: The reason why rows cannot expire in joins by foreign keys.
_NO_TTL = "rows find each other in other tasks, which have other stream times"


def joined_by_foreign_key(
    left: KTable[Any, Any],
    right: Any,
    joiner: Any,
    foreign_key: Any,
    result: tuple[Any, StoreLike, str | None],
    keeps_left: bool,
) -> tuple[TableNode, Kind]:
    """The node of a join by foreign keys, and its values.

    ``result`` are the type of these, the store and the name that a user gave.

    Raises:
        TopologyError: the other is no table, or a type is not known.
    """
    from streamlet.dsl.table import KTable

    call = "left_join()" if keeps_left else "join()"
    if not isinstance(right, KTable):
        raise TopologyError(f"{call}: a table joins with a table, not {type(right).__name__}")
    one, other = left._node, right._node
    same_app(call, one.builder, other.builder)
    for rows in (*one.stores, *other.stores):
        spec = one.builder.graph.store(rows)
        if spec is not None and spec.ttl_ms is not None:
            raise TopologyError(f"{call}, foreign_key=: rows of {rows} expire (ttl=): {_NO_TTL}")
    foreign = ForeignKey(foreign_key, takes(f"{call}, foreign_key=", foreign_key, "key", "value"))
    count = form_of(call, joiner, *_FORMS)
    for use in (one.use, other.use):
        use.want_olds()
        use.shown = True
    of = (left._key.of, right._key.of, left._value.of, right._value.of)
    kinds = {4: of, 3: (of[0], *of[2:]), 2: of[2:]}
    value, store, name = result
    kind = one.builder.result(value, result_type(joiner, *kinds[count]), call, "value")
    serdes = _Serdes(
        left._key.needed(call, "key", takes=False),
        right._key.needed(call, "key", takes=False),
        left._value.needed(call, "value", takes=False),
        right._value.needed(call, "value", takes=False),
    )
    join = _ForeignJoin(one, other, serdes, foreign, (joiner, count), keeps_left)
    return join.added(name, store, kind.needed(call, "value")), kind


@attrs.frozen
class _Serdes:
    """Serdes of the keys and values of both tables."""

    key: Serde[Any]
    foreign: Serde[Any]
    left: Serde[Any]
    right: Serde[Any]


@attrs.frozen
class _ForeignNames:
    """The names of the nodes, topics and the store of a join, in the order of their numbers."""

    subscription_topic: str
    subscribe: str
    subscription_sink: str
    subscription_source: str
    store: str
    keep: str
    answer: str
    change: str
    response_topic: str
    response_sink: str
    response_source: str
    join: str
    result: str

    @classmethod
    def of(cls, builder: Builder, name: str | None) -> _ForeignNames:
        """Those that begin with a name, else made-up ones."""

        def new(end: str, prefix: str) -> str:
            return builder.graph.new_name(prefix, name, f"-{end}")

        join = "KTABLE-FK-JOIN-"
        registration, processor = (
            f"{join}SUBSCRIPTION-REGISTRATION-",
            f"{join}SUBSCRIPTION-PROCESSOR-",
        )
        response = f"{join}SUBSCRIPTION-RESPONSE-"
        return cls(
            new("subscription-registration", registration),
            new("subscription-registration-processor", registration),
            new("subscription-registration-sink", "KTABLE-SINK-"),
            new("subscription-registration-source", "KTABLE-SOURCE-"),
            new("subscription-store", f"{join}SUBSCRIPTION-STATE-STORE-"),
            new("subscription-receive", processor),
            new("subscription-join-foreign", processor),
            new("foreign-join-subscription", processor),
            new("subscription-response", response),
            new("subscription-response-sink", "KTABLE-SINK-"),
            new("subscription-response-source", "KTABLE-SOURCE-"),
            new("subscription-response-resolver", f"{response}RESOLVER-PROCESSOR-"),
            new("result", f"{join}OUTPUT-"),
        )


@attrs.frozen
class _ForeignJoin:
    """A join by foreign keys, as it is added to a topology."""

    one: TableNode
    other: TableNode
    serdes: _Serdes
    foreign: ForeignKey
    joiner: tuple[Any, int]
    keeps_left: bool

    def added(self, name: str | None, store: StoreLike, value: Serde[Any]) -> TableNode:
        """Add its nodes; the node of the result."""
        builder = self.one.builder
        names = _ForeignNames.of(builder, name)
        self._subscriptions(builder, names, named=name is not None)
        self._answers(builder, names, named=name is not None)
        spec, use = (
            builder.store(store, "KTABLE-FK-JOIN-OUTPUT-", self.serdes.key, value, no_ttl=_NO_TTL),
            TableUse(),
        )
        builder.named_processor(
            names.result,
            (names.join,),
            lambda context: ToTable(TableSource(context.store(spec.name), value, use)),
            writes=spec.name,
            by_key=True,
        )
        return TableNode(builder, names.result, use, spec)

    def _subscriptions(self, builder: Builder, names: _ForeignNames, *, named: bool) -> None:
        """From the left table to the store of subscriptions."""
        serdes, foreign, left = self.serdes, self.foreign, self.keeps_left
        columns, digest = (serdes.foreign, serdes.key), wire.digests(serdes.left)
        subscribe = for_newest(
            names.subscribe,
            lambda context: Subscribe(names.subscribe, context, foreign, columns, digest, left),
            self.one.history_ms is not None,
        )
        builder.named_processor(names.subscribe, (self.one.name,), subscribe)
        raw = wire.opaque(f"subscriptions of {serdes.key.name}")
        topic = _between(builder, names.subscription_topic, named)
        to = wire.opaque(f"bytes of {serdes.foreign.name}"), raw
        builder.graph.add_sink(SinkNode(names.subscription_sink, (names.subscribe,), topic, *to))
        builder.graph.add_source(
            SourceNode(names.subscription_source, (topic,), serdes.foreign, raw)
        )
        key = wire.opaque(f"{serdes.foreign.name} with {serdes.key.name}")
        spec = StoreSpec(names.store, key, wire.opaque("subscribers"), named=named)
        builder.graph.add_store(spec)
        builder.named_processor(
            names.keep,
            (names.subscription_source,),
            lambda context: KeepSubscriptions(context.store(names.store), serdes.foreign),
            writes=names.store,
            by_key=True,
        )

    def _answers(self, builder: Builder, names: _ForeignNames, *, named: bool) -> None:
        """From the right table to the join with the left one."""
        serdes, other, one = self.serdes, self.other, self.one
        builder.named_processor(
            names.answer,
            (names.keep,),
            lambda context: AnswerSubscriptions(context, rows_of(other, context), serdes.right),
            reads=other.stores,
            by_key=True,
        )
        change = for_newest(
            names.change,
            lambda context: AnswerChange(
                context, context.store(names.store), serdes.foreign, serdes.right
            ),
            other.history_ms is not None,
        )
        builder.named_processor(
            names.change, (other.name,), change, reads=(names.store,), by_key=True
        )
        raw = wire.opaque(f"answers of {serdes.right.name}")
        topic = _between(builder, names.response_topic, named)
        sink = SinkNode(
            *(names.response_sink, (names.answer, names.change), topic),
            *(wire.opaque(f"bytes of {serdes.key.name}"), raw),
            partitions_of=wire.partitions_of_answers,
        )
        builder.graph.add_sink(sink)
        builder.graph.add_source(SourceNode(names.response_source, (topic,), serdes.key, raw))
        digest = wire.digests(serdes.left)
        builder.named_processor(
            names.join,
            (names.response_source,),
            lambda context: JoinAnswers(
                names.join,
                context,
                rows_of(one, context),
                digest,
                serdes.right,
                *self.joiner,
                self.foreign,
                self.keeps_left,
            ),
            reads=one.stores,
            by_key=True,
        )


def _between(builder: Builder, name: str, named: bool) -> str:
    """Declare a topic of a join; its name."""
    topic = subscription_topic(builder.application, name)
    builder.graph.add_repartition(InternalTopic(topic, "repartition", named=named, follows=True))
    return topic
