"""The timestamps of a task's input records: their own, or those that an extractor computes.

A record whose own time is negative fails: a producer of an old version wrote it without one. What
an extractor makes negative is left out, as in Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import attrs

from streamlet.batch import Batch
from streamlet.topology.nodes import SourceNode
from streamlet.types import TopicPartition

#: Applies the error policy to a record of a batch, by its index: with the reason and the cause.
Failed: TypeAlias = Callable[[SourceNode, Batch, int, str, BaseException], None]
#: Counts records left out by rule: operator, number.
Dropped: TypeAlias = Callable[[str, int], None]

#: Kafka keeps times as signed 64-bit numbers.
_TIME_BITS = 63

_NO_TIME = (
    "it was written without a time, or before 1970: timestamp= where the topic is read can give "
    "it one, or a negative one to leave it out"
)


@attrs.define
class Timestamps:
    """Gives batches their timestamps; knows the highest one of each partition so far.

    Args:
        failed: called for each record without a valid time.
        dropped: called for records that an extractor gives a negative time.
    """

    _failed: Failed
    _dropped: Dropped
    _highest: dict[TopicPartition, int] = attrs.field(factory=dict, init=False)

    def timed(self, source: SourceNode, batch: Batch) -> Batch:
        """The records that have a time, with it.

        Raises:
            ProcessingError: a record has none, under the policy ``fail``.
        """
        if source.timestamp is not None:
            batch = self._extracted(source, batch)
        if not len(batch) or min(batch.timestamps) >= 0:
            return batch
        if source.timestamp is None:
            for index, time in enumerate(batch.timestamps):
                if time < 0:
                    cause = ValueError(f"{time} ms; {_NO_TIME}")
                    self._failed(source, batch, index, "negative timestamp", cause)
        else:
            self._dropped(source.name, sum(time < 0 for time in batch.timestamps))
        return batch.select([time >= 0 for time in batch.timestamps])

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
                self._failed(source, batch, bad, "no timestamp", error)
                batch = batch.select([i != bad for i in range(len(batch))])
        if source.partition_time:
            self._highest[where] = max([self._highest.get(where, -1), *times])
        return attrs.evolve(batch, timestamps=times)

    def _times(self, source: SourceNode, batch: Batch, done: list[int]) -> Iterator[int]:
        """The times of the records behind those that are done."""
        function: Callable[..., Any] | None = source.timestamp
        assert function is not None
        at = len(done)
        columns = batch.keys[at:], batch.values[at:], batch.timestamps[at:]
        if not source.partition_time:
            return map(_milliseconds, map(function, *columns))
        where = TopicPartition(batch.topic, batch.partition)
        return _with_highest(function, columns, max([self._highest.get(where, -1), *done]))


def _with_highest(function: Callable[..., Any], columns: Any, highest: int) -> Iterator[int]:
    """The results of an extractor that is given the highest of those before."""
    for key, value, time in zip(*columns, strict=True):
        found = _milliseconds(function(key, value, time, highest))
        highest = max(highest, found)
        yield found


def _milliseconds(time: object) -> int:
    """The result of a user's extractor, if it is a time that Kafka can keep."""
    if type(time) is not int or time.bit_length() > _TIME_BITS:
        raise TypeError(f"expected ms since the epoch as an int, got {time!r}")
    return time
