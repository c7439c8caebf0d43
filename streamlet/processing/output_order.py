"""The order of what comes of a batch: that of its records, however many were taken together.

* Outputs of a merged batch (``processing.merged_batch``) go to their topics in the order of the
  records that they stem from.
* Branches that keep nothing get a whole batch each. What they send to the node where they meet
  again is gathered, and sent on in the order of the records that it stems from, as if they had come
  one by one: by their offsets, and for one record in the order of the branches.
* A left join of streams sends, with one record, what has waited of other keys, and that depends on
  the records of both sides before it. So its operators look up the matches of all records in the
  batches, and join them afterwards in the order of their places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import itemgetter, lt
from typing import Any, TypeAlias

import attrs

from streamlet.batch import Batch, joined
from streamlet.columnwise import order_of
from streamlet.processing.merged_batch import InputPlaces
from streamlet.processing.outputs import Origin, Output
from streamlet.topology.operator import OrderedOperator
from streamlet.types import TopicPartition

#: Of each partition with records in a merged batch (``processing.merged_batch``).
Places = Mapping[TopicPartition, InputPlaces]


class OutputQueue:
    """Outputs that were not taken yet."""

    def __init__(self) -> None:
        self._ready: list[Output] = []
        #: The newest of each topic among them, which takes what comes next for it.
        self._newest: dict[str, Output] = {}
        #: Those of the merged batch under way, as they came; None: there is none.
        self._gathered: list[Output] | None = None

    def emit(self, output: Output) -> None:
        """Queue an output, joined with the one before it to the same topic if they are alike.

        Records of different topics have no order among each other: a task that takes its records
        one by one, and writes to several topics, still gives few outputs.
        """
        if self._gathered is not None:
            self._gathered.append(output)
            return
        newest = self._newest.get(output.topic)
        if newest is not None and newest.same_shape(output):
            newest.extend(output)
        else:
            self._ready.append(output)
            self._newest[output.topic] = output

    def take(self) -> list[Output]:
        """The outputs that are ready."""
        ready, self._ready = self._ready, []
        self._newest.clear()
        return ready

    def gather(self) -> None:
        """Keep what comes until ``arrange``."""
        self._gathered = []

    def arrange(self, places: Places) -> int:
        """Queue what was gathered, for each topic in the order of the records it stems from.

        Returns:
            How many records that are.
        """
        gathered, self._gathered = self._gathered or [], None
        by_topic: dict[str, list[Output]] = {}
        for output in gathered:
            by_topic.setdefault(output.topic, []).append(output)
        for topic, some in by_topic.items():
            self._newest.pop(topic, None)  # what comes next is behind these
            self._ready += some if len(some) == 1 else _in_order(some, places)
        return sum(len(output.keys) for output in gathered)


def _in_order(outputs: list[Output], places: Places) -> Iterable[Output]:
    """The records of outputs to one topic by their places; of one place in the order given."""
    rows = _Rows(outputs)
    by = rows.places(places)
    order = None if order_of is None else order_of(by)
    if order is None:
        order = sorted(range(len(by)), key=by.__getitem__)
    chosen = rows.partitions
    if chosen is None or None not in chosen:
        return [rows.output(order)]
    # A dead letter, say, whose partition the key decides, between records with another partitioner.
    runs = groupby(order, key=lambda row: chosen[row] is None)
    return [rows.output(list(run)) for _, run in runs]


class _Rows:
    """The records of several outputs to one topic, in columns.

    Args:
        outputs: they.
    """

    def __init__(self, outputs: list[Output]) -> None:
        origins = [origin for output in outputs for origin in output.origins]
        self._runs = origins
        self.partitions = self._sparse(outputs, "partitions")
        self._topic = outputs[0].topic
        self._headers = self._sparse(outputs, "headers")
        self._columns = [
            list(chain.from_iterable(getattr(output, name) for output in outputs))
            for name in ("keys", "values", "timestamps")
        ]

    def places(self, places: Places) -> list[int]:
        """The place of each record."""
        found = (places[at].of(offsets) for _, at, offsets in self._runs)
        return list(chain.from_iterable(found))

    def output(self, rows: list[int]) -> Output:
        """The records of these rows, at least one."""
        pick = itemgetter(*rows) if len(rows) > 1 else None

        def picked(column: list[Any]) -> list[Any]:
            return [column[rows[0]]] if pick is None else list(pick(column))

        partitions, headers = self.partitions, self._headers
        decided = partitions is None or partitions[rows[0]] is None
        keys, values, timestamps = map(picked, self._columns)
        return Output(
            self._topic,
            keys,
            values,
            timestamps,
            None if decided or partitions is None else picked(partitions),
            None if headers is None else picked(headers),
            _Origins(self._runs, rows),
        )

    @staticmethod
    def _sparse(outputs: list[Output], name: str) -> list[Any] | None:
        """A column that some outputs do not have; None: none has it."""
        columns = [getattr(output, name) for output in outputs]
        if all(column is None for column in columns):
            return None
        pairs = zip(columns, outputs, strict=True)
        return [one for some, output in pairs for one in some or [None] * len(output.keys)]


@attrs.frozen
class _Origins:
    """The origins of records that were chosen among those of some runs.

    They are made for who asks: only few topics and failures do.
    """

    runs: list[Origin]
    rows: list[int]

    def __iter__(self) -> Iterator[Origin]:
        sources = list(chain.from_iterable([at] * count for count, at, _ in self.runs))
        offsets = list(chain.from_iterable(offsets for _, _, offsets in self.runs))
        for source, run in groupby(self.rows, key=sources.__getitem__):
            found = list(map(offsets.__getitem__, run))
            yield len(found), source, found


#: Takes a batch through a node and all that is behind it; stops where others may go on.
Step: TypeAlias = Callable[[Batch], Iterator[None]]


class Meeting:
    """The step of a node, before which batches may be gathered.

    Args:
        through: the step itself.
    """

    def __init__(self, through: Step) -> None:
        self._through = through
        self._gathered: list[Batch] | None = None

    def step(self, batch: Batch) -> Iterator[None]:
        """Go through the node, or wait before it for the other branches."""
        if self._gathered is None:
            return self._through(batch)
        self._gathered.append(batch)
        return iter(())

    def of_branches(self, whole: Step, single: Step) -> Step:
        """The step behind a fork.

        Args:
            whole: takes a batch through the branches, one after the other.
            single: takes its records through them one by one.
        """

        def forward(batch: Batch) -> Iterator[None]:
            # Offsets tell records apart, but for those that were made of one record above.
            if len(batch) == 1 or not _rising(batch.offsets):
                return single(batch)
            return whole(batch) if self._gathered is not None else self._in_order(whole(batch))

        return forward

    def _in_order(self, branches: Iterator[None]) -> Iterator[None]:
        gathered = self._gathered = []
        try:
            yield from branches
        finally:
            self._gathered = None
        if gathered:
            yield from self._through(by_offset(gathered))


def _rising(offsets: Sequence[int]) -> bool:
    """True if no two are equal."""
    return isinstance(offsets, range) or all(map(lt, offsets, offsets[1:]))


def by_offset(batches: list[Batch]) -> Batch:
    """The records of all batches by their offsets; those of one offset in the order given."""
    if len(batches) == 1:
        return batches[0]
    whole = joined(batches)
    return whole.pick(sorted(range(len(whole)), key=whole.offsets.__getitem__))


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
        found = of_input.of(batch.offsets)
        rows += [(place, number, index) for index, place in enumerate(found)]
    rows.sort()
    for number, run in groupby(rows, key=itemgetter(1)):
        step, batch = gathered[number]
        indexes = [index for *_, index in run]
        yield step, batch.slice(indexes[0], indexes[-1] + 1)
