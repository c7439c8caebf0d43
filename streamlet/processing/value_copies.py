"""Copies of the records of a batch, by the column, for all but one who have them.

Two have an object where a stream goes several ways, where a store keeps what an operator sends on,
and where a record may be tried again. What cannot change (``serdes.copies``) is not copied.
"""

from __future__ import annotations

from streamlet.batch import Batch
from streamlet.processing.output_order import Step
from streamlet.serdes.copies import own_column
from streamlet.topology.nodes import ProcessorNode, SinkNode, SourceNode
from streamlet.topology.subtopologies import Subtopology


def own_records(batch: Batch) -> Batch:
    """The batch with copies of its keys, values and old values; itself where none can change."""
    keys, values = own_column(batch.keys), own_column(batch.values)
    olds = None if batch.olds is None else own_column(batch.olds)
    if keys is batch.keys and values is batch.values and olds is batch.olds:
        return batch
    own = batch.with_values(values, olds)
    return own if keys is batch.keys else own.with_keys(keys)


def with_copies(step: Step) -> Step:
    """The step with copies of the records that it is given."""
    return lambda batch: step(own_records(batch))


def uses_values(subtopology: Subtopology, name: str) -> bool:
    """True if a store keeps, or a function may get and change, the values that a node is given.

    Sinks only write them, at once.
    """
    node = subtopology.node(name)
    if not isinstance(node, ProcessorNode) or node.values in ("read", "ignored"):
        return False
    if node.values in ("used", "stored"):
        return True
    return any(uses_values(subtopology, child) for child in subtopology.below(name))


def writes_as_read(subtopology: Subtopology, sink: SinkNode) -> bool:
    """True if a sink writes values that were read by its own serde, and that nothing can change."""
    value = sink.value
    return value.immutable and all(_is_as_read(subtopology, one, value) for one in sink.parents)


def _is_as_read(subtopology: Subtopology, name: str, value: object) -> bool:
    node = subtopology.node(name)
    if isinstance(node, SourceNode):
        return node.value is value
    if not isinstance(node, ProcessorNode):
        return False
    passes = node.results == "same" or node.values in ("passed on", "stored")
    return passes and all(_is_as_read(subtopology, one, value) for one in node.parents)


class Attempts:
    """The records of one batch at one node, and how often the first of them was tried.

    With ``again`` a record may be tried again, as it was when it came, whatever the failed try has
    made of it.
    """

    def __init__(self, batch: Batch, again: bool) -> None:
        self.batch = batch
        self._read = own_records(batch) if again else batch
        #: Tries of the first record that have failed.
        self.tries = 0

    def failed(self, index: int) -> Batch:
        """Go on with the record at an index, which has failed; the rest as it came."""
        self.tries = 1 if index else self.tries + 1
        self._move(index)
        self.begin()
        return self.batch

    def begin(self) -> None:
        """Begin a try with the first record as it came."""
        if self._read is not self.batch:
            self.batch = _with_first(self.batch, own_records(self._read.slice(0, 1)))

    def left_out(self) -> None:
        """Go on behind the first record."""
        self.tries = 0
        self._move(1)

    def _move(self, index: int) -> None:
        if not index:
            return
        same = self._read is self.batch
        self.batch = self.batch.slice(index, len(self.batch))
        self._read = self.batch if same else self._read.slice(index, len(self._read))


def _with_first(batch: Batch, first: Batch) -> Batch:
    """The batch with another first record, which has the same place."""
    olds = None if batch.olds is None else [*(first.olds or ()), *batch.olds[1:]]
    values = batch.with_values([*first.values, *batch.values[1:]], olds)
    return values.with_keys([*first.keys, *batch.keys[1:]])
