"""A topology as text for people and tools: Kafka Streams' own form, JSON, and a mermaid drawing.

Topics of ours are shown without the application's name in front, as Kafka Streams shows them.
"""

from __future__ import annotations

from typing import Any

from streamlet.config.optimizations import MERGE_REPARTITION_TOPICS
from streamlet.state.store_specs import StoreSpec
from streamlet.topology.edges import edges_of
from streamlet.topology.graph import Topology
from streamlet.topology.java_order import PrintedOrder, hash_set_order, printed_order
from streamlet.topology.nodes import GlobalTableSpec, ProcessorNode, SinkNode, SourceNode
from streamlet.topology.optimization import Optimization
from streamlet.topology.subtopologies import Node, Subtopology, serde_name

_BY_RECORD = "one for each record"


def as_text(topology: Topology) -> str:
    """The text that ``Topology.describe()`` of Kafka Streams prints for the same topology.

    Within a subtopology a node comes before all it leads to: nodes are sorted by the number of ways
    down from them, then by name. Names within one line come in the order of Java's hash tables.
    """
    parts = "".join(f"  {_part_text(topology, part)}\n" for part in topology.subtopologies)
    first = len(topology.subtopologies)
    tables = (_global_text(*numbered) for numbered in enumerate(topology.global_tables, first))
    return f"Topologies:\n {parts}{''.join(tables)}"


def as_optimized_text(topology: Topology) -> str:
    """The text, and a line for each topic or store that an optimisation left out."""
    changes = (
        f"  {_shown(topology, one.kept)} stands for {_replaced(topology, one)} ({one.rule})\n"
        for one in topology.optimizations
    )
    lines = "".join(changes)
    return as_text(topology) + (f"Optimized:\n{lines}" if lines else "")


def as_java(topology: Topology) -> str:
    """The text with the one difference that Java's ``TopologyDescription`` has.

    It names no topic, but the class of an extractor, where each record has a topic of its own.
    """
    return as_text(topology).replace(f"(topic: {_BY_RECORD})", "(extractor class: streamlet)")


def as_json(topology: Topology) -> dict[str, Any]:
    """The topology in plain lists and dicts, with the serdes that the text does not tell."""
    return {
        "application": topology.application,
        "source_topics": list(topology.source_topics),
        "subtopologies": [_part_json(part) for part in topology.subtopologies],
        "global_tables": [
            {
                "store": table.store.name,
                "topic": table.topic,
                "key": serde_name(table.store.key),
                "value": serde_name(table.store.value),
                "persistent": table.store.persistent,
            }
            for table in topology.global_tables
        ],
        "repartitions": [
            {
                "topic": edge.topic,
                "exact": not edge.plain,
                "kind": edge.kind,
                "reason": edge.reason,
            }
            for edge in edges_of(topology)
        ],
        "optimizations": [
            {"rule": one.rule, "kept": one.kept, "replaced": list(one.replaced)}
            for one in topology.optimizations
        ],
    }


def as_mermaid(topology: Topology) -> str:
    """A flowchart: a box per subtopology, topics between them, stores as cylinders."""
    lines = ["flowchart TD"]
    topics: dict[str, None] = {}
    links: list[str] = []
    for part in topology.subtopologies:
        lines.append(f'    subgraph part{part.id}["Sub-topology {part.id}"]')
        lines += [f'        {_id(node.name)}["{node.name}"]' for node in _nodes(part)]
        lines += [f'        {_id("store", spec.name)}[("{spec.name}")]' for spec in part.stores]
        lines.append("    end")
        links += _links(part)
        topics.update(dict.fromkeys((*part.input_topics, *part.patterns, *part.output_topics)))
    shown = [
        f'    {_id("topic", topic)}{{{{"{_shown(topology, topic)}"}}}}' for topic in sorted(topics)
    ]
    return "\n".join([*lines, *shown, *links]) + "\n"


def _part_text(topology: Topology, subtopology: Subtopology) -> str:
    nodes = {node.name: node for node in _in_order(subtopology)}
    order = printed_order({name: node.parents for name, node in nodes.items()})
    text = "".join(f"    {_node_text(topology, nodes[name], order)}\n" for name in order.nodes)
    return f"Sub-topology: {subtopology.id}\n{text}"


def _global_text(number: int, table: GlobalTableSpec) -> str:
    source, node = table.source.name, table.node
    return (
        f"  Sub-topology: {number} for global store (will not generate tasks)\n"
        f"    Source: {source} (topics: [{table.topic}])\n      --> {node}\n"
        f"    Processor: {node} (stores: [{table.store.name}])\n      --> none\n"
        f"      <-- {source}\n"
    )


