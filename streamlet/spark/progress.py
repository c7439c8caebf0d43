"""The progress of a query, per micro-batch: what was read, how long, what is left."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import attrs

from streamlet.spark.checkpoint_lock import lost
from streamlet.spark.failures import failure_of
from streamlet.spark.kafka.held import held_in
from streamlet.spark.rows.task_reports import TaskReport, reports_in
from streamlet.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


#: Asks Kafka for the ends of partitions.
Ends: TypeAlias = Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]]

#: How the name begins of an observed metric with the number of records read, as ``records``. The
#: application's stands behind it: a query may have several.
OBSERVED = "streamlet:"


@attrs.frozen
class BatchProgress:
    """The work of a micro-batch, and the time that it took.

    ``took_ms`` is all of it. ``lag`` is records that were in Kafka and not in this batch or one
    before it; 0 where neither the source nor ``follow`` knows. ``state_bytes`` is what the state
    takes in Spark's stores, on disk and in memory, as they say it.
    """

    batch: int
    records: int
    took_ms: int
    lag: int
    state_bytes: int
    #: The tasks that had records.
    tasks: tuple[TaskReport, ...] = ()
    #: ``lag`` by topic and partition.
    lags: Mapping[TopicPartition, int] = attrs.field(factory=dict)

    @property
    def records_per_second(self) -> float:
        """While the batch lasted."""
        return self.records * 1000 / self.took_ms if self.took_ms else 0.0

    @classmethod
    def of(cls, progress: Mapping[str, Any], ends: Ends | None = None) -> Self:
        """Read what Spark reports of a batch.

        Args:
            progress: the report.
            ends: the ends of partitions now. Spark does not ask for them in the first batch that a
                checkpoint goes on with, where it was planned before the restart.
        """
        lags = {where: lag for source in progress["sources"] for where, lag in _lags(source, ends)}
        return cls(
            batch=progress["batchId"],
            records=_records(progress),
            took_ms=progress["durationMs"].get("triggerExecution", 0),
            lag=sum(lags.values()),
            state_bytes=sum(map(_state_bytes, progress["stateOperators"])),
            tasks=reports_in(progress),
            lags=lags,
        )


def batches(
    query: StreamingQuery, after: int = -1, ends: Ends | None = None
) -> list[BatchProgress]:
    """The batches behind this one that Spark still remembers (about a hundred), oldest first.

    Spark reports now and then that there was nothing to do; those are no batches. All that it
    remembers is asked for only if several may be new: each report is text of two languages.
    """
    if (progress := query.lastProgress) is None:
        return []
    last = json.loads(progress.json)
    newest = last["batchId"] if _is_batch(last) else last["batchId"] - 1
    if newest <= after:
        return []
    if _is_batch(last) and newest == after + 1:
        return [BatchProgress.of(last, ends)]
    reports = [json.loads(one.json) for one in query.recentProgress]
    found = [BatchProgress.of(one, ends) for one in reports if _is_batch(one)]
    return [one for one in found if one.batch > after]


@attrs.frozen
class HeldBack:
    """The partitions that open transactions hold back, as of a report.

    ``offsets`` are those from which on; what is behind them is no lag. ``at_ms`` is the time of the
    report, ms since the epoch.
    """

    offsets: Mapping[TopicPartition, int]
    at_ms: int

    @classmethod
    def of(cls, progress: Mapping[str, Any]) -> Self:
        """Read what Spark reports, with or without a batch."""
        reports = (_parsed(source.get("latestOffset")) for source in progress["sources"])
        found = {where: offset for one in reports for where, offset in held_in(one).items()}
        at = datetime.fromisoformat(progress["timestamp"])
        return cls(found, int(at.timestamp() * 1000))


def _is_batch(report: Mapping[str, Any]) -> bool:
    """False for a report without a batch, which has the next batch's number."""
    return "addBatch" in report["durationMs"]


def follow(
    query: StreamingQuery,
    on_batch: Callable[[BatchProgress], None] = lambda _: None,
    *,
    keep_going: Callable[[], bool] = lambda: True,
    every_s: float = 0.5,
    ends: Ends | None = None,
    on_held: Callable[[HeldBack], None] | None = None,
) -> None:
    """Wait for a query's end, telling of each batch.

    Args:
        query: one that runs.
        on_batch: called once for each batch, in order, soon after it.
        keep_going: asked between looks at the query; when it says no, the micro-batch under way is
            finished and the query stopped. It is asked meanwhile too; what it raises ends this.
        every_s: how often Spark is asked, seconds.
        ends: the ends of partitions in Kafka, for the lag of the first batch after a restart.
        on_held: called with what open transactions hold back, at each look at the query.

    Raises:
        SparkFailedError: the query failed; the message has the reason, such as which record, and
            Spark's own is chained.
        StateLockedError: another process took over the query's checkpoint.
    """
    from pyspark.errors import StreamingQueryException

    shown, ended, last = -1, False, False
    while not ended:
        try:
            # PySpark takes fractions too, whatever it says.
            ended = bool(query.awaitTermination(every_s))  # type: ignore[arg-type]
        except StreamingQueryException as error:
            raise failure_of(error) from error
        new = batches(query, shown, ends)
        if last and not ended and (new or not query.status["isTriggerActive"]):
            query.stop()  # what has begun behind that batch counts for nothing
            ended = True
        for one in new:
            shown = one.batch
            on_batch(one)
        if on_held is not None and (newest := query.lastProgress) is not None:
            on_held(HeldBack.of(json.loads(newest.json)))
        if not keep_going() and not last:
            last, every_s = True, _LAST_LOOKS_S
    if taken := lost(query):
        raise taken


#: How often Spark is asked while a last batch is awaited, seconds: the next one begins soon.
_LAST_LOOKS_S = 0.05


def _records(progress: Mapping[str, Any]) -> int:
    """Rows of the sources, or what our own source says of its rows, which are many records each."""
    metrics = progress.get("observedMetrics", {}).items()
    observed = [metric["records"] or 0 for name, metric in metrics if name.startswith(OBSERVED)]
    return int(sum(observed) if observed else progress["numInputRows"])


def _lags(source: Mapping[str, Any], ends: Ends | None) -> Iterator[tuple[TopicPartition, int]]:
    end, latest = (_offsets(source.get(name)) for name in ("endOffset", "latestOffset"))
    if end and not latest and ends is not None:
        latest = dict(ends(sorted(end)))
    for where, offset in latest.items():
        yield where, max(0, offset - end.get(where, offset))


def _parsed(offsets: Any) -> dict[str, Any]:
    """The offsets that a source reported as JSON; empty if they are no JSON object."""
    found = json.loads(offsets) if isinstance(offsets, str) and offsets.startswith("{") else offsets
    return found if isinstance(found, dict) else {}


def _offsets(offsets: Any) -> dict[TopicPartition, int]:
    """Kafka's offsets by topic and partition; nothing for any other source."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in _parsed(offsets).items()
        if isinstance(partitions, dict)
        for partition, offset in partitions.items()
        if isinstance(offset, int) and partition.isdigit()
    }


def _state_bytes(operator: Mapping[str, Any]) -> int:
    files = operator.get("customMetrics", {}).get("rocksdbSstFileSize", 0)
    return int(operator.get("memoryUsedBytes", 0)) + int(files)
