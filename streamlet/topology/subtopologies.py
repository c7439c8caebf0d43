"""Cuts a graph into its connected parts: what a topic lies between, different tasks may run.

Nodes belong together when one is another's parent or when they share a store. Parts are numbered by
their first node in order of creation, as Kafka Streams numbers them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import attrs

from streamlet.control.topic import control_topic_name
from streamlet.control.values import ChangelogTypes
from streamlet.kafka.placements import DEFAULT
from streamlet.rebalance.numbering import MARKS, TYPES
from streamlet.serdes.key_marks import key_mark
from streamlet.serdes.marks import former_name, mark_of
from streamlet.state.store_specs import StoreSpec
from streamlet.topology.names import changelog_name
from streamlet.topology.nodes import InternalTopic, ProcessorNode, SinkNode, SourceNode
from streamlet.types import TopicPartition

Node: TypeAlias = SourceNode | ProcessorNode | SinkNode

#: Bytes of a subtopology's hash, enough to tell versions of one program apart.
HASH_BYTES = 8


@attrs.frozen(eq=False)
class Subtopology:
    """A connected part of the topology; a task is one partition of it.

    All tuples are in order of creation. ``own_topics`` are those that streamlet makes for the whole
    topology; no pattern matches them.
    """

    id: int
    application: str
    sources: tuple[SourceNode, ...]
    processors: tuple[ProcessorNode, ...]
    sinks: tuple[SinkNode, ...]
    stores: tuple[StoreSpec, ...]
    repartitions: tuple[InternalTopic, ...]
    own_topics: frozenset[str]
    _children: Mapping[str, tuple[str, ...]]

    @property
    def input_topics(self) -> tuple[str, ...]:
        """Topics the sources read by name, in order, repartition topics included."""
        return tuple(topic for source in self.sources for topic in source.topics)

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns by which sources read topics, in order."""
        return tuple(one.pattern.pattern for one in self.sources if one.pattern is not None)

    def topics_of(self, source: SourceNode, names: Iterable[str]) -> tuple[str, ...]:
        """The topics that a source reads, if these are the names of all there are."""
        found = source.topics_among(names)
        return tuple(one for one in found if one in source.topics or one not in self.own_topics)

    def topics_among(self, names: Iterable[str]) -> tuple[str, ...]:
        """The topics that its sources read, in order, if these are the names of all there are."""
        there = tuple(names)
        return tuple(topic for one in self.sources for topic in self.topics_of(one, there))

    def task_count(self, counts: Mapping[str, int]) -> int:
        """The number of its tasks, given the partition counts of all topics."""
        return max((counts[topic] for topic in self.topics_among(counts)), default=0)

    def inputs(self, partition: int, counts: Mapping[str, int]) -> tuple[TopicPartition, ...]:
        """The input partitions of one of its tasks, sorted: of the topics that have so many."""
        return tuple(
            TopicPartition(topic, partition)
            for topic in sorted(self.topics_among(counts))
            if partition < counts[topic]
        )

    @property
    def output_topics(self) -> tuple[str, ...]:
        """Topics the sinks write, each once, in order; not those chosen for each record."""
        return tuple(dict.fromkeys(sink.topic for sink in self.sinks if not sink.by_record))

    @property
    def stateful(self) -> bool:
        """True if a task of it has a store."""
        return bool(self.stores)

    def children(self, name: str, aside: bool = False) -> tuple[str, ...]:
        """Names of the nodes that this one's results go to, in order of creation.

        With ``aside`` those that get the records that came too late for it.
        """
        below = self._children.get(name, ())
        return tuple(one for one in below if self._is_aside(one) is aside)

    def below(self, name: str) -> tuple[str, ...]:
        """Names of all nodes directly below this one, in order of creation."""
        return self._children.get(name, ())

    def _is_aside(self, name: str) -> bool:
        return any(node.aside and node.name == name for node in self.processors)

    def node(self, name: str) -> Node:
        """The node of that name."""
        nodes: tuple[Node, ...] = (*self.sources, *self.processors, *self.sinks)
        return next(node for node in nodes if node.name == name)

    def store(self, name: str) -> StoreSpec:
        """The store of that name."""
        return next(spec for spec in self.stores if spec.name == name)

    def source_of(self, topic: str) -> SourceNode:
        """The source node that reads the topic."""
        named = (source for source in self.sources if topic in source.topics)
        return next(named, None) or next(one for one in self.sources if one.reads(topic))

    def changelog_topic(self, store: str) -> str | None:
        """Topic of the store's changes: its source topic, one of ours, None if not logged."""
        spec = self.store(store)
        if spec.source_topic is not None:
            return spec.source_topic
        return changelog_name(self.application, spec.name) if spec.logged else None

    @property
    def unread_stores(self) -> tuple[StoreSpec, ...]:
        """Stores of tables of topics that it does not have, since nothing reads them."""
        return tuple(node.unread for node in self.processors if node.unread is not None)

    @property
    def changelog_topics(self) -> tuple[str, ...]:
        """Changelog topics that streamlet makes for it, in order of its stores."""
        return tuple(one.changelog for one in self.changelog_types)

    @property
    def changelog_types(self) -> tuple[ChangelogTypes, ...]:
        """The types of the rows in those topics, in the same order."""
        own = (spec for spec in self.stores if spec.logged and spec.source_topic is None)
        return tuple(
            ChangelogTypes(
                changelog_name(self.application, spec.name),
                spec.name,
                (key_mark(spec.key), serde_mark(spec.value)),
            )
            for spec in own
        )

    @property
    def belongings(self) -> tuple[str, ...]:
        """Names of what its tasks read and keep: they tell a task whatever its number.

        Beside each store stand its types as earlier versions noted them, and where that is not the
        same, as this one does.
        """
        topics = {f"topic {topic}" for topic in self.input_topics}
        topics |= {f"pattern {pattern}" for pattern in self.patterns}
        stores = {f"store {spec.name}" for spec in self.stores}
        types = {f"{TYPES}{one.name}: {_types(one, former_serde_name)}" for one in self.stores}
        marks = {
            f"{MARKS}{one.name}: {_types(one, serde_mark)}"
            for one in self.stores
            if _types(one, serde_mark) != _types(one, former_serde_name)
        }
        return tuple(sorted(topics | stores | types | marks | ({MARKS} if marks else set())))

    @property
    def hash(self) -> bytes:
        """Eight bytes that change when nodes, topics, stores or serdes do.

        Two processes with the same number and hash run the same tasks; what user functions do
        inside is not seen.
        """
        return _hash(_canonical(self, serde_mark))

    @property
    def former_hash(self) -> bytes:
        """The hash as earlier versions made it, which noted other names of serdes."""
        return _hash(_canonical(self, former_serde_name))


