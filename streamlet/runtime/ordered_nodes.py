"""Nodes that take the records of a merged batch one after the other, once all were looked up.

A left join of streams sends, with one record, what has waited of other keys, and that depends on
the records of both sides before it. So its operators look up the matches of all records in the
batches of ``runtime.merged_batch``, and join them afterwards in the order of their places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter

from streamlet.batch import Batch
from streamlet.runtime.meeting import Step, by_offset
from streamlet.runtime.output_queue import Places
from streamlet.topology.operator import OrderedOperator
from streamlet.types import TopicPartition


class OrderedNodes:
    """The nodes of a task that work in order; there may be none."""

    def __init__(self) -> None:
        self._nodes: list[tuple[OrderedOperator, Step, Step]] = []

    def add(self, operator: OrderedOperator, step: Step, forward: Step) -> None:
        """Add a node, whose results go ``forward``."""
        self._nodes.append((operator, step, forward))

    def through(self, steps: Iterable[Iterator[None]], places: Places) -> Iterator[None]:
        """Take a merged batch through all nodes, of whose batches these are the steps."""
        for operator, _, _ in self._nodes:
            operator.gather()
        yield from chain.from_iterable(steps)
        gathered = [
            (step, batch)
            for operator, step, _ in self._nodes
            for batch in _of_inputs(operator.gathered())
        ]
        for step, run in _runs(gathered, places):
            yield from step(run)
        for operator, _, forward in self._nodes:
            for batch in operator.results():
                yield from forward(batch)


def _of_inputs(batches: list[Batch]) -> list[Batch]:
    """The records of each input partition as a batch, in their order."""
    inputs: dict[TopicPartition, list[Batch]] = {}
    for batch in batches:
        inputs.setdefault(TopicPartition(batch.topic, batch.partition), []).append(batch)
    return [by_offset(some) for some in inputs.values()]


def _runs(gathered: list[tuple[Step, Batch]], places: Places) -> Iterator[tuple[Step, Batch]]:
    """The records of all by their places, as batches of one input; of one place as given."""
    rows: list[tuple[int, int, int]] = []
    for number, (_, batch) in enumerate(gathered):
        of_input = places[TopicPartition(batch.topic, batch.partition)]
        found = map(of_input.__getitem__, batch.offsets)
        rows += [(place, number, index) for index, place in enumerate(found)]
    rows.sort()
    for number, run in groupby(rows, key=itemgetter(1)):
        step, batch = gathered[number]
        indexes = [index for *_, index in run]
        yield step, batch.slice(indexes[0], indexes[-1] + 1)
