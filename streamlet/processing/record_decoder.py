"""Raw batches in, decoded ones out: keys and values by the column, times by the extractor.

A record whose own time is negative fails: a producer of an old version wrote it without one. What
an extractor makes negative is left out, as in Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import attrs

from streamlet.batch import Batch
from streamlet.errors import SerdeError, UnreachableRegistryError
from streamlet.kafka.ports import PartitionBatch
from streamlet.lazy_results import refuse_promise
from streamlet.logs import get_logger
from streamlet.processing.edges.plan import TaskEdges
from streamlet.processing.policy import FailedRecord, RecordFailure
from streamlet.processing.record_failures import RecordFailures
from streamlet.processing.unread_values import value_of
from streamlet.serdes import ColumnError, Serde
from streamlet.serdes.copies import own_column
from streamlet.topology.nodes import SourceNode
from streamlet.types import LATEST_MS, TopicPartition
from streamlet.user_code import plain_hint, shown

#: The headers with schema ids, as Confluent's serializers name them.
_HEADERS = {"key": "__key_schema_id", "value": "__value_schema_id"}


def with_ids(serde: Serde[Any], raw: PartitionBatch, role: str) -> list[bytes | None]:
    """The keys or the values of a batch; for a serde with a registry those of headers in front."""
    column = raw.keys if role == "key" else raw.values
    if serde.for_topic is None or raw.headers is None:
        return column
    name, out = _HEADERS[role], list(column)
    for row, headers in enumerate(raw.headers):
        one = out[row]
        if headers is None or one is None:
            continue
        for header, content in headers:
            if header == name and content is not None:
                out[row] = content + one
    return out


log = get_logger(__name__)

_NO_TIME = (
    "it was written without a time, or before 1970: timestamp= where the topic is read can give "
    "it one, or a negative one to leave it out"
)
_TOO_LATE = (
    f"times go up to {LATEST_MS}; perhaps it is in other units than ms: timestamp= where the topic "
    "is read can give it another, or a negative one to leave it out"
)


#: Seconds since the epoch of the years 2001 to 2033; as ms they are days of January 1970.
_SECONDS = 10**9, 2 * 10**9


def _with_highest(function: Callable[..., Any], columns: Any, highest: int) -> Iterator[int]:
    """The results of an extractor that is given the highest of those before."""
    for key, value, time in zip(*columns, strict=True):
        found = _milliseconds(function(key, value, time, highest))
        highest = max(highest, found)
        yield found


def _milliseconds(time: object) -> int:
    """The result of a user's extractor: a time, or a negative one to leave the record out."""
    if type(time) is int and time <= LATEST_MS:
        return max(time, -1)
    refuse_promise(time)
    expected = f"expected ms since the epoch as an int up to {LATEST_MS}"
    raise TypeError(f"{expected}, got {shown(time)}{plain_hint(time)}")


def _none_of(raw: PartitionBatch) -> Batch:
    """A batch of a partition without a record."""
    return Batch(raw.topic, raw.partition, [], [], [], [], None)


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


