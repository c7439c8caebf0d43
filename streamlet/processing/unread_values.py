"""Values that no node of a subtopology looks at: they stay bytes that are known to decode.

What a value is worth to an error handler is made when one is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.serdes import Serde
from streamlet.topology.nodes import ProcessorNode, SinkNode, SourceNode
from streamlet.topology.subtopologies import Subtopology

#: Applies the error policy to the first record of a batch (``RecordFailures.record_failed``).
Failed: TypeAlias = Callable[[Batch, ProcessorNode | SinkNode, OperatorFailed, int], bool]


@attrs.frozen
class UnreadValues:
    """The sources of a subtopology whose values are not looked at, and the nodes below them.

    No value of theirs is bytes.

    Attributes:
        serdes: of the values of these sources, by the sources' names.
        nodes: names of the nodes that may be given bytes in place of values.
    """

    _subtopology: Subtopology
    serdes: Mapping[str, Serde[Any]]
    nodes: frozenset[str]

    @classmethod
    def of(cls, subtopology: Subtopology) -> UnreadValues:
        """The sources and nodes of a subtopology."""
        serdes: dict[str, Serde[Any]] = {}
        nodes: set[str] = set()
        for source in subtopology.sources:
            below = _unread_below(subtopology, source)
            unread = source.value.unread()
            if below is not None and unread is not source.value:
                serdes[source.name] = unread
                nodes |= below
        return cls(subtopology, serdes, frozenset(nodes))

    def decoding(self, node: ProcessorNode, failed: Failed) -> Failed:
        """The function ``failed`` of a node, which is given the values themselves."""
        if node.name not in self.nodes:
            return failed

        def decoded(
            batch: Batch, node: ProcessorNode | SinkNode, failure: OperatorFailed, tries: int
        ) -> bool:
            return failed(self._first_of(batch), node, failure, tries)

        return decoded

    def _first_of(self, batch: Batch) -> Batch:
        """The first record of a batch, decoded."""
        first, source = batch.slice(0, 1), self._subtopology.source_of(batch.topic)
        return first.with_values([value_of(first.values[0], source, self.serdes)])


def value_of(value: Any, source: SourceNode, unread: Mapping[str, Serde[Any]]) -> Any:
    """The value itself, where bytes may stand for it since its source is among those unread."""
    if type(value) is bytes and source.name in unread:
        return source.value.decode(value)
    return value


def _unread_below(subtopology: Subtopology, source: SourceNode) -> set[str] | None:
    """The nodes that get the values of a source, if none of them looks at these."""
    if source.timestamp is not None:
        return None
    met: set[str] = set()
    waiting = list(subtopology.below(source.name))
    while waiting:
        node = subtopology.node(waiting.pop())
        if not isinstance(node, ProcessorNode) or node.around is not None:
            return None
        met.add(node.name)
        if node.values == "passed on" and not (node.stores or node.globals or node.timed):
            waiting += subtopology.below(node.name)
        elif node.values != "ignored" or subtopology.children(node.name, aside=True):
            return None
    return met if met else None
