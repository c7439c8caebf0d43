"""The outputs of a task on their way to its caller, in the order of their records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, groupby
from typing import Any

import attrs

from streamlet.runtime.outputs import Origin, Output
from streamlet.types import TopicPartition

#: Partition -> offset -> place among the records of a merged batch (``runtime.merged_batch``).
Places = Mapping[TopicPartition, Mapping[int, int]]


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
        """Take what is ready."""
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
        self.sources = list(chain.from_iterable([at] * count for count, at, _ in origins))
        self.offsets = list(chain.from_iterable(offsets for _, _, offsets in origins))
        self.partitions = self._sparse(outputs, "partitions")
        self._topic = outputs[0].topic
        self._headers = self._sparse(outputs, "headers")
        self._columns = [
            list(chain.from_iterable(getattr(output, name) for output in outputs))
            for name in ("keys", "values", "timestamps")
        ]

    def places(self, places: Places) -> list[int]:
        """The place of each record."""
        found = (map(places[at].__getitem__, offsets) for _, at, offsets in self._runs)
        return list(chain.from_iterable(found))

    def output(self, rows: list[int]) -> Output:
        """The records of these rows, at least one."""

        def picked(column: list[Any]) -> list[Any]:
            return list(map(column.__getitem__, rows))

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
            _Origins(picked(self.sources), picked(self.offsets)),
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
    """The origins of records in columns, which only few topics and failures need as runs."""

    sources: list[TopicPartition]
    offsets: list[int]

    def __iter__(self) -> Iterator[Origin]:
        start = 0
        for source, run in groupby(self.sources):
            stop = start + len(list(run))
            yield stop - start, source, self.offsets[start:stop]
            start = stop