def serde_name(serde: Any) -> str:
    """A serde's name, the same in every process."""
    name = getattr(serde, "name", None)
    return name if isinstance(name, str) else type(serde).__qualname__


def serde_mark(serde: Any) -> str:
    """The name of a serde by which it is compared with what was noted."""
    return mark_of(serde_name(serde))


def former_serde_name(serde: Any) -> str:
    """The name that earlier versions noted."""
    return former_name(serde_name(serde))


def _types(spec: StoreSpec, noted: Callable[[Any], str]) -> str:
    return f"{noted(spec.key)} -> {noted(spec.value)}"


def _hash(canonical: Mapping[str, Any]) -> bytes:
    text = json.dumps(canonical, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=HASH_BYTES).digest()


def split(
    application: str,
    nodes: Iterable[Node],
    stores: Mapping[str, StoreSpec],
    repartitions: Mapping[str, InternalTopic],
) -> tuple[Subtopology, ...]:
    """The connected parts of a graph whose nodes come parents first."""
    ordered = tuple(nodes)
    roots = _roots(ordered)
    groups: dict[str, list[Node]] = {}
    for node in ordered:
        groups.setdefault(roots[node.name], []).append(node)
    ours = own_topics(application, stores.values(), repartitions)
    return tuple(
        _subtopology(number, application, group, stores, repartitions, ours)
        for number, group in enumerate(groups.values())
    )


