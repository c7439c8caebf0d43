"""Raw batches in, decoded ones out: keys and values by the column, times by the extractor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamlet.batch import Batch
from streamlet.kafka.ports import PartitionBatch
from streamlet.runtime.timestamps import Timestamps
from streamlet.serdes import ColumnError
from streamlet.topology.nodes import SourceNode
from streamlet.types import TopicPartition

#: ``(reason, partition, offset, operator, cause)``: applies the error policy to a record.
Failed = Callable[[str, TopicPartition, int, str, BaseException | None], None]


class RecordDecoder:
    """Decodes the batches of a task.

    Args:
        failed: called with each record that cannot be decoded, and left out if this returns.
        dropped: counts records left out by rule.
    """

    def __init__(self, failed: Failed, dropped: Callable[[str, int], None]) -> None:
        self._failed = failed
        self._timestamps = Timestamps(failed, dropped)

    def batch(self, source: SourceNode, raw: PartitionBatch) -> Batch:
        """The records that can be decoded and have a time, with that time."""
        try:
            keys = source.key.decode_column(raw.keys)
            values = source.value.decode_column(raw.values)
        except ColumnError:
            return self._one_by_one(source, raw)
        return self._timestamps.timed(
            source,
            Batch(raw.topic, raw.partition, raw.offsets, keys, values, raw.timestamps, raw.headers),
        )

    def _one_by_one(self, source: SourceNode, raw: PartitionBatch) -> Batch:
        """The slow way through a batch with a record that cannot be decoded."""
        good: list[int] = []
        keys: list[Any] = []
        values: list[Any] = []
        for i, (key, value) in enumerate(zip(raw.keys, raw.values, strict=True)):
            try:
                keys += source.key.decode_column([key])
                values += source.value.decode_column([value])
                good.append(i)
            except ColumnError as failed:
                del keys[len(values) :]
                where = TopicPartition(raw.topic, raw.partition)
                self._failed("undecodable record", where, raw.offsets[i], source.name, failed.cause)
        return self._timestamps.timed(
            source,
            Batch(
                raw.topic,
                raw.partition,
                [raw.offsets[i] for i in good],
                keys,
                values,
                [raw.timestamps[i] for i in good],
                None if raw.headers is None else [raw.headers[i] for i in good],
            ),
        )
