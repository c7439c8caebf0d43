"""Puts nodes together in the order they are asked for, and freezes them into a ``Topology``.

Knows names and numbers, never what an operator does. Numbers follow Kafka Streams: one counter for
nodes and made-up stores alike, so that the same program gets the same names there and here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from functools import partial

import attrs

from streamlet.absent import explains_misuse
from streamlet.config.optimizations import MERGE_REPARTITION_TOPICS, SINGLE_STORE_SELF_JOIN
from streamlet.control.values import ChangelogTypes
from streamlet.counted import counted
from streamlet.errors import TopologyError
from streamlet.state.store_specs import StoreSpec
from streamlet.topology import copartition
from streamlet.topology.merging import with_merged_topics
from streamlet.topology.names import changelog_name, check_node_name, check_topic_name
from streamlet.topology.nodes import (
    ForeignJoin,
    GlobalTableSpec,
    InternalTopic,
    ProcessorNode,
    SinkNode,
    SourceNode,
)
from streamlet.topology.optimization import InnerJoin, MergeableRepartition, Optimization
from streamlet.topology.outputs import check_origins, refuse_chosen, refuse_loop
from streamlet.topology.partitioners import with_partitioners
from streamlet.topology.self_joins import with_single_stores
from streamlet.topology.subtopologies import Node, Subtopology, own_topics, split
from streamlet.topology.unread_stores import SourceTable, without_unread_stores
from streamlet.types import TaskId
from streamlet.user_code import shown


@explains_misuse
@attrs.frozen(eq=False, repr=False)
class Topology:
    """Everything an application does, cut into the parts that tasks are made of.

    ``optimizations`` are the changes that ``topology.optimization`` made, and ``foreign_joins`` the
    joins by foreign keys, with other nodes for them (``detours``).
    """

    application: str
    subtopologies: tuple[Subtopology, ...]
    global_tables: tuple[GlobalTableSpec, ...] = ()
    optimizations: tuple[Optimization, ...] = ()
    foreign_joins: tuple[ForeignJoin, ...] = ()

    def __repr__(self) -> str:
        parts = counted(len(self.subtopologies), "subtopology", "subtopologies")
        return f"<Topology of {self.application!r}, {parts}: App.describe() shows it>"

    def subtopology(self, number: int) -> Subtopology:
        """The subtopology with this number."""
        return self.subtopologies[number]

    @property
    def source_topics(self) -> tuple[str, ...]:
        """Topics that are read by name and that streamlet does not make, sorted."""
        made = set(self.repartition_topics)
        read = {topic for part in self.subtopologies for topic in part.input_topics}
        return tuple(sorted(read - made))

    @property
    def table_topics(self) -> frozenset[str]:
        """Topics that are read as tables, with or without a store."""
        specs = (one for part in self.subtopologies for one in (*part.stores, *part.unread_stores))
        return frozenset(spec.source_topic for spec in specs if spec.source_topic is not None)

    def source_topics_among(self, names: Iterable[str]) -> tuple[str, ...]:
        """Topics that are read, those that match a pattern among these names included, sorted."""
        there = tuple(names)
        read = {topic for part in self.subtopologies for topic in part.topics_among(there)}
        return tuple(sorted(read - set(self.repartition_topics)))

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns by which topics are read."""
        return tuple(pattern for part in self.subtopologies for pattern in part.patterns)

    @property
    def changelog_types(self) -> tuple[ChangelogTypes, ...]:
        """The types of the rows in all changelogs that streamlet makes."""
        return tuple(one for part in self.subtopologies for one in part.changelog_types)

    @property
    def repartition_topics(self) -> tuple[str, ...]:
        """Topics between two subtopologies, sorted."""
        return tuple(sorted(t.name for part in self.subtopologies for t in part.repartitions))

    @property
    def output_topics(self) -> frozenset[str]:
        """Topics that are written and named in the program; streamlet makes the others."""
        written = {s.topic for part in self.subtopologies for s in part.sinks if not s.by_record}
        return frozenset(written.difference(self.repartition_topics))

    @property
    def topics_with_origins(self) -> frozenset[str]:
        """Topics that are written with the origin of each record in a header."""
        return frozenset(s.topic for part in self.subtopologies for s in part.sinks if s.origin)

    def partition_counts(self, source_counts: Mapping[str, int]) -> dict[str, int]:
        """Partition counts of all input topics, those of repartition topics worked out.

        Raises:
            TopologyError: counts that must be equal are not (both topics are named).
            MissingTopicError: ``source_counts`` lacks a source topic.
        """
        return copartition.partition_counts(self.subtopologies, source_counts)

    def tasks(self, source_counts: Mapping[str, int]) -> tuple[TaskId, ...]:
        """All tasks in order: one per subtopology and partition of the input topic with the most.

        Raises:
            TopologyError: as ``partition_counts``.
            MissingTopicError: as ``partition_counts``.
        """
        counts = self.partition_counts(source_counts)
        return tuple(
            TaskId(part.id, partition)
            for part in self.subtopologies
            for partition in range(part.task_count(counts))
        )


