"""Encodes the records of a sink: keys, values, and the partitions that a partitioner chooses."""

from __future__ import annotations

from streamlet.batch import Batch, OperatorFailed
from streamlet.runtime.outputs import Output
from streamlet.serdes import ColumnError
from streamlet.topology.nodes import SinkNode
from streamlet.types import TopicPartition


def encoded(node: SinkNode, batch: Batch, count: int, by_record: bool = False) -> Output:
    """The records as a sink writes them, to a topic with ``count`` partitions.

    ``by_record`` tells that the topic was chosen for these records.

    Raises:
        OperatorFailed: one cannot be encoded, or its partitioner fails; ``done`` are those before.
    """
    partitions: list[int] | None = None
    try:
        keys = node.key.encode_column(batch.keys)
        values = node.value.encode_column(batch.values)
    except ColumnError as failed:
        done = batch.slice(0, failed.index)
        raise OperatorFailed(failed.index, done) from failed.cause
    if node.partitioner is not None:
        partitions = []
        try:
            for key, value in zip(batch.keys, batch.values, strict=True):
                partitions.append(_partition(node.partitioner(key, value, count), count))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            done = batch.slice(0, len(partitions))
            raise OperatorFailed(len(partitions), done) from error
    origin = (len(batch), TopicPartition(batch.topic, batch.partition), batch.offsets)
    return Output(
        node.topic,
        keys,
        values,
        batch.timestamps,
        partitions,
        batch.headers,
        [origin],
        by_record=by_record,
    )


def _partition(chosen: object, count: int) -> int:
    """The result of a user's partitioner, if there is such a partition."""
    if type(chosen) is not int or not 0 <= chosen < max(count, 1):
        raise ValueError(f"expected a partition, an int from 0 to {count - 1}, got {chosen!r}")
    return chosen
