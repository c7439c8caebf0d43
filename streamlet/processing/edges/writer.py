"""Gives each record to an exact repartition topic its origin, and the origin before it.

So do records to output topics with origins (``to(topic, origin=True)``), in a header.

One writer per active period of a task. The chain of each edge begins with the period, and again
behind each commit: everything before that was delivered, and lies before it in the topic. So a
reader that misses a record for good (the topic lost it) goes on after the writer's next commit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from streamlet.errors import ProcessingError
from streamlet.kafka.partitioner import KeyPartitioner
from streamlet.kafka.ports import Headers
from streamlet.origins import ORIGIN_HEADER, origin_headers
from streamlet.processing.edges.agreement import Agreement
from streamlet.processing.edges.forms import OriginForms
from streamlet.processing.edges.held_writer import HeldWriter
from streamlet.processing.edges.records import (
    INDEX_BITS,
    MOST_ORIGINS,
    OriginsExhausted,
    number,
    pack_next,
)
from streamlet.processing.outputs import Output
from streamlet.types import TopicPartition

#: Newest origin plus one of each partition of one topic, 0 before the first.
_Chain = list[int]
_LOW = (1 << 32) - 1


class EdgeWriter:
    """The chains of one task.

    Args:
        topics: partitions of each repartition topic whose records may bear origins, and of each
            output topic with origins.
        headed: those whose records bear their origins in a header.
        edges: number of each of its input partitions (``records.edge_of``).
        agreement: of the group; None: prefixes may be written.
        held: the writer to those topics whose records wait for their commit.
        forms: which repartition topics bear origins; None: all of ``topics`` do.
    """

    def __init__(
        self,
        topics: Mapping[str, int],
        edges: Mapping[TopicPartition, int],
        headed: Collection[str] = (),
        agreement: Agreement | None = None,
        held: HeldWriter | None = None,
        forms: OriginForms | None = None,
    ) -> None:
        self.held = held
        between = topics.keys() - set(headed)
        self.forms = forms or OriginForms(between, between, agreement, held)
        self._headed = frozenset(headed)
        self._partitioners = {topic: KeyPartitioner(count) for topic, count in topics.items()}
        self._edges = dict(edges)
        self._chains: dict[tuple[str, TopicPartition], _Chain] = {}
        self._before: dict[tuple[str, TopicPartition], _Chain] = {}

    def prefixed(self, output: Output) -> Output:
        """The output as it is to be written; itself if its topic bears no origins.

        Raises:
            ProcessingError: an input record became more than 524,288 records of one partition.
        """
        self._before = {}
        if output.by_record:
            return output
        if output.topic not in self._headed and not self.forms.bear(output.topic):
            return self._without_origins(output)
        partitions = output.partitions or self._chosen(output)
        values, headers = output.values, output.headers
        found, made = self._numbered(output, partitions)
        if output.topic in self._headed:
            headers = _with_origins(headers, made)
        else:
            values = found
        columns = output.keys, values, output.timestamps, partitions, headers
        return Output(output.topic, *columns, output.origins)

    def _numbered(
        self, output: Output, partitions: list[int]
    ) -> tuple[list[bytes | None], list[tuple[str, bytes]]]:
        """The values with their prefixes, or the headers that say the same."""
        values: list[bytes | None] = []
        headers: list[tuple[str, bytes]] = []
        done = 0
        for count, source, run in output.origins:
            rows = slice(done, done + count)
            columns = run, partitions[rows], self._chain(output.topic, source)
            try:
                if output.topic in self._headed:
                    headers += self._headers(source, *number(*columns))
                else:
                    values += pack_next(output.values[rows], self._edges[source], *columns)
            except OriginsExhausted as error:
                raise ProcessingError(
                    f"more than {MOST_ORIGINS} records for one partition",
                    *(source.topic, source.partition, error.offset, "repartition"),
                ) from None
            done += count
        return values, headers

    def _chosen(self, output: Output) -> list[int]:
        offsets = [offset for _, _, run in output.origins for offset in run]
        return self._partitioners[output.topic].choose(output.keys, offsets)

    def _without_origins(self, output: Output) -> Output:
        if self.held is not None:
            if self.held.takes(output.topic):
                return self.held.prefixed(output)
            self.held.plain(output)
        return output

    def _headers(
        self, source: TopicPartition, origins: Sequence[int], previous: Sequence[int]
    ) -> Iterator[tuple[str, bytes]]:
        """The header of each record of this source."""
        edge = self._edges[source]
        header = origin_headers(*source, edge >> 32, edge & _LOW)
        for origin, before in zip(origins, previous, strict=True):
            yield header(*_place(origin), *_place(before))

    def refused(self, output: Output, index: int) -> None:
        """Take back what ``prefixed`` noted of the record at ``index`` and those behind it."""
        self._chains |= self._before
        if index and output.topic in self._partitioners:
            self.prefixed(output.slice(0, index))

    def committed(self, positions: Mapping[TopicPartition, int]) -> None:
        """Begin the chains again that end before these accepted positions."""
        for (_, source), chain in self._chains.items():
            first = positions[source] + 1 << INDEX_BITS
            for partition, last in enumerate(chain):
                if last < first:
                    chain[partition] = 0

    def _chain(self, topic: str, source: TopicPartition) -> _Chain:
        name = topic, source
        chain = self._chains.get(name)
        if chain is None:
            chain = self._chains[name] = [0] * self._partitioners[topic].partitions
        self._before.setdefault(name, list(chain))
        return chain


def _with_origins(
    given: Sequence[Headers | None] | None, made: list[tuple[str, bytes]]
) -> list[Headers | None]:
    """The headers of records with their origins in place of those of their input."""
    if given is None:
        return [[one] for one in made]
    return [
        [*(pair for pair in own or () if pair[0] != ORIGIN_HEADER), one]
        for own, one in zip(given, made, strict=True)
    ]


def _place(origin: int) -> tuple[int, int]:
    """Offset and index of an origin; -1 and 0 for none."""
    return (origin >> INDEX_BITS) - 1, (origin & (1 << INDEX_BITS) - 1) >> 1