def _node_text(topology: Topology, node: Node, order: PrintedOrder) -> str:
    after = ", ".join(order.children[node.name]) or "none"
    if isinstance(node, SourceNode):
        topics = [_shown(topology, topic) for topic in node.topics]
        listed = f"[{', '.join(hash_set_order(topics, copied=True))}]"
        read = listed if node.pattern is None else node.pattern.pattern
        return f"Source: {node.name} (topics: {read})\n      --> {after}"
    before = ", ".join(order.parents[node.name]) or "none"
    if isinstance(node, ProcessorNode):
        stores = ", ".join(hash_set_order(node.stores, copied=True))
        head = f"Processor: {node.name} (stores: [{stores}])"
        return f"{head}\n      --> {after}\n      <-- {before}"
    topic = _BY_RECORD if node.by_record else _shown(topology, node.topic)
    return f"Sink: {node.name} (topic: {topic})\n      <-- {before}"


def _in_order(subtopology: Subtopology) -> list[Node]:
    """Nodes, each behind all its parents."""
    placed: dict[str, Node] = {source.name: source for source in subtopology.sources}
    below: list[ProcessorNode | SinkNode] = [*subtopology.processors, *subtopology.sinks]
    for node in below:  # creation order has parents first already; sinks lead nowhere
        placed[node.name] = node
    return list(placed.values())


def _part_json(subtopology: Subtopology) -> dict[str, Any]:
    return {
        "id": subtopology.id,
        "hash": subtopology.hash.hex(),
        "sources": [
            {
                "name": source.name,
                "topics": list(source.topics),
                **({} if source.pattern is None else {"pattern": source.pattern.pattern}),
                "key": serde_name(source.key),
                "value": serde_name(source.value),
                "successors": list(subtopology.below(source.name)),
            }
            for source in subtopology.sources
        ],
        "processors": [
            {
                "name": node.name,
                "stores": list(node.stores),
                "predecessors": list(node.parents),
                "successors": list(subtopology.below(node.name)),
            }
            for node in subtopology.processors
        ],
        "sinks": [
            {
                "name": sink.name,
                "topic": None if sink.by_record else sink.topic,
                "key": serde_name(sink.key),
                "value": serde_name(sink.value),
                "origin": sink.origin,
                "predecessors": list(sink.parents),
            }
            for sink in subtopology.sinks
        ],
        "stores": [
            {
                "name": spec.name,
                "key": serde_name(spec.key),
                "value": serde_name(spec.value),
                "persistent": spec.persistent,
                "changelog": subtopology.changelog_topic(spec.name),
                **_window(spec),
                **_buffer(spec),
                **({} if spec.versions is None else {"history_ms": spec.versions.history_ms}),
            }
            for spec in subtopology.stores
        ],
        "repartition_topics": [topic.name for topic in subtopology.repartitions],
    }


def _window(spec: StoreSpec) -> dict[str, Any]:
    """The entries that only a store of windows has."""
    window = spec.window
    if window is None:
        return {}
    return {
        "windows": window.text,
        "grace_ms": window.grace_ms,
        "retention_ms": window.retention_ms,
    }


def _buffer(spec: StoreSpec) -> dict[str, Any]:
    """The entry that only the buffer of a ``suppress`` has."""
    buffer = spec.buffer
    if buffer is None:
        return {}
    if buffer.until == "join grace":
        return {"join_grace_ms": buffer.wait_ms}
    rules = {
        "until": buffer.until,
        "wait_ms": buffer.wait_ms,
        "max_records": buffer.max_records,
        "max_bytes": buffer.max_bytes,
        "when_full": buffer.when_full,
    }
    return {"suppress": rules}


def _links(subtopology: Subtopology) -> list[str]:
    links: list[str] = []
    for source in subtopology.sources:
        read = [source.pattern.pattern] if source.pattern else source.topics
        links += [f"    {_id('topic', topic)} --> {_id(source.name)}" for topic in read]
    for node in _nodes(subtopology):
        links += [
            f"    {_id(node.name)} --> {_id(child)}" for child in subtopology.below(node.name)
        ]
    for node in subtopology.processors:
        links += [f"    {_id(node.name)} -.- {_id('store', store)}" for store in node.stores]
    for sink in subtopology.sinks:
        if not sink.by_record:
            links.append(f"    {_id(sink.name)} --> {_id('topic', sink.topic)}")
    return links


def _nodes(subtopology: Subtopology) -> list[Node]:
    return [*subtopology.sources, *subtopology.processors, *subtopology.sinks]


def _replaced(topology: Topology, one: Optimization) -> str:
    prefix = f"{topology.application}-" if one.rule == MERGE_REPARTITION_TOPICS else ""
    return ", ".join(name.removeprefix(prefix) for name in one.replaced)


def _shown(topology: Topology, topic: str) -> str:
    ours = topic in topology.repartition_topics
    return topic.removeprefix(f"{topology.application}-") if ours else topic


def _id(*words: str) -> str:
    """A mermaid id: letters, digits and ``_`` only, everything else as its number."""
    text = "-".join(words)
    return "".join(c if c.isalnum() and c.isascii() else f"_{ord(c):x}_" for c in text)
