"""Adds nodes to the graph as the DSL needs them: shared sources, numbered names, repartitions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn, TypedDict, Unpack

from streamlet.arguments import check_is
from streamlet.dsl.graph.inference import first_type
from streamlet.dsl.graph.kinds import DEFAULT, Kind
from streamlet.dsl.graph.materialized import Materialized, StoreLike, no_headers
from streamlet.dsl.graph.one_app import no_copy
from streamlet.dsl.graph.present_changes import NotedStores, NotingChanges
from streamlet.dsl.graph.record_context import is_marked
from streamlet.dsl.graph.repartitions import NullKeyRequest, Repartition, add_repartition
from streamlet.dsl.graph.row_expiry import expiring, timers_beside, timers_of, ttl_of
from streamlet.dsl.operators.nulls import skipping_nulls
from streamlet.errors import TopologyError
from streamlet.kafka.placements import DEFAULT as DEFAULT_PARTITIONER
from streamlet.serdes import Serde
from streamlet.serdes.serde import alike
from streamlet.state.store_specs import BufferSpec, StoreSpec, VersionSpec, WindowSpec
from streamlet.topology.graph import Graph
from streamlet.topology.names import (
    REPARTITION_SUFFIX,
    check_topic_name,
    is_numbered,
    repartition_name,
)
from streamlet.topology.nodes import (
    ByDuration,
    Partitions,
    ProcessorNode,
    Results,
    SinkNode,
    SourceNode,
    Timed,
    Values,
)
from streamlet.topology.operator import (
    CallingOperator,
    HoldingOperator,
    Operator,
    OperatorInParts,
    TaskContext,
)

#: Makes an operator for one task, given its context.
Make = Callable[[TaskContext], Operator | OperatorInParts]
#: The same of one that calls services, too.
MakeNode = Make | Callable[[TaskContext], CallingOperator]


#: Operators whose output does not come with their batch.
_OTHER_WAYS = OperatorInParts, HoldingOperator


class NodeFlags(TypedDict, total=False):
    """The flags of a ``ProcessorNode`` that operators give."""

    timed: Timed
    aside: bool
    child: str
    globals: tuple[str, ...]
    by_key: bool
    spread_ms: int | None
    in_order: bool
    grace_ms: int | None
    results: Results
    values: Values
    keeps: bool


class NodeParts(NodeFlags, total=False):
    """The parts of a node besides its name, its parents and its operator.

    ``writes`` and ``reads`` name its stores. ``skip_nulls`` keeps records away from it that lack a
    ``"key"``, a ``"value"``, or either (``"key value"``).
    """

    writes: str | None
    reads: tuple[str, ...]
    skip_nulls: str


class Builder:
    """The part of an application that the streams and tables of it share."""

    def __init__(
        self, application: str, key: Kind | None = None, value: Kind | None = None
    ) -> None:
        self.application = application
        self._defaults = {"key": key, "value": value}
        self.graph = Graph(application)
        self._sources: dict[tuple[str, ...], tuple[SourceNode, str]] = {}
        self._null_keys: dict[str, NullKeyRequest] = {}
        self._unnamed: dict[tuple[str, ...], str] = {}
        self.noted = NotedStores()
        #: Stores that processors keep by name: what made them, and what they are.
        self.processor_stores: dict[str, tuple[Any, StoreSpec]] = {}

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse to be pickled or copied: what was added to a copy would never run."""
        raise no_copy(self.application)

    def given(self, of: Any, call: str, role: str) -> Kind:
        """The kind of a source's keys or values (``role``), or the default of the application.

        Raises:
            TopologyError: there is no serde for it, or it is not given and there is no default.
        """
        if of is not DEFAULT:
            return Kind.given(of, call, role)
        default = self._defaults[role]
        if default is None:
            raise TopologyError(
                f"{call}: pass {role}=, the type of its {role}s, or give App({role}=...) as the "
                "default"
            )
        return default

    def result(self, given: Any, inferred: Any, call: str, role: str) -> Kind:
        """``Kind.of_result``, with the default of the application where nothing is known."""
        return Kind.of_result(given, inferred, call, role).or_default(self._defaults[role])

    def aggregate(self, given: Any, initializer: Callable[[], Any]) -> Kind:
        """The kind of an aggregate that an initializer begins, which is called if need be."""
        inferred = first_type(initializer) if given is None else None
        return self.result(given, inferred, "aggregate()", "value")

    def results(
        self, given: tuple[Any, Any], inferred: tuple[Any, Any], call: str
    ) -> tuple[Kind, Kind]:
        """The kinds of keys and values that a user function returns."""
        key = self.result(given[0], inferred[0], call, "key")
        return key, self.result(given[1], inferred[1], call, "value")

    def merged(self, one: Kind, other: Kind, role: str) -> Kind:
        """``Kind.merged``, with the default of the application where the two differ."""
        return Kind.merged(one, other, role).or_default(self._defaults[role])

    def source(
        self,
        topics: tuple[str, ...],
        key: Kind,
        value: Kind,
        timestamp: tuple[Callable[..., int] | None, bool],
        reset: str | ByDuration | None,
        name: str | None = None,
        pattern: re.Pattern[str] | None = None,
        by: str = DEFAULT_PARTITIONER,
    ) -> str:
        """Name of the node that reads these topics; asked for twice, it is the same node.

        ``timestamp`` is an extractor, and whether it takes the partition's time. With a ``pattern``
        it reads the topics that match, and ``topics`` is empty. ``by`` is their partitioner.

        Raises:
            TopologyError: the topics are read already, but otherwise.
        """
        own = self.graph.new_name("KSTREAM-SOURCE-", name)
        serdes = (key.needed("stream()", "key"), value.needed("stream()", "value"))
        read = tuple(sorted(topics)) if pattern is None else (f"pattern {pattern.pattern}",)
        known = self._sources.get(read)
        if known is None:
            node = SourceNode(own, topics, *serdes, timestamp[0], reset, timestamp[1], pattern, by)
            self.graph.add_source(node)
            self._sources[read] = (node, own)
            return own
        node = known[0]
        other = {
            f"key= {node.key.name} and {serdes[0].name}": not alike(node.key, serdes[0]),
            f"value= {node.value.name} and {serdes[1].name}": not alike(node.value, serdes[1]),
            f"reset= {node.reset!r} and {reset!r}": node.reset != reset,
            f"partitioner= {node.partitioner} and {by}": node.partitioner != by,
            "timestamp= of two functions": node.timestamp is not timestamp[0],
        }
        if any(other.values()):
            raise TopologyError(
                f"topic {', '.join(read)!r} is read twice with different settings: "
                f"{', '.join(text for text, differs in other.items() if differs)}; "
                "read it once and use the stream twice"
            )
        if name is not None and name != node.name:
            raise TopologyError(
                f"topic {', '.join(read)!r} is read twice, as {node.name!r} and {name!r}; "
                "read it once and use the stream twice"
            )
        return node.name

    def is_as_read(self, node: str, value: Serde[Any]) -> bool:
        """True if values come to a node's children as a serde has read them from a topic.

        That is one of documents, which return as they are when they are written and read again. Not
        of repartition topics: nodes below these may be moved.
        """
        sources = (source for source, name in self._sources.values() if name == node)
        return value.format == "json" and any(source.value is value for source in sources)

    def processor(
        self,
        prefix: str,
        parents: tuple[str, ...],
        make: MakeNode,
        name: str | None = None,
        **parts: Unpack[NodeParts],
    ) -> str:
        """Add an operator below its parents; its name, which is made up if none is given."""
        own = self.graph.new_name(prefix, name)
        self.named_processor(own, parents, make, **parts)
        return own

    def named_processor(
        self, name: str, parents: tuple[str, ...], make: MakeNode, **parts: Unpack[NodeParts]
    ) -> None:
        """Add an operator whose name is there already."""
        self.graph.add_processor(self.node(name, parents, make, **parts))

    def node(
        self,
        name: str,
        parents: tuple[str, ...],
        make: MakeNode,
        *,
        writes: str | None = None,
        reads: tuple[str, ...] = (),
        skip_nulls: str = "",
        **flags: Unpack[NodeFlags],
    ) -> ProcessorNode:
        """The node of an operator, which is not added."""
        stores = reads if writes is None else (writes, *reads)
        specs = [spec for one in stores if (spec := self.graph.store(one)) is not None]
        stores += tuple(timers_of(spec.name) for spec in specs if spec.ttl_ms is not None)

        def factory(context: TaskContext) -> Operator | OperatorInParts | CallingOperator:
            inner = make(context)
            if isinstance(inner, CallingOperator):
                return inner
            if skip_nulls:
                keys, values = "key" in skip_nulls, "value" in skip_nulls
                inner = skipping_nulls(name, context, inner, values=values, keys=keys)
            if writes in self.noted.names and not isinstance(inner, _OTHER_WAYS):
                store = context.store(writes)
                inner = NotingChanges(inner, store, self.noted.of(store))
            return expiring(inner, context, specs)

        return ProcessorNode(
            *(name, parents, factory, stores, reads),
            deterministic=not is_marked(make),
            alone=True,
            **flags,
        )

    def sink(
        self,
        parent: str,
        topic: str | Make,
        key: Serde[Any],
        value: Serde[Any],
        partitioner: Callable[[Any, Any, int], Partitions] | None = None,
        origin: bool = False,
        name: str | None = None,
    ) -> None:
        """Write a topic, or the topics that an operator chooses for each record.

        As in Kafka Streams, windowed keys go where the key alone would go.
        """
        own = self.graph.new_name("KSTREAM-SINK-", name)
        if not isinstance(topic, str):
            chooser = f"{own}-topic"
            self.named_processor(chooser, (parent,), topic)
            parent, topic = chooser, ""
        else:
            check_topic_name(topic, "a topic that is written")
        by_base = key.window_bytes > 0
        sink = SinkNode(own, (parent,), topic, key, value, partitioner, origin, by_base)
        self.graph.add_sink(sink)

    def repartition(self, parent: str, how: Repartition) -> str:
        """Send a stream through a topic of ours; the name of the node that reads it back.

        Joins of one stream share its topic unless they have names, as in Kafka Streams.
        """
        check_is("name=", how.prefix, (str,), "a text")
        prefix = how.prefix.removesuffix(REPARTITION_SUFFIX)
        sink, filter_, source = self._repartition_names(prefix, how)
        topic = repartition_name(self.application, prefix)
        alike = (parent, topic, how.key.name, how.value.name)
        if alike in self._unnamed:
            return self._unnamed[alike]
        if not how.named:
            self._unnamed[alike] = source
        null_keys = self._null_keys[filter_] = NullKeyRequest()
        add_repartition(self.graph, parent, how, topic, (filter_, sink, source), null_keys)
        return source

    def _repartition_names(self, prefix: str, how: Repartition) -> tuple[str, str, str]:
        """The names of its sink, of the filter before that, and of its source.

        Numbers are used up whether the names are made up or not, as in Kafka Streams; for a grouped
        table there is no filter.
        """
        new = self.graph.new_name
        if how.table:
            sink = new("KSTREAM-SINK-", how.given, "-sink")
            return sink, f"{sink}-filter", new("KSTREAM-SOURCE-", how.given, "-source")
        numbered = new("KSTREAM-SINK-"), new("KSTREAM-FILTER-"), new("KSTREAM-SOURCE-")
        if prefix.startswith("KSTREAM") and is_numbered(prefix):
            return numbered
        given = f"{prefix}{REPARTITION_SUFFIX}"
        return f"{given}-sink", f"{given}-filter", f"{given}-source"

    def keep_null_keys(self, node: str) -> None:
        """Let records without a key pass all repartition topics above a node (KIP-962).

        For left and outer joins of streams, those with global tables too, which have results for
        them. As in Kafka Streams, what lies between does not matter.
        """
        for name in self.graph.above(node):
            if name in self._null_keys:
                self._null_keys[name].wanted = True

    def store(
        self,
        given: StoreLike,
        prefix: str,
        key: Serde[Any],
        value: Serde[Any],
        source_topic: str | None = None,
        window: WindowSpec | None = None,
        buffer: BufferSpec | None = None,
        versions: VersionSpec | None = None,
        timers: bool = False,
        extractor: tuple[Callable[..., int], bool] | None = None,
        no_ttl: str = "",
        groups: bool = False,
        shown: Callable[..., Any] | None = None,
    ) -> StoreSpec:
        """Add a store under the given name or a made-up one.

        ``no_ttl`` is the reason why its rows cannot expire, if there is one.
        """
        how = Materialized.of(given)
        no_ttl = no_ttl or _no_ttl(source_topic, window, versions)
        ttl_ms = ttl_of(how, no_ttl)
        if source_topic is not None and not how.logged:
            raise TopologyError(
                f"table({source_topic!r}): its topic is its changelog, so it is always logged"
            )
        if window is None and how.retention is not None:
            raise TopologyError(f"store {how.name}: only a store of windows has a retention")
        if versions is None and how.history is not None:
            raise TopologyError(f"store {how.name}: only table() and to_table() keep a history")
        own_rows = window is not None and window.bucket_ms and not (window.value or shown)
        if how.headers and (buffer or timers or own_rows):
            raise TopologyError(no_headers(how.name))
        name = how.name if how.name is not None else self.graph.new_name(f"{prefix}STATE-STORE-")
        spec = StoreSpec(
            name,
            key,
            value,
            persistent=how.persistent,
            logged=how.logged,
            named=how.name is not None,
            source_topic=source_topic,
            window=window,
            buffer=buffer,
            versions=versions,
            timers=timers,
            extractor=extractor,
            ttl_ms=ttl_ms,
            rocks=how.rocks,
            groups=groups,
            shown=shown,
            headers=how.headers,
        )
        self.graph.add_store(spec)
        if ttl_ms is not None:
            self.graph.add_store(timers_beside(spec))
        return spec


def _no_ttl(
    source_topic: str | None, window: WindowSpec | None, versions: VersionSpec | None
) -> str:
    """The reason why the rows of a store cannot expire; empty if they can."""
    if source_topic is not None:
        return (
            f"{source_topic} is the changelog of its table, and others read it: no tombstones are "
            f"written there; App.stream({source_topic!r}).to_table(store=…) has its own"
        )
    if window is not None:
        return "windows expire by their retention"
    return "" if versions is None else "versions expire by their history"
