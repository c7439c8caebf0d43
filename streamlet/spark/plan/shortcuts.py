"""Finds the repartition topics that need not even be written: their records would come back alike.

A record on its way to an aggregation by Spark SQL goes nowhere: it is encoded for the topic and
decoded for its reader in the same process. Both can be left out if that gives the very same value:
where only expressions stand between the source and the topic, so that the value is what was decoded
by the same serde, and where that serde is streamlet's own, of a dataclass of plain fields.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from streamlet.dsl.graph.inference import without_none
from streamlet.dsl.operators.stateless import DropNullKeys, Filter, PassOn, SelectKey
from streamlet.spark.plan.folds import Fold, Storeless, is_ours
from streamlet.topology.graph import Topology
from streamlet.topology.nodes import ProcessorNode, SinkNode, SourceNode
from streamlet.topology.subtopologies import Subtopology

_PLAIN = (int, float, str, bool)


def shortcuts(topology: Topology, folds: Sequence[Fold]) -> Mapping[str, int]:
    """The fold that gets the records of a repartition topic before they are encoded, by topic."""
    found = {}
    for number, fold in enumerate(folds):
        topics = _topics(fold)
        if len(topics) == 1 and topics[0] in topology.repartition_topics:
            writers = [
                (part, sink)
                for part in topology.subtopologies
                for sink in part.sinks
                if sink.topic == topics[0]
            ]
            if all(_alike(part, sink, fold) for part, sink in writers):
                found[topics[0]] = number
    return found


def _topics(fold: Fold) -> tuple[str, ...]:
    """The topics of the fold's source; none if that has other nodes behind it, or is no source."""
    (parent,) = fold.node.parents
    source = fold.subtopology.node(parent)
    alone = fold.subtopology.children(parent) == (fold.node.name,)
    return source.topics if alone and isinstance(source, SourceNode) else ()


def _alike(subtopology: Subtopology, sink: SinkNode, fold: Fold) -> bool:
    if sink.key.name != fold.key.name or not is_ours(sink.key, sink.key.exact):
        return False
    sources: list[SourceNode] = []
    types: set[Any] = set()
    waiting = list(sink.parents)
    while waiting:
        node = subtopology.node(waiting.pop())
        if isinstance(node, SourceNode):
            sources.append(node)
        elif isinstance(node, ProcessorNode) and not node.stores and _only_looks(node, types):
            waiting += node.parents
        else:
            return False
    serdes = {source.value for source in sources} | {sink.value}
    return bool(types) and all(
        _is_plain(of) and all(is_ours(one, of) for one in serdes) for of in types
    )


def _is_plain(of: Any) -> bool:
    """True if each field of a dataclass is a number, a text or a truth value, or may be None."""
    if not (isinstance(of, type) and dataclasses.is_dataclass(of)) or hasattr(of, "__post_init__"):
        return False
    try:
        hints = typing.get_type_hints(of, include_extras=True)
    except NameError:
        return False
    return all(
        field.init
        and field.name.isascii()
        and any(without_none(hints[field.name]) is known for known in _PLAIN)
        for field in dataclasses.fields(of)
    )


def _only_looks(node: ProcessorNode, types: set[Any]) -> bool:
    """True if an operator leaves values as they are; ``types`` gets what is known of theirs."""
    context: Any = Storeless()
    operator = node.factory(context)
    if isinstance(operator, DropNullKeys | PassOn):
        return True
    if not isinstance(operator, Filter | SelectKey):
        return False
    types.add(getattr(operator.function, "value_type", None))
    return hasattr(operator.function, "expression")