class Graph:
    """A topology under construction."""

    def __init__(self, application: str) -> None:
        self.application = application
        self._number = 0
        self._nodes: dict[str, Node] = {}
        self._stores: dict[str, StoreSpec] = {}
        self._repartitions: dict[str, InternalTopic] = {}
        self._readers: dict[str, str] = {}
        self._origins: dict[str, bool] = {}
        self._globals: dict[str, GlobalTableSpec] = {}
        #: Topics between two subtopologies that may be merged with others.
        self.mergeable: list[MergeableRepartition] = []
        #: Joins that need one store if their sides turn out to be one stream.
        self.inner_joins: list[InnerJoin] = []
        #: Joins by foreign keys; their own nodes are added like others.
        self.foreign_joins: list[ForeignJoin] = []
        #: Tables whose stores are there only if something reads them.
        self.source_tables: list[SourceTable] = []
        self._frozen: dict[frozenset[str], Topology] = {}

    @property
    def is_empty(self) -> bool:
        """True if nothing was added yet."""
        return not self._nodes

    def new_name(self, prefix: str, given: str | None = None, suffix: str = "") -> str:
        """The next made-up name, ``KSTREAM-SOURCE-`` giving ``KSTREAM-SOURCE-0000000000``.

        A ``given`` name takes its place, with the suffix behind it; its number is used up all the
        same, as in Kafka Streams, so a name changes no other.

        Raises:
            TopologyError: the given one is no name of a node.
        """
        name = f"{prefix}{self._number:010d}"
        self._number += 1
        if given is None:
            return name
        check_node_name(given)
        return f"{given}{suffix}"

    def own_name(self, prefix: str, given: str | None) -> str:
        """The given name, else the next made-up one: a given one uses up no number.

        For the few operators where Kafka Streams does so.

        Raises:
            TopologyError: the given one is no name of a node.
        """
        if given is None:
            return self.new_name(prefix)
        check_node_name(given)
        return given

    def add_source(self, node: SourceNode) -> None:
        """Add a node that reads topics no other node reads."""
        for topic in node.topics:
            check_topic_name(topic, "a topic that is read", read=True)
        self._enter(node)
        for topic in node.topics:
            if topic in self._readers:
                raise TopologyError(f"topic {topic!r} is read by {self._readers[topic]} already")
            self._readers[topic] = node.name
        self._check_patterns()

    def _check_patterns(self) -> None:
        """Refuse a pattern that matches a topic which is read by name, as Kafka Streams does."""
        for node in self._nodes.values():
            if not isinstance(node, SourceNode) or node.pattern is None:
                continue
            for topic, reader in self._readers.items():
                if node.reads(topic) and topic not in self._repartitions:
                    raise TopologyError(
                        f"the pattern {node.pattern.pattern!r} matches topic {topic!r}, which is "
                        f"read by {reader} already"
                    )

    def add_global(self, table: GlobalTableSpec) -> None:
        """Add a table that each process reads whole; no task does."""
        topic, name = table.topic, table.store.name
        check_topic_name(topic, "a topic that is read")
        if self._frozen:
            raise TopologyError(f"global_table({topic!r}) comes too late: the topology was built")
        if topic in self._readers:
            raise TopologyError(
                f"global_table({topic!r}): the topic is read by {self._readers[topic]} already"
            )
        if name in self._stores or name in self._globals:
            raise TopologyError(f"there are two stores named {name!r}; give one another name")
        self._readers[topic] = table.source.name
        self._check_patterns()
        self._globals[name] = table

    def add_processor(self, node: ProcessorNode) -> None:
        """Add an operator below its parents; its stores were added before."""
        unknown = sorted(set(node.stores) - set(self._stores))
        assert not unknown, f"{node.name} names unknown stores {unknown}"
        self._enter(node, node.parents)

    def add_sink(self, node: SinkNode) -> None:
        """Add a node that writes topics."""
        if not node.by_record:
            check_topic_name(node.topic, "a topic that is written")
            if self._origins.setdefault(node.topic, node.origin) != node.origin:
                raise TopologyError(
                    f"topic {node.topic!r} is written with origins and without: give origin=True "
                    "to each to() or to none"
                )
        self._enter(node, node.parents)

    def add_store(self, spec: StoreSpec) -> None:
        """Add a store; it belongs to the subtopology whose processors name it."""
        if spec.name in self._stores or spec.name in self._globals:
            raise TopologyError(f"there are two stores named {spec.name!r}; give one another name")
        # A table's made-up name is made of its topic's, and names no topic itself.
        changelog = spec.name if spec.source_topic else changelog_name(self.application, spec.name)
        check_topic_name(changelog, f"store {shown(spec.name)}, whose changelog bears its name")
        self._stores[spec.name] = spec

    def store(self, name: str) -> StoreSpec | None:
        """The store of that name, if it was added."""
        return self._stores.get(name)

    def global_table(self, store: str) -> GlobalTableSpec | None:
        """The global table with the store of that name, if it was added."""
        return self._globals.get(store)

    def add_repartition(self, topic: InternalTopic) -> None:
        """Declare a topic of ours between two subtopologies."""
        check_topic_name(topic.name, f"a repartition topic of {self.application}")
        if topic.name in self._repartitions:
            raise TopologyError(
                f"there are two repartition topics named {topic.name!r}; give one another name"
            )
        self._repartitions[topic.name] = topic

    def above(self, name: str) -> Iterator[str]:
        """The names of a node and of all above it, also through repartition topics.

        Each once, in no order that means anything.
        """
        met: set[str] = set()
        waiting = [name]
        while waiting:
            at = waiting.pop()
            if at in met:
                continue
            met.add(at)
            yield at
            node = self._nodes[at]
            if not isinstance(node, SourceNode):
                waiting += node.parents
                continue
            ours = self._repartitions.keys() & {*node.topics}
            sinks = (one for one in self._nodes.values() if isinstance(one, SinkNode))
            waiting += [one.name for one in sinks if one.topic in ours]

    def check_no_loop(self, name: str, topic: str) -> None:
        """Refuse to write what a node sends to a topic that it comes from, by ``TopologyError``."""
        refuse_loop(self.sources_above(name), topic)

    def check_of_chosen(self, name: str, feedback: bool) -> Callable[[str], None]:
        """A function that refuses topics that are chosen for records that a node sends.

        Those that the node comes from are refused without ``feedback``.
        """
        above = () if feedback else self.sources_above(name)
        return partial(refuse_chosen, self.application, above)

    def sources_above(self, name: str) -> tuple[SourceNode, ...]:
        """The sources whose records may reach a node, also through repartition topics."""
        nodes = (self._nodes[one] for one in self.above(name))
        return tuple(node for node in nodes if isinstance(node, SourceNode))

    def sources_of(self, name: str) -> set[str]:
        """The names of the sources whose records may reach a node without a topic between."""
        node = self._nodes[name]
        if isinstance(node, SourceNode):
            return {name}
        return set().union(*(self.sources_of(parent) for parent in node.parents))

    def freeze(self, optimizations: Iterable[str] = ()) -> Topology:
        """The finished topology; nothing can be added afterwards.

        Args:
            optimizations: the value of ``topology.optimization``.

        Raises:
            TopologyError: there is nothing to run, a topic is written with origins that its records
                do not have, or a topic is a store's changelog and read or written besides.
        """
        rules = frozenset(optimizations)
        if rules not in self._frozen:
            if not self._nodes and not self._globals:
                raise TopologyError(f"{self.application} reads no topic: call stream() or table()")
            self._check_own_topics()
            nodes, changes = self._optimized(rules)
            topics = self._stores, self._repartitions
            parts = split(self.application, nodes.values(), *topics)
            nodes = with_partitioners(nodes, parts)
            parts = split(self.application, nodes.values(), *topics)
            tables = tuple(self._globals.values())
            joins = tuple(self.foreign_joins)
            self._frozen[rules] = Topology(self.application, parts, tables, changes, joins)
            for part in parts:
                check_origins(part)
        return self._frozen[rules]

    def preview(self, optimizations: Iterable[str]) -> Topology:
        """The topology as it is so far, as by ``freeze``; more can be added afterwards."""
        other = copy(self)
        other._frozen = {}
        return other.freeze(optimizations)

    def _check_own_topics(self) -> None:
        """Refuse a topic of the user's that a store would have as its changelog as well."""
        own = own_topics(self.application, self._stores.values(), ())
        sinks = (node for node in self._nodes.values() if isinstance(node, SinkNode))
        used = {sink.topic: f"written by {sink.name}" for sink in sinks}
        used |= {topic: f"read by {reader}" for topic, reader in self._readers.items()}
        for topic in sorted(own & used.keys()):
            raise TopologyError(
                f"topic {topic!r} is {used[topic]}, and it is a topic that streamlet makes for "
                f"{self.application!r} and writes itself: give the store another name (store=)"
            )

    def _optimized(
        self, rules: frozenset[str]
    ) -> tuple[Mapping[str, Node], tuple[Optimization, ...]]:
        """The nodes by name, and the changes that the rules made to them."""
        nodes, changes = without_unread_stores(self._nodes, self.source_tables), []
        if MERGE_REPARTITION_TOPICS in rules:
            nodes, merged = with_merged_topics(self.application, nodes, self.mergeable)
            changes += merged
        if SINGLE_STORE_SELF_JOIN in rules:
            nodes, shared = with_single_stores(nodes, self.inner_joins)
            changes += shared
        return nodes, tuple(changes)

    def _enter(self, node: Node, parents: Iterable[str] = ()) -> None:
        if self._frozen:
            raise TopologyError(
                f"{node.name} comes too late: the topology of {self.application!r} was built "
                "before; add it before run(), topology() and test drivers, in a notebook to a new "
                "App"
            )
        if node.name in self._nodes:
            raise TopologyError(f"there are two nodes named {node.name!r}; give one another name")
        for parent in parents:
            assert parent in self._nodes, f"{node.name} hangs below unknown {parent}"
        self._nodes[node.name] = node
