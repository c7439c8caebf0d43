"""A query of Spark's in memory: all stages of an application, batch by batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import pyarrow as pa

from streamlet.kafka.placements import DEFAULT
from streamlet.kafka.placements import place as placed_by
from streamlet.kafka.ports import PartitionBatch
from streamlet.spark.plan.plan import SparkPlan
from streamlet.spark.rows.blobs import unpack
from streamlet.spark.rows.packing import Packed, Sender
from streamlet.spark.rows.tasks import Packer
from streamlet.spark.state.run import Runner
from streamlet.types import TopicPartition
from tests.unit.spark.test_stages import SMALL, KeptInMemory

#: Topic, key, value, time.
Record = tuple[str, str, str | None, int]


class StagedQuery:
    """The query of an application, by two workers of each stage that take turns.

    Args:
        laid_out: the plan of the query.
        epoch: of the changelog records of a backfill; None: it is none.
    """

    def __init__(self, laid_out: SparkPlan, epoch: int | None = None) -> None:
        self.plan = laid_out
        self._offsets: dict[TopicPartition, int] = defaultdict(int)
        self._kept: dict[tuple[int, int], KeptInMemory] = defaultdict(KeptInMemory)
        stages = self.plan.stages
        self._workers = [[Runner(self.plan, SMALL, epoch) for _ in range(2)] for _ in stages]
        self._number = 0

    def batch(self, records: Iterable[Record]) -> list[Record]:
        """Process a micro-batch; the records that leave the query."""
        rows = list(self._read(records))
        for stage in range(len(self.plan.stages)):
            rows = list(self._through(stage, rows))
        self._number += 1
        return [record for row in rows for record in _records(row)]

    def _read(self, records: Iterable[Record]) -> Iterator[Packed]:
        by_place: dict[TopicPartition, list[tuple[bytes, bytes | None, int]]] = defaultdict(list)
        for topic, key, value, time in records:
            raw = key.encode()
            by = placed_by(self.plan.partitioners.get(topic, DEFAULT))
            place = TopicPartition(topic, by(raw, self.plan.counts[topic]))
            by_place[place].append((raw, None if value is None else value.encode(), time))
        packer = Packer(self.plan)
        for place, some in by_place.items():
            first = self._offsets[place]
            self._offsets[place] = first + len(some)
            keys, values, times = (list(column) for column in zip(*some, strict=True))
            offsets = list(range(first, first + len(some)))
            if packer.maps(place.topic):
                yield from packer.mapped(PartitionBatch(*place, offsets, keys, values, times))
            else:
                columns = {"key": keys, "value": values, "offset": offsets, "timestamp": times}
                types = {"key": pa.binary(), "value": pa.binary()}
                arrays = {name: pa.array(c, types.get(name)) for name, c in columns.items()}
                yield from packer.as_read(place, pa.RecordBatch.from_pydict(arrays))

    def _through(self, stage: int, rows: list[Packed]) -> Iterator[Packed]:
        by_group: dict[int, list[Packed]] = defaultdict(list)
        for row in rows:
            by_group[row.group].append(row)
        for group, some in sorted(by_group.items()):
            task = self.plan.stages[stage].tasks.get(group)
            if task is None:
                for row in some:
                    to = self.plan.address(stage + 1, row.topic, row.partition, row.sender)
                    yield row._replace(group=to)
                continue
            worker = self._workers[stage][self._number % 3 == 0]
            sender = Sender(self.plan, stage + 1, str(task))
            runs = worker.run(task, some, self._kept[stage, group], self._number)
            for count, outputs in enumerate(runs):
                yield from sender.rows(outputs, count)


def _records(row: Packed) -> Iterator[Record]:
    found = unpack(row.records)
    for key, value, time in zip(found.keys, found.values, found.timestamps, strict=True):
        assert key is not None
        yield (
            row.topic,
            key.decode(),
            None if value is None else value.decode(errors="replace"),
            time,
        )
