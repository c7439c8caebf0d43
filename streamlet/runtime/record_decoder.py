"""Raw batches in, decoded ones out: keys and values by the column, times by the extractor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from streamlet.batch import Batch
from streamlet.kafka.ports import PartitionBatch
from streamlet.runtime.edges.task_edges import TaskEdges
from streamlet.runtime.error_context import FailedRecord, RecordFailure
from streamlet.runtime.record_failures import RecordFailures
from streamlet.runtime.timestamps import Timestamps
from streamlet.serdes import ColumnError
from streamlet.topology.nodes import SourceNode


@attrs.frozen
class Undecoded:
    """The rest of a batch, from a record on that is to be decoded again after a pause.

    ``attempt`` is the number of that try, 2 after the first. ``received`` is the offset behind the
    whole batch as it was read, of which the filter of an edge may have left out the last records.
    """

    raw: PartitionBatch
    attempt: int
    pause_ms: int
    received: int = -1


class RecordDecoder:
    """Decodes the batches of a task.

    Args:
        failures: applies the error policy to records that cannot be decoded.
        dropped: counts records left out by rule.
    """

    def __init__(self, failures: RecordFailures, dropped: Callable[[str, int], None]) -> None:
        self._failures = failures
        self._timestamps = Timestamps(self._no_time, dropped)
        #: The rest of the batch decoded last; None: it was decoded whole.
        self.undecoded: Undecoded | None = None

    def next(
        self, source: SourceNode, raw: PartitionBatch | Undecoded, edges: TaskEdges | None
    ) -> tuple[Batch, int]:
        """Decode a batch, and the offset up to which it was.

        ``undecoded`` is the rest then, or None. ``edges`` filter the input of their task.
        """
        attempt = 1
        if isinstance(raw, Undecoded):
            attempt, received, raw = raw.attempt, raw.received, raw.raw
        else:
            received = raw.offsets[-1] + 1
            raw = raw if edges is None else edges.take(raw)
            self._failures.keep(raw)
        batch = self.batch(source, raw, attempt)
        if self.undecoded is not None:
            self.undecoded = attrs.evolve(self.undecoded, received=received)
            received = self.undecoded.raw.offsets[0]
        return batch, received

    def batch(self, source: SourceNode, raw: PartitionBatch, attempt: int = 1) -> Batch:
        """The records that can be decoded and have a time, with that time.

        ``attempt`` is the number of tries of the first record, this one included. The batch ends
        before a record that is to be tried again, with which ``undecoded`` begins then.
        """
        self.undecoded = None
        try:
            keys = source.key.decode_column(raw.keys)
            values = source.value.decode_column(raw.values)
        except ColumnError:
            return self._one_by_one(source, raw, attempt)
        return self._timestamps.timed(
            source,
            Batch(raw.topic, raw.partition, raw.offsets, keys, values, raw.timestamps, raw.headers),
        )

    def _one_by_one(self, source: SourceNode, raw: PartitionBatch, attempt: int) -> Batch:
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
                tries = 1 if i else attempt
                pause_ms = self._failed(source, raw, i, tries, failed.cause)
                if pause_ms is not None:
                    self.undecoded = Undecoded(cut(raw, i), tries + 1, pause_ms)
                    break
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

    def _failed(
        self, source: SourceNode, raw: PartitionBatch, index: int, attempt: int, cause: Exception
    ) -> int | None:
        """The pause before a record is decoded again, ms; None: it is left out."""
        context = self._failures.context("deserialization", source.name, raw, index, attempt)
        record = FailedRecord(raw.keys[index], raw.values[index])
        return self._failures.apply(RecordFailure(context, record, "undecodable record", cause))

    def _no_time(
        self, source: SourceNode, batch: Batch, index: int, reason: str, cause: BaseException
    ) -> None:
        """Apply the policy to a record without a valid time, which is not tried again."""
        context = self._failures.context("deserialization", source.name, batch, index, 1)
        record = FailedRecord(batch.keys[index], batch.values[index])
        self._failures.apply(RecordFailure(context, record, reason, cause, final=True))


def cut(raw: PartitionBatch, start: int, stop: int | None = None) -> PartitionBatch:
    """The records of a batch from an index on, up to another one (exclusive) or the end."""
    some = slice(start, stop)
    return attrs.evolve(
        raw,
        offsets=raw.offsets[some],
        keys=raw.keys[some],
        values=raw.values[some],
        timestamps=raw.timestamps[some],
        headers=None if raw.headers is None else raw.headers[some],
    )
