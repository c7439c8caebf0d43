"""Many records as one row: what travels between the stages of a query.

Spark's cost is per row, not per byte. A row bears an address (``group``), who sent it and a place
in the sender's order, the topic and partition it is for, and the records as one blob.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import attrs

from streamlet.kafka.placements import place as placed_by
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.outputs import Output
from streamlet.spark.kafka.placement import key_hash
from streamlet.spark.kafka.ranges import Range
from streamlet.spark.plan.plan import SparkPlan
from streamlet.spark.rows.blobs import Records, blob, pack
from streamlet.types import TopicPartition as Place

if TYPE_CHECKING:
    import pyarrow as pa

#: Records in a row at most. Rows should be few, but values of megabytes are hard on the JVM's
#: memory: it keeps such large objects apart.
_RECORDS_PER_ROW = 5_000

#: Partition of a row that leaves the query.
LEAVES = -1

#: The ``until`` of a row that has its records.
HERE = -1


class Packed(NamedTuple):
    """One row of ``schemas.PACKED``."""

    group: int
    sender: str
    first: int  # with ``part``: place in the sender's order within one micro-batch
    part: int
    time: int  # of the first record, ms since the epoch
    topic: str
    partition: int
    records: bytes
    #: Where it is not ``HERE``: the records lie in the topic's partition, from offset ``first`` to
    #: this one (exclusive), and the task that processes them reads them.
    until: int = HERE


def handed_on(plan: SparkPlan, one: Range) -> Packed:
    """A range for the task of its partition to read.

    Raises:
        StateError: the topic has more partitions than it had.
    """
    plan.check(one.where)
    return Packed(*_from_source(plan, one.where), one.begin, 0, 0, *one.where, b"", one.end)


def pack_raw(
    plan: SparkPlan, place: Place, rows: pa.RecordBatch, by: str | None = None
) -> Iterator[Packed]:
    """Records of one partition in their order, addressed to their task.

    As they were read from the topic; or, without their offsets, as the sender ``by`` made them.
    """
    group, sender = _from_source(plan, place, by)
    for at in range(0, rows.num_rows, _RECORDS_PER_ROW):
        some = rows.slice(at, _RECORDS_PER_ROW)
        first, last = some["offset"][0].as_py(), some["offset"][-1].as_py()
        time = some["timestamp"][0].as_py()
        read, whole = by is None, last - first + 1 == some.num_rows
        columns = ["key", "value", "timestamp", *(["offset"] if read and not whole else [])]
        records = blob(some.select(columns), first if read and whole else None)
        yield Packed(group, sender, first, 0, time, place.topic, place.partition, records)


def _from_source(plan: SparkPlan, place: Place, by: str | None = None) -> tuple[int, str]:
    """The address of records of a partition, and their sender; None: they lie in the topic."""
    sender = by or f"{place.topic}-{place.partition}"
    return plan.address(0, place.topic, place.partition, sender), sender


def as_batch(row: Packed, records: Records, first: int) -> PartitionBatch:
    """A row as a task takes it; ``first`` is the offset given to records that have none."""
    start = first if records.first is None else records.first
    offsets: Sequence[int] = records.offsets or range(start, start + len(records.keys))
    return PartitionBatch(
        row.topic, row.partition, offsets, records.keys, records.values, records.timestamps
    )


@attrs.define(eq=False)
class Sender:
    """Packs what one task of one stage writes.

    Args:
        plan: of the query.
        stage: the one that gets the rows next.
        name: of the task.
        send: takes what leaves the query; None: it is packed too.
    """

    _plan: SparkPlan
    _stage: int
    _name: str
    _send: Callable[[Output], None] | None = None
    #: Records packed or sent so far.
    records: int = attrs.field(default=0, init=False)

    def rows(self, outputs: Sequence[Output], first: int) -> Iterator[Packed]:
        """Rows in the order of the outputs; ``first`` must grow from call to call."""
        part = 0
        for output in outputs:
            if self._send is not None and output.topic not in self._plan.inside:
                self.records += len(output.keys)
                self._send(output)
                continue
            for partition, records in self._split(output):
                group = self._plan.address(self._stage, output.topic, partition, self._name)
                place = self._name, first, part, records.timestamps[0]
                self.records += len(records.keys)
                yield Packed(group, *place, output.topic, partition, pack(records))
                part += 1

    def _split(self, output: Output) -> Iterator[tuple[int, Records]]:
        if output.topic not in self._plan.inside:
            columns = output.keys, output.values, output.timestamps
            whole = Records(*columns, None, None, output.partitions, output.headers)
            yield from ((LEAVES, some) for some in _chunks(whole))
            return
        count = self._plan.counts[output.topic]
        places = output.partitions or self._places(output.topic, output.keys, count)
        for partition in range(count):
            at = [i for i, place in enumerate(places) if place == partition]
            if at:
                whole = Records(
                    [output.keys[i] for i in at],
                    [output.values[i] for i in at],
                    [output.timestamps[i] for i in at],
                )
                yield from ((partition, some) for some in _chunks(whole))

    def _places(self, topic: str, keys: Sequence[bytes | None], count: int) -> list[int]:
        """Partitions by key, as the topic's partitioner has them; without one, the sender's own."""
        if count == 1:
            return [0] * len(keys)
        keyless = crc32(self._name.encode()) % count
        name = self._plan.partitioners.get(topic)
        if name is not None:
            placed = placed_by(name)
            return [keyless if key is None else placed(key, count) for key in keys]
        return [keyless if key is None else key_hash(key) % count for key in keys]


def _chunks(whole: Records) -> Iterator[Records]:
    count = len(whole.keys)
    if count <= _RECORDS_PER_ROW:
        yield whole
        return
    for at in range(0, count, _RECORDS_PER_ROW):
        to = at + _RECORDS_PER_ROW
        yield Records(
            whole.keys[at:to],
            whole.values[at:to],
            whole.timestamps[at:to],
            None,
            None,
            whole.partitions and whole.partitions[at:to],
            whole.headers and whole.headers[at:to],
        )
