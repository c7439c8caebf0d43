"""``GlobalKTable``: a table that each process has whole, whatever tasks it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

from streamlet.absent import explains_misuse
from streamlet.arguments import never_by_hand
from streamlet.dsl.graph.builder import Builder
from streamlet.dsl.graph.functions import check_takes, takes
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.graph.materialized import Materialized, StoreLike, no_headers
from streamlet.dsl.graph.one_app import same_app
from streamlet.dsl.graph.ownership import with_own_key
from streamlet.dsl.graph.row_expiry import ttl_of
from streamlet.dsl.graph.stream_node import StreamNode
from streamlet.dsl.graph.uses import TableUse
from streamlet.dsl.joins.joiner import joiner_of
from streamlet.dsl.joins.row_lookups import GlobalJoin
from streamlet.dsl.operators.copies import owner
from streamlet.dsl.rows.sources import TableSource
from streamlet.errors import TopologyError
from streamlet.state.store_specs import StoreSpec
from streamlet.topology.nodes import GlobalTableSpec, SourceNode
from streamlet.topology.operator import TaskContext

if TYPE_CHECKING:
    from streamlet.dsl.stream import KStream

K = TypeVar("K")
V = TypeVar("V")


@explains_misuse
@never_by_hand("App.global_table() makes it")
class GlobalKTable(Generic[K, V]):
    """A table that each process reads whole, so that streams of any key can join with it.

    Made by ``App.global_table``.
    """

    def __init__(self, builder: Builder, spec: GlobalTableSpec, key: Kind, value: Kind) -> None:
        self._builder = builder
        self._spec = spec
        self._key = key
        self._value = value

    def __repr__(self) -> str:
        return f"GlobalKTable[{self._key.shown}, {self._value.shown}] in store {self.store!r}"

    @property
    def store(self) -> str:
        """Name of its store."""
        return self._spec.store.name


def global_table_of(
    builder: Builder,
    call: str,
    topic: str,
    kinds: tuple[Kind, Kind],
    store: StoreLike,
    timestamp: tuple[Callable[..., int] | None, bool],
    given: str | None,
) -> GlobalKTable[Any, Any]:
    """Add a global table of a topic, whose node and store have Kafka Streams' names.

    Raises:
        TopologyError: the topic is read otherwise already, or the store cannot be had.
    """
    how = Materialized.of(store)
    ttl_of(how, f"{topic} is the changelog of the global table, and each process has its own time")
    if how.history is not None or how.retention is not None:
        raise TopologyError(f"{call}: a global table has neither a history nor a retention")
    if how.headers:
        raise TopologyError(no_headers(how.name))
    if not how.logged:
        raise TopologyError(f"{call}: its topic is its changelog, so it is always logged")
    key, value = kinds[0].needed(call, "key"), kinds[1].needed(call, "value")
    new = builder.graph.new_name
    name = how.name if how.name is not None else new(f"{topic}-STATE-STORE-")
    source = SourceNode(
        new("KSTREAM-SOURCE-", given, "-source"),
        (topic,),
        key,
        value,
        timestamp[0],
        None,
        timestamp[1],
    )
    named = how.name is not None
    kept = how.persistent, True, named, topic
    spec = StoreSpec(name, key, value, *kept, rocks=how.rocks)
    table = GlobalTableSpec(
        source,
        new("KTABLE-SOURCE-", given),
        spec,
        lambda kept: TableSource(kept, value, TableUse()),
    )
    builder.graph.add_global(table)
    return GlobalKTable(builder, table, *kinds)


def joined_globally(
    call: str,
    stream: KStream[Any, Any],
    table: GlobalKTable[Any, Any],
    joiner: Any,
    on: Any,
    value: Any,
    given: str | None,
) -> tuple[StreamNode, Kind, Kind]:
    """The node, the keys and the values of a stream joined with a global table.

    Raises:
        TopologyError: there is no function for the keys of rows.
    """
    if on is None:
        raise TopologyError(
            f"{call}: with a global table it needs on=, a function (key, value) that gives the key "
            "of the row"
        )
    check_takes(f"{call}, on=", on, "key", "value")
    count = takes(call, joiner, "key", "value", "row")
    builder, left = stream._node.builder, call == "left_join()"
    same_app(call, builder, table._builder)
    if left:
        builder.keep_null_keys(stream._node.name)
    spec = table._spec.store

    kinds = stream._key, stream._value, table._value
    made, result = joiner_of(call, builder, joiner, kinds, count, value)
    own, on = made.given(owner(spec.value)), with_own_key(on, stream._key)

    def make(context: TaskContext) -> GlobalJoin:
        kept = context.store(spec.name)
        dropped = lambda records: context.dropped(name, records)  # noqa: E731
        return GlobalJoin(kept, (), made, left, own, on, spec.key, dropped)

    # Of inner joins, too, as in Kafka Streams.
    name = builder.graph.new_name("KSTREAM-LEFTJOIN-", given)
    builder.named_processor(
        name, (stream._node.name,), make, skip_nulls="value", globals=(spec.name,)
    )
    return attrs.evolve(stream._node, name=name), stream._key, result