@attrs.define(eq=False)
class RecordDecoder:
    """Decodes the batches of a task.

    Args:
        failures: applies the error policy to records that cannot be decoded.
        dropped: counts records left out by rule.
        unread: serdes of the values that nothing looks at, by the names of their sources.
        own_topics: those that streamlet writes, whose times are those of their sources.
    """

    _failures: RecordFailures
    _dropped: Callable[[str, int], None]
    _unread: Mapping[str, Serde[Any]] = attrs.field(factory=dict)
    _own_topics: Collection[str] = ()
    #: The highest time of each partition so far.
    _highest: dict[TopicPartition, int] = attrs.field(factory=dict, init=False)
    #: Sources whose times are probably in seconds.
    _doubted: set[str] = attrs.field(factory=set, init=False)
    #: The rest of the batch decoded last; None: it was decoded whole.
    undecoded: Undecoded | None = attrs.field(default=None, init=False)

    def next(
        self, source: SourceNode, raw: PartitionBatch | Undecoded, edges: TaskEdges | None
    ) -> tuple[Batch, int]:
        """Decode the next part of a batch; the part, and the offset up to which it goes.

        ``undecoded`` is the rest then, or None. ``edges`` filter the input of their task.
        """
        attempt = 1
        if isinstance(raw, Undecoded):
            attempt, received, raw = raw.attempt, raw.received, raw.raw
        else:
            received = raw.offsets[-1] + 1 if len(raw) else -1
            if edges is not None:
                raw, received = edges.take(raw)
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
        if raw.unreadable is not None:
            return self._one_by_one(source, raw, attempt)
        try:
            keys = source.key.decode_column(with_ids(source.key, raw, "key"))
            serde = self._unread.get(source.name, source.value)
            values = serde.decode_column(with_ids(serde, raw, "value"))
        except ColumnError:
            return self._one_by_one(source, raw, attempt)
        except UnreachableRegistryError as error:
            self.undecoded = Undecoded(raw, attempt, self._failures.away(error))
            return self._timed(source, _none_of(raw))
        return self._timed(
            source,
            Batch(raw.topic, raw.partition, raw.offsets, keys, values, raw.timestamps, raw.headers),
            raw.span,
        )

    def _one_by_one(self, source: SourceNode, raw: PartitionBatch, attempt: int) -> Batch:
        """The slow way through a batch with a record that cannot be read or decoded."""
        good: list[bool] = []
        keys: list[Any] = []
        values: list[Any] = []
        unreadable = raw.unreadable
        columns = with_ids(source.key, raw, "key"), with_ids(source.value, raw, "value")
        for i, (key, value) in enumerate(zip(*columns, strict=True)):
            try:
                if unreadable and raw.offsets[i] in unreadable:
                    raise SerdeError(f"headers: {unreadable[raw.offsets[i]]}")
                keys += source.key.decode_column([key])
                values += source.value.decode_column([value])
                good.append(True)
            except UnreachableRegistryError as error:
                del keys[len(values) :]
                tries = 1 if i else attempt
                self.undecoded = Undecoded(raw.slice(i), tries, self._failures.away(error))
                break
            except SerdeError as failed:
                del keys[len(values) :]
                good.append(False)
                tries = 1 if i else attempt
                cause = failed.cause if isinstance(failed, ColumnError) else failed
                pause_ms = self._failed(source, raw, i, tries, cause)
                if pause_ms is not None:
                    self.undecoded = Undecoded(raw.slice(i), tries + 1, pause_ms)
                    break
        raw = raw.select(good)
        where, offsets = (raw.topic, raw.partition), raw.offsets
        batch = Batch(*where, offsets, keys, values, raw.timestamps, raw.headers)
        return self._timed(source, batch)

    def _failed(
        self, source: SourceNode, raw: PartitionBatch, index: int, attempt: int, cause: Exception
    ) -> int | None:
        """The pause before a record is decoded again, ms; None: it is left out."""
        context = self._failures.context("deserialization", source.name, raw, index, attempt)
        record = FailedRecord(raw.keys[index], raw.values[index])
        return self._failures.apply(RecordFailure(context, record, "undecodable record", cause))

    def _timed(
        self, source: SourceNode, batch: Batch, span: tuple[int, int] | None = None
    ) -> Batch:
        """The records that have a time, with it; ``span`` as a ``PartitionBatch`` has it.

        Raises:
            ProcessingError: a record has none, under the policy ``fail``.
        """
        if source.timestamp is not None:
            batch = self._extracted(source, batch)
        else:
            if batch.timestamps and batch.topic not in self._own_topics:
                whose = f"records of {batch.topic} have times such as"
                self._doubt(source, whose, batch.timestamps[0])
            if span is not None and span[0] >= 0 and span[1] <= LATEST_MS:
                return batch
        times = batch.timestamps
        if not times or (min(times) >= 0 and max(times) <= LATEST_MS):
            return batch
        taken = [0 <= time <= LATEST_MS for time in times]
        if source.timestamp is None:
            for index, time in enumerate(times):
                if not taken[index]:
                    why, reason = (_NO_TIME, "negative") if time < 0 else (_TOO_LATE, "too late a")
                    cause = ValueError(f"{time} ms; {why}")
                    self._no_time(source, batch, index, f"{reason} timestamp", cause)
        else:
            self._dropped(source.name, len(taken) - sum(taken))
        return batch.select(taken)

    def _doubt(self, source: SourceNode, whose: str, time: int) -> None:
        """Warn once of a time that is probably in seconds."""
        if _SECONDS[0] <= time < _SECONDS[1] and source.name not in self._doubted:
            self._doubted.add(source.name)
            log.warning(
                "%s %d, which is in January 1970: times are in ms, and this looks like seconds",
                *(whose, time),
            )

    def _extracted(self, source: SourceNode, batch: Batch) -> Batch:
        """The batch with the extractor's times; a record that it fails on is left out."""
        where = TopicPartition(batch.topic, batch.partition)
        times: list[int] = []
        while len(times) < len(batch):
            try:
                times.extend(self._times(source, batch, times))
                if len(times) < len(batch):  # one from inside ends a map without a sound
                    raise RuntimeError("the function raised StopIteration")
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                bad = len(times)
                self._no_time(source, batch, bad, "no timestamp", error)
                batch = batch.select([i != bad for i in range(len(batch))])
        if times:
            self._doubt(source, f"timestamp= of {source.name} gives", times[0])
        if source.partition_time:
            self._highest[where] = max([self._highest.get(where, -1), *times])
        return attrs.evolve(batch, timestamps=times)

    def _times(self, source: SourceNode, batch: Batch, done: list[int]) -> Iterator[int]:
        """The timestamps of the records that are not decoded yet."""
        function: Callable[..., Any] | None = source.timestamp
        assert function is not None
        at = len(done)
        # A table keeps the record as it came, whatever the function makes of it.
        pairs = map(own_column, (batch.keys[at:], batch.values[at:]))
        columns = *pairs, batch.timestamps[at:]
        if not source.partition_time:
            return map(_milliseconds, map(function, *columns))
        where = TopicPartition(batch.topic, batch.partition)
        return _with_highest(function, columns, max([self._highest.get(where, -1), *done]))

    def _no_time(
        self, source: SourceNode, batch: Batch, index: int, reason: str, cause: BaseException
    ) -> None:
        """Apply the policy to a record without a valid time, which is not tried again."""
        context = self._failures.context("deserialization", source.name, batch, index, 1)
        value = value_of(batch.values[index], source, self._unread)
        record = FailedRecord(batch.keys[index], value)
        self._failures.apply(RecordFailure(context, record, reason, cause, final=True))
