"""Finds the subtopologies that may take records of several inputs together.

Record by record is the order of Kafka Streams: each record of a task goes through all nodes before
the next one, whichever input it is from. Where every node works by the key of its record, nothing
but the order of what is sent can tell whether records of other keys came before: that is put right
afterwards (``processing.merged_batch``).
"""

from __future__ import annotations

import attrs

from streamlet.topology.nodes import ProcessorNode, SinkNode
from streamlet.topology.subtopologies import Subtopology


@attrs.frozen
class WaitingRecords:
    """Records that a node keeps until their grace is over, and meets with rows of a table then.

    Args:
        store: where they are.
        topics: whose records they are.
        changes: topics whose records change these rows.
        grace_ms: how far behind the latest of them a record is that waits no longer.
    """

    store: str
    topics: frozenset[str]
    changes: frozenset[str]
    grace_ms: int


@attrs.frozen
class Together:
    """The bounds on records that are taken together.

    ``spread_ms`` is how far their timestamps may be apart; None: they may be of any time.
    ``waiting``: none may change rows that one before it sent records to.
    """

    spread_ms: int | None = None
    waiting: tuple[WaitingRecords, ...] = ()


def together_of(subtopology: Subtopology) -> Together | None:
    """The bound for a subtopology; None: its records must be taken one after the other."""
    if not subtopology.patterns and len(subtopology.input_topics) < 2:
        return None
    if not _same_keys(subtopology):
        return None
    if any(sink.by_record for sink in subtopology.sinks) or not all(
        map(_by_key, subtopology.processors)
    ):
        return None
    if not _may_come_late(subtopology):
        return None
    if any(node.around is not None and node.in_order for node in subtopology.processors):
        return None  # its hook would meet the records twice, see ``OrderedOperator``
    if any(store.ttl_ms is not None for store in subtopology.stores):
        return None  # rows expire by the time of records of other keys
    spreads = [node.spread_ms for node in subtopology.processors if node.spread_ms is not None]
    waiting = tuple(
        _waiting(subtopology, node) for node in subtopology.processors if node.grace_ms is not None
    )
    return Together(min(spreads, default=None), waiting)


def _same_keys(subtopology: Subtopology) -> bool:
    """True if keys of all sources are of one type, and equal where their bytes are."""
    serdes = [source.key for source in subtopology.sources]
    names = {(serde.name, getattr(serde, "exact", None)) for serde in serdes}
    return len(names) == 1 and all(exact is not None for _, exact in names)


def _by_key(node: ProcessorNode) -> bool:
    """True if a node does its work by the record and by rows of its key alone."""
    return node.alone and (node.by_key or node.keeps_nothing)


def _may_come_late(subtopology: Subtopology) -> bool:
    """True if results of nodes that work in order may be sent behind those of all other nodes.

    They may if nothing below keeps anything, since they have other keys, and if no record has
    results from elsewhere in the topics that they lead to: these would have to be before them or
    behind them. So a source may not lead to both sides of a join either.
    """
    ordered = frozenset(node.name for node in subtopology.processors if node.in_order)
    above = [_down(subtopology, source.name, ordered) for source in subtopology.sources]
    below = [subtopology.node(name) for one in ordered for name in _down(subtopology, one) - {one}]
    topics = {node.topic for node in below if isinstance(node, SinkNode)}
    elsewhere = {sink.topic for sink in subtopology.sinks if any(sink.name in one for one in above)}
    kept = [node for node in below if isinstance(node, ProcessorNode) and not node.keeps_nothing]
    return not (kept or topics & elsewhere) and all(len(one & ordered) <= 1 for one in above)


def _waiting(subtopology: Subtopology, node: ProcessorNode) -> WaitingRecords:
    """The records that a node keeps until their grace is over."""
    assert node.grace_ms is not None
    writers = {
        one.name
        for one in subtopology.processors
        if set(one.stores).difference(one.reads) & {*node.reads}
    }
    return WaitingRecords(
        node.stores[0],
        _topics_above(subtopology, {node.name}),
        _topics_above(subtopology, writers),
        node.grace_ms,
    )


def _topics_above(subtopology: Subtopology, names: set[str]) -> frozenset[str]:
    """The topics whose records come to one of these nodes."""
    sources = (source for source in subtopology.sources if _down(subtopology, source.name) & names)
    return frozenset(topic for source in sources for topic in source.topics)


def _down(
    subtopology: Subtopology, name: str, ends: frozenset[str] = frozenset()
) -> frozenset[str]:
    """A node with all that are below it, as far as nodes at which this ends, and these."""
    below = () if name in ends else subtopology.below(name)
    return frozenset({name}).union(*(_down(subtopology, child, ends) for child in below))
