"""Many records as one row: what travels between the stages of a query.

Spark's cost is per row, not per byte. A row bears an address (``group``), who sent it and a place
in the sender's order, the topic and partition it is for, and the records as one blob.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

import msgspec

from streamlet.kafka.ports import PartitionBatch
from streamlet.runtime.task import Output
from streamlet.spark.placement import key_hash
from streamlet.spark.plan import Plan

PACKED_SCHEMA = (
    "group int, sender string, first bigint, part int, time bigint, topic string, partition int, "
    "records binary"
)

#: Records in a row at most: rows should be few, but a batch must not become one row.
_RECORDS_PER_ROW = 20_000

#: Partition of a row that leaves the query.
LEAVES = -1


class Packed(NamedTuple):
    """One row of ``PACKED_SCHEMA``."""

    group: int
    sender: str
    first: int  # with ``part``: place in the sender's order within one micro-batch
    part: int
    time: int  # of the first record, ms since the epoch
    topic: str
    partition: int
    records: bytes


class Records(msgspec.Struct, array_like=True):
    """Columns of records; offsets only where they came from a topic, None if contiguous."""

    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: list[int]
    first: int | None = None
    offsets: list[int] | None = None
    partitions: list[int] | None = None
    headers: list[list[tuple[str, bytes | None]] | None] | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Records).decode


def unpack(records: bytes) -> Records:
    """The columns of a row."""
    return _decode(records)


def pack_raw(plan: Plan, raw: PartitionBatch) -> Packed:
    """Records as they were read, addressed to their task."""
    sender = f"{raw.topic}-{raw.partition}"
    offsets = None if isinstance(raw.offsets, range) else list(raw.offsets)
    first = raw.offsets[0]
    records = Records(raw.keys, raw.values, raw.timestamps, first, offsets)
    group = plan.address(0, raw.topic, raw.partition, sender)
    place = sender, first, 0, raw.timestamps[0]
    return Packed(group, *place, raw.topic, raw.partition, _encode(records))


def as_batch(row: Packed, records: Records, first: int) -> PartitionBatch:
    """A row as a task takes it; ``first`` is the offset given to records that have none."""
    start = first if records.first is None else records.first
    offsets: Sequence[int] = records.offsets or range(start, start + len(records.keys))
    return PartitionBatch(
        row.topic, row.partition, offsets, records.keys, records.values, records.timestamps
    )


def as_output(topic: str, records: Records) -> Output:
    """A row that leaves the query."""
    return Output(
        topic,
        records.keys,
        records.values,
        records.timestamps,
        records.partitions,
        None if records.headers is None else list(records.headers),
    )


class Sender:
    """Packs what one task of one stage writes.

    Args:
        plan: of the query.
        stage: the one that gets the rows next.
        name: of the task.
    """

    def __init__(self, plan: Plan, stage: int, name: str) -> None:
        self._plan, self._stage, self._name = plan, stage, name

    def rows(self, outputs: Sequence[Output], first: int) -> Iterator[Packed]:
        """Rows in the order of the outputs; ``first`` must grow from call to call."""
        part = 0
        for output in outputs:
            for partition, records in self._split(output):
                group = self._plan.address(self._stage, output.topic, partition, self._name)
                place = self._name, first, part, records.timestamps[0]
                yield Packed(group, *place, output.topic, partition, _encode(records))
                part += 1

    def _split(self, output: Output) -> Iterator[tuple[int, Records]]:
        if output.topic not in self._plan.inside:
            headers = None
            if output.headers is not None:
                headers = [None if one is None else list(one) for one in output.headers]
            columns = output.keys, output.values, output.timestamps
            whole = Records(*columns, None, None, output.partitions, headers)
            yield from ((LEAVES, some) for some in _chunks(whole))
            return
        count = self._plan.counts[output.topic]
        places = output.partitions or self._places(output.keys, count)
        for partition in range(count):
            at = [i for i, place in enumerate(places) if place == partition]
            if at:
                whole = Records(
                    [output.keys[i] for i in at],
                    [output.values[i] for i in at],
                    [output.timestamps[i] for i in at],
                )
                yield from ((partition, some) for some in _chunks(whole))

    def _places(self, keys: Sequence[bytes | None], count: int) -> list[int]:
        """Partitions by key, as Kafka's producer chooses them; without a key, the sender's own."""
        if count == 1:
            return [0] * len(keys)
        keyless = crc32(self._name.encode()) % count
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
