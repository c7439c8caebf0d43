"""The rows that workers make of ranges of Kafka: packed, as partial aggregates, or handed on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from streamlet.kafka.ports import PartitionBatch
from streamlet.spark.kafka.ranges import Range
from streamlet.spark.plan.plan import SparkPlan
from streamlet.spark.rows.columns import columns_as_read, read_rows
from streamlet.spark.rows.packing import handed_on
from streamlet.spark.rows.tasks import Packer
from streamlet.types import TopicPartition


def handed_on_rows(plan: SparkPlan, ranges: Sequence[Range]) -> Iterator[pa.RecordBatch]:
    """A row for each range, for the task of its partition to read."""
    for one in ranges:
        yield read_rows(one.end - one.begin, [handed_on(plan, one)])


def packed_reads(plan: SparkPlan, batches: Iterator[PartitionBatch]) -> Iterator[pa.RecordBatch]:
    """Records as rows of ``schemas.READ_SCHEMA``, or what stateless tasks make of them."""
    packer = Packer(plan)
    for batch in batches:
        where = TopicPartition(batch.topic, batch.partition)
        if packer.maps(where.topic):
            packed = packer.mapped(batch)
        else:
            packed = packer.as_read(where, columns_as_read(batch))
        yield read_rows(len(batch), list(packed))
    if reports := packer.reports():
        yield read_rows(0, reports)