def own_topics(
    application: str, stores: Iterable[StoreSpec], repartitions: Iterable[str]
) -> frozenset[str]:
    """The topics that streamlet makes for a topology, by its stores and repartitions."""
    changelogs = (
        changelog_name(application, spec.name)
        for spec in stores
        if spec.logged and spec.source_topic is None
    )
    return frozenset((*repartitions, *changelogs, control_topic_name(application)))


def _roots(nodes: tuple[Node, ...]) -> dict[str, str]:
    """For each node the name that stands for its part: union-find over parents and stores."""
    above: dict[str, str] = {}

    def find(name: str) -> str:
        while above[name] != name:
            above[name] = above[above[name]]
            name = above[name]
        return name

    for node in nodes:
        above[node.name] = node.name
        for parent in node.parents:
            above[find(node.name)] = find(parent)
        for store in node.stores if isinstance(node, ProcessorNode) else ():
            mark = f"store {store}"  # cannot be a node's name in the same dict by accident
            above.setdefault(mark, mark)
            above[find(node.name)] = find(mark)
    return {node.name: find(node.name) for node in nodes}


def _subtopology(
    number: int,
    application: str,
    group: list[Node],
    stores: Mapping[str, StoreSpec],
    repartitions: Mapping[str, InternalTopic],
    own: frozenset[str],
) -> Subtopology:
    children: dict[str, list[str]] = {}
    for node in group:
        for parent in node.parents:
            children.setdefault(parent, []).append(node.name)
    sources = tuple(node for node in group if isinstance(node, SourceNode))
    processors = tuple(node for node in group if isinstance(node, ProcessorNode))
    used = {name for node in processors for name in node.stores}
    read = {topic for source in sources for topic in source.topics}
    return Subtopology(
        id=number,
        application=application,
        sources=sources,
        processors=processors,
        sinks=tuple(node for node in group if isinstance(node, SinkNode)),
        stores=tuple(spec for name, spec in stores.items() if name in used),
        repartitions=tuple(topic for name, topic in repartitions.items() if name in read),
        own_topics=own,
        children={name: tuple(below) for name, below in children.items()},
    )


def _canonical(subtopology: Subtopology, noted: Callable[[Any], str]) -> dict[str, Any]:
    """The form in which two versions of a subtopology are compared: names only, no addresses.

    ``noted`` gives the names of serdes.
    """
    return {
        "id": subtopology.id,
        "sources": [
            [
                *(node.name, node.topics, noted(node.key), noted(node.value)),
                *([] if node.pattern is None else ["pattern", node.pattern.pattern]),
                *([] if node.partitioner == DEFAULT else ["partitioner", node.partitioner]),
            ]
            for node in subtopology.sources
        ],
        "processors": [[node.name, node.parents, node.stores] for node in subtopology.processors],
        "sinks": [
            [node.name, node.parents, node.topic, noted(node.key), noted(node.value)]
            for node in subtopology.sinks
        ],
        "stores": [
            [
                spec.name,
                noted(spec.key),
                noted(spec.value),
                spec.persistent,
                spec.logged,
                spec.source_topic,
                *_window(spec),
                *_buffer(spec),
                *([] if spec.versions is None else ["versions", spec.versions.history_ms]),
                *(["timers"] if spec.timers else []),
            ]
            for spec in subtopology.stores
        ],
    }


def _window(spec: StoreSpec) -> list[Any]:
    window = spec.window
    return [] if window is None else [window.text, window.grace_ms, window.retention_ms]


def _buffer(spec: StoreSpec) -> list[Any]:
    buffer = spec.buffer
    if buffer is None:
        return []
    bounds = [buffer.max_records, buffer.max_bytes, buffer.when_full]
    return ["buffer", buffer.until, buffer.wait_ms, *bounds]
