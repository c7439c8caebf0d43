"""Records that tasks write on Spark and whose times their topics refuse: as natively.

A sink on Spark gets records without their origins, so they are looked at where tasks give them.
Java's sink writes the time of the writing, which every topic takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamlet.clock import SystemClock
from streamlet.errors import RecordRefusedError
from streamlet.kafka.limits import wrong_time
from streamlet.kafka.ports import OutgoingRecords
from streamlet.logs import get_logger
from streamlet.processing.outputs import Output
from streamlet.processing.policy import FAIL, ErrorPolicy, Retry
from streamlet.processing.record_collector import RecordCollector
from streamlet.processing.task import Task
from streamlet.spark.kafka.written_topics import WrittenTopics

log = get_logger(__name__)


class RefusedTimes:
    """Applies the error policy to outputs of tasks whose times their topics refuse.

    Args:
        written: the limits of topics.
        inside: topics that exist only in the query, which take every time.
        policy: what becomes of a record.
    """

    def __init__(
        self,
        written: WrittenTopics,
        inside: frozenset[str],
        policy: ErrorPolicy,
    ) -> None:
        self._limits, self._inside, self._policy = written.learned(), inside, policy
        self._clock = SystemClock()  # its time stands for the broker's

    def without(self, outputs: Sequence[Output], task: Task) -> Sequence[Output]:
        """The outputs that their topics take, and dead letters for others.

        Raises:
            ProcessingError: a time is refused, under ``fail``.
        """
        now_ms = self._clock.wall_ms()
        if not any(self.refused(one.topic, one.timestamps, now_ms) for one in outputs):
            return outputs
        taken = _Taken(self, now_ms)
        collector = RecordCollector(taken, self._policy, task.application, task.counters)
        for output in outputs:
            collector.send_now(output, task.task)
        return taken.outputs

    def of_aggregates(self, output: Output) -> Output:
        """An output of Spark SQL's aggregations without what its topic refuses.

        Such a result stems from many records: it has no topic, partition and offset to be named.

        Raises:
            RecordRefusedError: a time is refused, under ``fail``.
        """
        now_ms, times = self._clock.wall_ms(), output.timestamps
        refused = self.refused(output.topic, times, now_ms)
        if refused is None:
            return output
        rule = self._policy.production
        if (rule.then if isinstance(rule, Retry) else rule) == FAIL:
            raise refused
        limit = self._limits.of(output.topic).times
        assert limit is not None, output.topic
        at = [n for n, time in enumerate(times) if limit.first_refused([time], now_ms) is None]
        log.warning("%d results are left out: %s", len(times) - len(at), refused)
        keys, values = ([column[n] for n in at] for column in (output.keys, output.values))
        return Output(output.topic, keys, values, [times[n] for n in at])

    def refused(self, topic: str, times: Sequence[int], now_ms: int) -> RecordRefusedError | None:
        """The error for the first refused time; None if the topic takes all."""
        limit = None if topic in self._inside else self._limits.of(topic).times
        return None if limit is None else wrong_time(topic, limit, times, now_ms)


class _Taken:
    """A ``RecordSink`` that keeps what the topics take."""

    def __init__(self, times: RefusedTimes, now_ms: int) -> None:
        self._times, self._now_ms = times, now_ms
        self.outputs: list[Output] = []
        self.waited_ms = 0

    def send(self, records: OutgoingRecords) -> None:
        """Keep the records before the first one of a time that is refused, which it raises."""
        keys, times, where = list(records.keys), records.timestamps, records.partitions
        times = [self._now_ms] * len(keys) if times is None else list(times)
        where = [where] * len(keys) if isinstance(where, int) else where
        heads = None if records.headers is None else list(records.headers)
        columns = keys, list(records.values), times, None if where is None else list(where), heads
        whole = Output(records.topic, *columns)
        refused = self._times.refused(records.topic, times, self._now_ms)
        taken = whole if refused is None else whole.slice(0, refused.index)
        if taken.keys:
            self.outputs.append(taken)
        if refused is not None:
            raise refused

    def has_room(self, *, hurried: bool) -> bool:
        """True: it waits for nothing."""
        return True

    def flush(self, timeout_ms: int) -> None:
        """Do nothing: Spark's sink delivers."""

    def push(self) -> None:
        """Do nothing."""

    def reset(self) -> None:
        """Do nothing."""

    close = reset
