"""The operator of ``process`` and ``process_values``: calls a user's processor with each record.

What it forwards is collected in columns and goes on as a batch. A batch is cut where stream time
calls a punctuator, so what that sends comes where it would come record by record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.processors.forwarded import Forwarding
from streamlet.dsl.processors.processor import ProcessorContext
from streamlet.dsl.processors.record import Record, records_of
from streamlet.dsl.processors.store_expiry import RecordTimes
from streamlet.errors import ProcessingError, StateError, StreamletError, error_text
from streamlet.lazy_results import Results, refuse_promise
from streamlet.logs import get_logger
from streamlet.topology.operator import TaskContext

log = get_logger(__name__)

#: Forwarded records that are sent before other tasks may go on.
PART = 1_000


class Process:
    """Calls one processor of a task.

    Args:
        name: of the node.
        task: the services of the task.
        processor: an object with ``process(record)``, and perhaps ``init`` and ``close``.
        context: what ``init`` is given.
        forwarding: takes what is forwarded.
        result: makes a record of what ``process`` returned or yielded.
        times: moves the time of its stores on, whose entries expire.
    """

    #: Calls of punctuators.
    punctuations = 0

    def __init__(
        self,
        name: str,
        task: TaskContext,
        processor: Any,
        context: ProcessorContext[Any, Any],
        forwarding: Forwarding,
        result: Callable[[Any, Record[Any, Any] | None, int], Record[Any, Any]],
        times: RecordTimes,
    ) -> None:
        self._name, self._task, self._processor = name, task, processor
        #: The user's own, for messages.
        self.function = getattr(processor, "function", processor.process)
        self._context, self._forwarding, self._result = context, forwarding, result
        self._times = times
        self._by_stream = context._punctuators["stream_time"]
        self._by_clock = context._punctuators["wall_clock"]
        #: Offset of the last record of the present batch of the source that came here.
        self._seen = 0

    def begin(self) -> None:
        """Start the processor.

        Raises:
            StreamletError: its ``init`` failed.
        """
        init = getattr(self._processor, "init", None)
        if init is None:
            return
        try:
            refuse_promise(init(self._context))
        except (StreamletError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise StreamletError(f"{self._name}: init() failed: {error_text(error)}") from error

    def end(self) -> None:
        """Close the processor; a failure is logged, for nothing can be done about it."""
        close = getattr(self._processor, "close", None)
        if close is None:
            return
        try:
            refuse_promise(close())
        except KeyboardInterrupt:
            raise
        except BaseException:  # a user's function may raise anything, or exit
            log.exception("%s: close() failed", self._name)

    # Records.

    def process_in_parts(self, batch: Batch) -> Iterator[Batch]:
        """The records that the processor forwards, in parts.

        Raises:
            OperatorFailed: it failed on a record. What it had put into stores stays there.
        """
        self._context._metadata = batch.topic, batch.partition
        start = 0
        while start < len(batch):
            yield from self._reached(batch.offsets[start], batch)
            start = self._records(batch, start, self._run_end(batch, start))
            if len(self._forwarding) >= PART:
                yield self._forwarding.take(batch)
        yield self._forwarding.take(batch)

    def _run_end(self, batch: Batch, start: int) -> int:
        """The index behind the last record before the next punctuation by stream time."""
        due = self._by_stream.due_ms
        if due is None:
            return len(batch)
        reached = self._task.stream_time_reached(due, batch.offsets[start])
        if reached is None:
            return len(batch)
        return max(start + 1, bisect_right(batch.offsets, reached[0], lo=start))

    def _records(self, batch: Batch, start: int, stop: int) -> int:
        """Call the processor with records; the index behind the last of them.

        It stops early where much was forwarded, or other punctuators are due than before.
        """
        forwarding, by_stream = self._forwarding, self._by_stream
        process = self._times.noting(self._processor.process)
        number, offsets, own_key = by_stream.number, batch.offsets, forwarding.own_key
        index, before = start, len(forwarding)
        try:
            for record in records_of(batch.slice(start, stop)):
                before = len(forwarding)
                forwarding.record, forwarding.offset = record, offsets[index]
                found = process(record if own_key is None else forwarding.given(record))
                if found is not None:
                    for one in results_of(found):
                        forwarding.forward(self._result(one, record, record.timestamp))
                index += 1
                if len(forwarding) >= PART or by_stream.number != number:
                    break
        except (StateError, KeyboardInterrupt):
            raise
        except BaseException as error:  # a user function may raise anything, or exit
            forwarding.cut(before)
            raise OperatorFailed(index, forwarding.take(batch), again=True) from error
        finally:
            forwarding.record = forwarding.offset = None
        self._seen = offsets[index - 1]
        return index

    # Punctuators.

    def by_stream_time(self, at: Batch) -> Iterator[Batch]:
        """Call what stream time has come to with the records that were processed."""
        yield from self._reached(None, at)
        self._seen = 0
        yield self._forwarding.take(at)

    def _reached(self, before: int | None, at: Batch) -> Iterator[Batch]:
        """Call what stream time comes to with the records before an offset."""
        offset = self._seen
        while (due := self._by_stream.due_ms) is not None:
            reached = self._task.stream_time_reached(due, offset)
            if reached is None or (before is not None and reached[0] >= before):
                return
            offset, now = reached
            yield from self._call(self._by_stream, now, offset, at)

    @property
    def clock_due_ms(self) -> int | None:
        """The time at which a punctuator is due by the clock, ms since the epoch."""
        return self._by_clock.due_ms

    def by_clock(self, at: Batch) -> Iterator[Batch]:
        """Run the callbacks that are due by the clock."""
        now = self._task.wall_ms()
        while (due := self._by_clock.due_ms) is not None and due <= now:
            yield from self._call(self._by_clock, now, at.offsets[0], at)
        yield self._forwarding.take(at)

    def _call(self, punctuators: Any, now: int, offset: int, at: Batch) -> Iterator[Batch]:
        """Call the first punctuator that is due."""
        taken = punctuators.take(now)
        assert taken is not None
        due, called = taken
        self.punctuations += 1
        forwarding, before = self._forwarding, len(self._forwarding)
        forwarding.offset = offset
        try:
            for one in Results(_called(called.function, now)):
                forwarding.forward(self._result(one, None, now))
                if len(forwarding) >= PART:
                    yield forwarding.take(at)
                    before, forwarding.offset = 0, offset
        except (StateError, KeyboardInterrupt, ProcessingError, GeneratorExit):
            raise
        except BaseException as error:
            forwarding.cut(before)
            self._task.failed(self._name, at, error)
        finally:
            forwarding.offset = None
            punctuators.again(due, now, called)


def _called(function: Callable[[int], Any], now: int) -> Iterator[Any]:
    """The results of a punctuator."""
    yield from results_of(function(now))


def results_of(found: Any) -> Iterable[Any]:
    """Results of a function: none for None, all that it yields, or one."""
    if isinstance(found, Iterator):
        return found
    return () if found is None else (found,)
