"""DataFrames in place of Kafka's topics: typed rows in, the rows on their way to tasks out.

A row becomes the record that a producer would have written: key and value in the bytes of the
application's serdes, the partition that Kafka's producer chooses for the key, the time of a column.
Offsets are made up by the task, which takes rows one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from zlib import crc32

import attrs

from streamlet.errors import ConfigError, SerdeError
from streamlet.kafka.placements import DEFAULT, partitioner_name
from streamlet.spark.error_notes import reported_rows
from streamlet.spark.plan.plan import SparkPlan, partitioners_of
from streamlet.spark.plan.reference import resolve
from streamlet.spark.progress import OBSERVED
from streamlet.spark.query_settings import spread_over
from streamlet.spark.rows.schemas import PACKED_SCHEMA
from streamlet.spark.sql.frame_columns import FrameSource, Layout, layout_of
from streamlet.spark.sql.typed_columns import encoder, source_serdes
from streamlet.topology.copartition import joined_sources
from streamlet.topology.graph import Topology
from streamlet.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

#: Partitions of a topic that is a DataFrame, unless a topic of Kafka's stands beside it. A fixed
#: number: a checkpoint goes on with the same one only, on whatever cluster.
PARTITIONS = 8

#: Rows of a Spark partition are numbered from its own number times this.
_NUMBERS = 1 << 40

_ENCODED = "key binary, value binary, partition int, timestamp bigint, number bigint"

#: The order of encoded rows; ``number`` decides between those of one time.
_ORDER = ("partition", "timestamp", "number")

#: Sorted rows are packed by so many, as many as Spark gives at once.
_ROWS_AT_ONCE = 10_000


#: The forms of a source.
Source: TypeAlias = "DataFrame | FrameSource"


def frame_sources(
    topology: Topology, sources: Mapping[str, Source]
) -> tuple[dict[str, FrameSource], bool]:
    """The sources by topic, and whether they are streaming.

    Raises:
        TopologyError: the application does not read such a topic.
        ConfigError: some are bounded and some are streaming, there is no such partitioner, or the
            topic meets others that lie by another one.
    """
    found = {
        topic: source if isinstance(source, FrameSource) else FrameSource(source)
        for topic, source in sorted(sources.items())
    }
    if not found:
        raise ConfigError(["sources: no topic has a DataFrame; leave it out to read Kafka"])
    for topic in found:
        source_serdes(topology, topic)
    _check_partitioners(topology, found)
    streaming = {topic for topic, source in found.items() if source.frame.isStreaming}
    from_kafka = set(topology.source_topics) - found.keys()
    bounded = sorted(found.keys() - streaming)
    if bounded and (streaming or from_kafka):
        others = ", ".join(sorted(streaming | from_kafka))
        raise ConfigError(
            [
                f"sources: {', '.join(bounded)} is bounded, and {others} is a stream: Spark cannot "
                "join the two in one query. Read it as a stream too: spark.readStream with the "
                "schema of its files"
            ]
        )
    return found, not bounded


def _check_partitioners(topology: Topology, sources: Mapping[str, FrameSource]) -> None:
    """Refuse partitioners of which there are none, or by which records do not meet others.

    Raises:
        ConfigError: the message names topics and partitioners.
    """
    given: dict[str, str] = {}
    for topic, source in sources.items():
        if source.partitioner is not None:
            try:
                given[topic] = partitioner_name(source.partitioner)
            except ValueError as error:
                raise ConfigError([f"{topic}: partitioner: {error}"]) from error
    found = {**partitioners_of(topology), **given}
    for part in topology.subtopologies if given else ():
        for group in joined_sources(part) if part.stateful else ():
            topics = [topic for one in group for topic in one.topics]
            for topic in given.keys() & {*topics}:
                others = [one for one in topics if found.get(one, DEFAULT) != given[topic]]
                if others:
                    raise ConfigError(
                        [
                            f"{topic}: partitioner={given[topic]!r}, and {', '.join(others)} with "
                            f"it by {found.get(others[0], DEFAULT)!r}: give partitioner= where the "
                            "application reads them, which repartition topics follow"
                        ]
                    )


def default_counts(
    topology: Topology, sources: Mapping[str, FrameSource], known: Mapping[str, int]
) -> dict[str, int]:
    """Partitions of the topics that are DataFrames: as many as of topics read beside them."""
    found = dict(known)
    for topic in sources:
        if topic in found:
            continue
        beside = [
            known[other]
            for part in topology.subtopologies
            if topic in part.input_topics
            for other in part.input_topics
            if other in known
        ]
        found[topic] = max(beside, default=PARTITIONS)
    return found


def packed_frame(
    spark: SparkSession, plan: SparkPlan, topology: Topology, topic: str, source: FrameSource
) -> DataFrame:
    """The rows of a DataFrame as rows of ``schemas.PACKED``.

    They are put in the order of their times, partition by partition: all of a bounded one, those of
    each micro-batch of a stream.

    Raises:
        ConfigError: a column is missing, or not of the type that the topic's serdes need.
    """
    from pyspark.sql import functions as f

    layout = layout_of(topology, topic, source)
    rows = layout.select(source.frame)
    if source.frame.isStreaming:
        counted = f.count(f.lit(1)).alias("records")
        rows = rows.observe(f"{OBSERVED}{topology.application}:{topic}", counted)
    by = source.partitioner and partitioner_name(source.partitioner)
    encoded = rows.mapInArrow(EncodeRows(plan, layout, by), _ENCODED)
    number = spread_over(spark, plan.counts[topic])
    spread = encoded.repartitionById(number, f.col("partition"))
    if source.frame.isStreaming:  # Spark sorts no streams
        return spread.mapInArrow(PackRows(plan, topic, in_time_order), PACKED_SCHEMA)
    ordered = spread.sortWithinPartitions(*_ORDER)
    return ordered.mapInArrow(PackRows(plan, topic), PACKED_SCHEMA)


def in_time_order(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All encoded rows of a Spark partition, by partition and time."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = [rows for rows in batches if rows.num_rows]
    if not found:
        return
    schema = found[0].schema
    # Columns of ``binary`` end at 2 GiB.
    large = [
        pa.field(one.name, pa.large_binary()) if pa.types.is_binary(one.type) else one
        for one in schema
    ]
    table = pa.Table.from_batches(found).cast(pa.schema(large)).combine_chunks()
    del found
    order = pc.sort_indices(table, [(name, "ascending") for name in _ORDER])
    for at in range(0, table.num_rows, _ROWS_AT_ONCE):
        some = table.take(order.slice(at, _ROWS_AT_ONCE)).cast(schema)
        yield from some.to_batches()


@attrs.frozen
class EncodeRows:
    """Typed rows as the records a producer would have written, in ``mapInArrow``.

    Args:
        plan: of the query.
        layout: of the rows.
        partitioner: of the producer, by its full name; None: as the application says.

    Raises:
        SerdeError: when called, a row that is no value of the topic's type, or has no time.
    """

    plan: SparkPlan
    layout: Layout
    partitioner: str | None = None

    @reported_rows
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Encode the rows of one Spark partition."""
        import pyarrow as pa

        topic = self.layout.topic
        serdes = source_serdes(resolve(self.plan.reference).topology(), topic)
        keys, values = (
            encoder(serde, f"{topic}: column {shown}")
            for serde, shown in zip(serdes, self.layout.shown, strict=True)
        )
        number = _spark_partition() * _NUMBERS
        for rows in batches:
            if rows["timestamp"].null_count:
                raise SerdeError(f"{topic}: column {self.layout.time}: a row has no time")
            encoded = keys(rows["key"])
            numbers = range(number, number + rows.num_rows)
            number += rows.num_rows
            columns = (
                pa.array(encoded, pa.binary()),
                pa.array(values(rows["value"]), pa.binary()),
                pa.array(self._places(encoded), pa.int32()),
                rows["timestamp"],
                pa.array(numbers, pa.int64()),
            )
            names = ["key", "value", "partition", "timestamp", "number"]
            yield pa.RecordBatch.from_arrays(list(columns), names=names)

    def _places(self, keys: Sequence[bytes | None]) -> list[int]:
        """Partitions as the topic's producer chooses them; one for all rows without a key."""
        from streamlet.kafka.partitioner import KeyPartitioner

        count = self.plan.counts[self.layout.topic]
        keyless = crc32(b"%d" % _spark_partition()) % count
        name = self.partitioner or self.plan.partitioners.get(self.layout.topic, DEFAULT)
        found = KeyPartitioner(count, name).choose(keys, [0] * len(keys))
        return [keyless if key is None else at for key, at in zip(keys, found, strict=True)]


