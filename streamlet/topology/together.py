"""Finds the subtopologies that may take records of several inputs together.

Record by record is the order of Kafka Streams: each record of a task goes through all nodes before
the next one, whichever input it is from. Where every node works by the key of its record, nothing
but the order of what is sent can tell whether records of other keys came before: that is put right
afterwards (``runtime.merged_batch``).
"""

from __future__ import annotations

import attrs

from streamlet.topology.nodes import ProcessorNode
from streamlet.topology.subtopologies import Subtopology


@attrs.frozen
class Together:
    """The bound on records that are taken together.

    ``spread_ms`` is how far their timestamps may be apart; None: they may be of any time.
    """

    spread_ms: int | None = None


def together_of(part: Subtopology) -> Together | None:
    """The bound for a subtopology; None: its records must be taken one after the other."""
    if len(part.input_topics) < 2 or not _same_keys(part):
        return None
    if any(sink.by_record for sink in part.sinks) or not all(map(_by_key, part.processors)):
        return None
    if any(store.ttl_ms is not None for store in part.stores):
        return None  # rows expire by the time of records of other keys
    spreads = [node.spread_ms for node in part.processors if node.spread_ms is not None]
    return Together(min(spreads, default=None))


def _same_keys(part: Subtopology) -> bool:
    """True if keys of all sources are of one type, and equal where their bytes are."""
    serdes = [source.key for source in part.sources]
    names = {(serde.name, getattr(serde, "exact", None)) for serde in serdes}
    return len(names) == 1 and all(exact is not None for _, exact in names)


def _by_key(node: ProcessorNode) -> bool:
    """True if a node does its work by the record and by rows of its key alone."""
    keeps_nothing = not (node.stores or node.globals or node.timed or node.aside)
    return node.alone and (node.by_key or keeps_nothing)
