"""Gives each record to an exact repartition topic its origin, and the origin before it.

So do records to output topics with origins (``to(topic, origin=True)``), in a header.

One writer per active period of a task. The chain of each edge begins with the period, and again
behind each commit: everything before that was delivered, and lies before it in the topic. So a
reader that misses a record for good (the topic lost it) goes on after the writer's next commit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from streamlet.errors import ProcessingError
from streamlet.kafka.partitioner import KeyPartitioner
from streamlet.kafka.ports import Headers
from streamlet.origins import ORIGIN_HEADER, origin_headers
from streamlet.processing.edges.agreement import Agreement
from streamlet.processing.edges.forms import OriginForms
from streamlet.processing.edges.held_writer import HeldWriter
from streamlet.processing.edges.records import INDEX_BITS, pack
from streamlet.processing.outputs import Output
from streamlet.types import TopicPartition

#: Newest origin plus one of each partition of one topic, 0 before the first.
_Chain = list[int]
_MOST = 1 << INDEX_BITS
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
        partitioner = self._partitioners[output.topic]
        offsets = [offset for _, _, run in output.origins for offset in run]
        partitions = output.partitions or partitioner.choose(output.keys, offsets)
        edges: list[int] = []
        origins: list[int] = []
        previous: list[int] = []
        done = 0
        for count, source, run in output.origins:
            chain = self._chain(output.topic, source)
            edges += [self._edges[source]] * count
            self._number(source, chain, run, partitions[done : done + count], origins, previous)
            done += count
        values, headers = output.values, output.headers
        if output.topic in self._headed:
            headers = self._with_headers(output, origins, previous)
        else:
            values = [*pack(values, edges, origins, previous)]
        columns = output.keys, values, output.timestamps, partitions, headers
        return Output(output.topic, *columns, output.origins)

    def _without_origins(self, output: Output) -> Output:
        if self.held is not None:
            if self.held.takes(output.topic):
                return self.held.prefixed(output)
            self.held.plain(output)
        return output

    def _with_headers(
        self, output: Output, origins: Sequence[int], previous: Sequence[int]
    ) -> list[Headers | None]:
        """The headers of an output, with its origins in place of those of its input."""
        made: list[tuple[str, bytes]] = []
        for count, source, _ in output.origins:
            edge = self._edges[source]
            header = origin_headers(*source, edge >> 32, edge & _LOW)
            end = len(made) + count
            for origin, before in zip(
                origins[len(made) : end], previous[len(made) : end], strict=True
            ):
                made.append(header(*_place(origin), *_place(before)))
        if output.headers is None:
            return [[one] for one in made]
        return [
            [*(pair for pair in own or () if pair[0] != ORIGIN_HEADER), one]
            for own, one in zip(output.headers, made, strict=True)
        ]

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

    def _number(
        self,
        source: TopicPartition,
        chain: _Chain,
        offsets: Sequence[int],
        partitions: Sequence[int],
        origins: list[int],
        previous: list[int],
    ) -> None:
        add_origin, add_previous = origins.append, previous.append
        if isinstance(offsets, range) and offsets.step == 1:
            first = offsets.start + 1 << INDEX_BITS
            if max(chain) < first:  # one record of each, behind all before
                own = range(first, offsets.stop + 1 << INDEX_BITS, 1 << INDEX_BITS)
                origins += own
                for origin, partition in zip(own, partitions, strict=True):
                    add_previous(chain[partition])
                    chain[partition] = origin + 1
                return
        for offset, partition in zip(offsets, partitions, strict=True):
            last = chain[partition]
            origin = offset + 1 << INDEX_BITS
            if last > origin:  # another record of the same input record
                if last + 1 >= origin + _MOST:
                    raise ProcessingError(
                        f"more than {_MOST // 2} records for one partition",
                        *(source.topic, source.partition, offset, "repartition"),
                    )
                origin = last + 1
            add_origin(origin)
            add_previous(last)
            chain[partition] = origin + 1

    def _chain(self, topic: str, source: TopicPartition) -> _Chain:
        name = topic, source
        chain = self._chains.get(name)
        if chain is None:
            chain = self._chains[name] = [0] * self._partitioners[topic].partitions
        self._before.setdefault(name, list(chain))
        return chain


def _place(origin: int) -> tuple[int, int]:
    """Offset and index of an origin; -1 and 0 for none."""
    return (origin >> INDEX_BITS) - 1, (origin & _MOST - 1) >> 1