@attrs.frozen
class PackRows:
    """Encoded rows packed for their tasks, or what stateless tasks make of them.

    Args:
        plan: of the query.
        topic: whose records they are.
        before: puts the rows in order; None: they are.
    """

    plan: SparkPlan
    topic: str
    before: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]] | None = None

    @reported_rows
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the rows of one Spark partition."""
        from streamlet.spark.rows.tasks import Packer

        in_order = batches if self.before is None else self.before(batches)
        yield from Packer(self.plan).packed(self._numbered(in_order), self._without_offsets)

    def _numbered(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows as records of the topic, with numbers in the place of offsets."""
        import pyarrow as pa

        first = _spark_partition() * _NUMBERS
        for rows in batches:
            count = rows.num_rows
            names = ["key", "value", "partition", "timestamp", "offset", "topic"]
            columns = [rows[name] for name in names[:4]]
            columns += [
                pa.array(range(first, first + count), pa.int64()),
                pa.repeat(pa.scalar(self.topic), count),
            ]
            first += count
            yield pa.RecordBatch.from_arrays(columns, names=names)

    def _without_offsets(self, where: TopicPartition, rows: pa.RecordBatch) -> Iterator[Any]:
        from streamlet.spark.rows.packing import pack_raw

        sender = f"{where.topic}-{where.partition}-{_spark_partition()}"
        return pack_raw(self.plan, where, rows, sender)


def _spark_partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
