"""The calls that the async operators of a task have made, and the way of their results.

A record that comes to such an operator waits here for its call. Meanwhile the task goes on with
what comes next, until so many records wait. Others wait for more records, to be processed together
(``processing.gathering``). A commit covers the task only when none waits: it has the task begin
nothing new until all calls have ended and their results have gone on. So stores before and behind
the operator are exactly as of the positions. A task that must stop waits a while for its calls, and
else stops as of its last commit.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby, repeat, takewhile
from typing import Any

from streamlet.batch import Batch, OperatorFailed
from streamlet.clock import Clock, SystemClock
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.call_pool import Call, CallPool
from streamlet.processing.gathering import GatheredRecords, ProcessRuns
from streamlet.processing.record_decoder import Undecoded
from streamlet.processing.record_failures import RecordFailures
from streamlet.serdes.copies import own
from streamlet.topology.nodes import ProcessorNode
from streamlet.topology.operator import CallingOperator, GatheringOperator, TaskContext
from streamlet.types import TopicPartition

#: How long a task that is to stop waits for its calls, from when it was told to begin no others.
SETTLE_MS = 2_000
#: So many times as long as calls took to end for a commit, no other commit waits for them.
APART = 4

Step = Callable[[Batch], Iterator[None]]


class OperatorCalls:
    """The records that wait at one operator.

    Args:
        node: of the operator.
        operator: what is called, and how.
        forward: the step behind the node.
        results: the error policy.
        news: set when calls have ended.
    """

    def __init__(
        self,
        node: ProcessorNode,
        operator: CallingOperator,
        forward: Step,
        results: RecordFailures,
        news: threading.Event,
    ) -> None:
        self._node, self._operator, self._forward = node, operator, forward
        self.name = node.name
        self._results = results
        self.concurrency = operator.concurrency
        #: Where the caller waits for all results, they go on in an order that is always the same.
        self._in_order = operator.in_order or results.blocks
        self._pool = CallPool(operator.call, operator.concurrency, operator.timeout_ms, news)
        #: In the order of the records; those whose results are being sent are among them.
        self.line: dict[Call, None] = {}
        self.close = self._pool.close

    @property
    def in_flight(self) -> int:
        """The number of records that wait."""
        return len(self.line)

    @property
    def places(self) -> Iterable[tuple[TopicPartition, int]]:
        """The partitions and offsets of the records that wait."""
        return ((TopicPartition(one.topic, one.partition), one.offset) for one in self.line)

    @property
    def full(self) -> bool:
        """True if enough records wait to keep all calls busy until the task looks again."""
        return self.in_flight >= 2 * self.concurrency

    @property
    def arrived(self) -> bool:
        """True if calls have ended since the task looked last."""
        return bool(self._pool.ended)

    def take(self, batch: Batch) -> Iterator[None]:
        """Call the function for each record; the results go on later.

        Raises:
            OperatorFailed: the key of a record cannot be encoded.
        """
        where = batch.topic, batch.partition
        columns = batch.offsets, batch.keys, batch.values, batch.timestamps
        calls, error = [], None
        for record in zip(*columns, batch.headers or repeat(None)):  # noqa: B905 - no end
            try:
                lane = self._operator.lane(record[1])
            except KeyboardInterrupt:
                raise
            except BaseException as failed:  # a user's serde may raise anything, or exit
                error = failed
                break
            calls.append(Call(*where, *record, lane))
        self.line |= dict.fromkeys(calls)
        self._pool.start(calls)
        if error is not None:
            raise OperatorFailed(len(calls), batch.slice(0, 0), again=True) from error
        return iter(())

    def send(self) -> Iterator[None]:
        """Send on the results that are there; what failed meets the error policy."""
        going: list[Call] = []
        for call in self._ready():
            if call.error is None:
                going.append(call)
                continue
            yield from self._sent(going)
            going = []
            pause_ms = self._pause_ms(call)
            if pause_ms is None:
                del self.line[call]
                self._pool.give_up(call)
                continue
            self._pool.again(call, self._results.pause.rest_of(pause_ms))
            if self._in_order:
                break
        yield from self._sent(going)

    def _ready(self) -> list[Call]:
        """The finished calls whose results go on now."""
        ended, fresh = self._pool.ended, []
        while ended:
            call = ended.popleft()
            if call.error is None or not self._tried_again(call):
                call.ended = True
                fresh.append(call)
        return list(takewhile(lambda call: call.ended, self.line)) if self._in_order else fresh

    def _tried_again(self, call: Call) -> bool:
        """True if a call that failed is made again, by the operator's own rule."""
        retry = self._operator.retry
        if retry is None or call.attempt >= retry.attempts:
            return False
        self._pool.again(call, self._results.pause.rest_of(retry.pause_ms(call.attempt)))
        return True

    def _pause_ms(self, call: Call) -> int | None:
        """The error policy's pause before a failed call is repeated; None: skip its record."""
        one = next(_batches([call])).with_values([own(call.value)])
        failed = OperatorFailed(0, one.slice(0, 0), again=True)
        failed.__cause__ = call.error
        return self._results.pause_ms(one, self._node, failed, call.attempt)

    def _sent(self, calls: list[Call]) -> Iterator[None]:
        for batch in _batches(calls):
            yield from self._forward(batch.with_values([call.result for call in batch.values]))
        for call in calls:
            del self.line[call]


def _batches(calls: Iterable[Call]) -> Iterator[Batch]:
    """The records of calls as batches whose values are the calls, a batch for each partition."""
    for where, run in groupby(calls, key=lambda call: (call.topic, call.partition)):
        some = list(run)
        headers = [call.headers for call in some]
        yield Batch(
            *where,
            [call.offset for call in some],
            [call.key for call in some],
            some,
            [call.timestamp for call in some],
            headers if any(headers) else None,
        )


class TaskCalls:
    """The records that wait at operators of one task: for calls, or for other records.

    Args:
        context: of the task.
        results: the error policy of the task.
        clock: the time.
    """

    def __init__(
        self, context: TaskContext, results: RecordFailures, clock: Clock | None = None
    ) -> None:
        self._context, self._results = context, results
        #: Sends on what operators hold back until a commit; None: none does.
        self.release: Callable[[], Iterator[None]] | None = None
        self._clock = clock or SystemClock()
        self._news = threading.Event()
        self._calling: list[OperatorCalls] = []
        #: All at which records wait, from the first to the last of them.
        self._operators: list[OperatorCalls | GatheredRecords] = []
        #: Whether nothing is begun until a commit.
        self.shut = False
        #: Since then: whether held results were released, and a commit was asked for.
        self._released = self._asked = False
        #: When it was shut last, when a stop was last asked for, when it may be shut for a commit.
        self._shut_ms = self._next_ms = 0
        self._stop_ms = -SETTLE_MS

    def add(self, node: ProcessorNode, operator: CallingOperator, forward: Step) -> Step:
        """Add an operator, before those that were added already; the step of its node."""
        calls = OperatorCalls(node, operator, forward, self._results, self._news)
        self._calling.insert(0, calls)
        self._operators.insert(0, calls)
        return calls.take

    def gather(
        self,
        name: str,
        operator: GatheringOperator,
        step: Step,
        together: ProcessRuns,
        forward: Step,
    ) -> Step:
        """Add an operator whose records wait for others; as of ``GatheredRecords``."""
        how = step, together, forward
        records = GatheredRecords(name, operator, *how, self._clock, self._ends)
        self._operators.insert(0, records)
        return records.take

    def _ends(self) -> bool:
        """True if no record waits for others any more."""
        return self.shut or self._results.blocks

    @property
    def in_flight(self) -> int:
        """The number of records that wait."""
        return sum(one.in_flight for one in self._operators)

    @property
    def running(self) -> bool:
        """True if records wait for calls, not only for other records."""
        return any(one.line for one in self._calling)

    @property
    def oldest(self) -> tuple[str, Call] | None:
        """A node and the call that its first record waits for; None: none waits for a call."""
        return next(((one.name, next(iter(one.line))) for one in self._calling if one.line), None)

    @property
    def waiting(self) -> set[str]:
        """The names of the nodes in which they wait."""
        return {one.name for one in self._operators if one.in_flight}

    @property
    def arrived(self) -> bool:
        """True if ``send`` has something to do."""
        if self._results.blocks:
            return self.in_flight > 0
        over = self.shut and not self._asked and not self.in_flight
        return over or any(one.arrived for one in self._operators)

    @property
    def full(self) -> bool:
        """True if the task may begin nothing new."""
        return self.shut or any(one.full for one in self._calling)

    @property
    def most_begun(self) -> int:
        """The most records that the task may begin at once; 0: any number."""
        if self._results.blocks or not self._calling:
            return 0
        return 1 + min(one.concurrency for one in self._calling) // 4

    def some_of(
        self, raw: PartitionBatch | Undecoded, rest: deque[Any]
    ) -> PartitionBatch | Undecoded:
        """The records of a batch that the task may begin; the others go in front of ``rest``."""
        most = self.most_begun
        if isinstance(raw, Undecoded) or not most or len(raw) <= most:
            return raw
        rest.appendleft(raw.slice(most))
        return raw.slice(0, most)

    def send(self, at: Batch) -> Iterator[None]:
        """Send on the results that are there; where the caller waits for all: all of them."""
        if self._results.blocks:
            yield from self._finish()
            return
        yield from self._send()
        if not self.shut or self.in_flight:
            return
        if self.release is not None and not self._released:
            self._released = True
            yield from self.release()
        if not self.in_flight:
            self._asked = True
            self._context.request_commit()

    # Commits.

    def can_commit(self) -> bool:
        """True if a commit can cover the task now; otherwise it ends its calls, then asks for one.

        Not each commit has it do so where calls take long. One that takes too long is left for
        later, and the task goes on.
        """
        if not self.in_flight and (self.release is None or self._released):
            return True
        now = self._clock.now_ms()
        if self.shut and not self._left_ms() and now >= self._stop_ms + SETTLE_MS:
            self._open()
        elif now >= self._next_ms:
            self.drain()
        return False

    def drain(self) -> None:
        """Begin nothing new until the next commit of the task."""
        if not self.shut:
            self.shut, self._shut_ms = True, self._clock.now_ms()

    def delays_stop(self) -> bool:
        """True if calls may still end in the time that a stop waits for them; begins to drain."""
        self.drain()
        self._stop_ms = self._clock.now_ms()
        return self.in_flight > 0 and self._left_ms() > 0

    def end(self) -> Iterator[None]:
        """Send on all results; begin nothing new. Some are left if their calls take too long."""
        self.drain()
        yield from self._finish()

    def settle(self) -> Iterator[None]:
        """Send on all results before a commit, with what operators hold back for that."""
        yield from self.end()
        if not self.in_flight and self.release is not None:
            yield from self.release()
            yield from self._finish()
        if not self.in_flight:
            self._open()

    def before(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The positions, set back before the first record that waits."""
        found = dict(positions)
        for one in self._operators:
            for where, offset in one.places:
                found[where] = min(found[where], offset)
        return found

    def close(self) -> None:
        """Cancel all calls: the task is closed."""
        for one in self._calling:
            one.close()

    def _open(self) -> None:
        """Let the task go on."""
        now = self._clock.now_ms()
        self._next_ms = now + APART * (now - self._shut_ms)
        self.shut = self._released = self._asked = False

    def _send(self) -> Iterator[None]:
        for one in self._operators:
            yield from one.send()

    def _finish(self) -> Iterator[None]:
        """Send on all results, and wait for them."""
        while self.in_flight:
            self._news.clear()
            if not any(one.arrived for one in self._operators):
                left_ms = None if self._results.blocks else self._left_ms()
                if left_ms == 0:
                    return
                self._news.wait(None if left_ms is None else left_ms / 1000)
            yield from self._send()

    def _left_ms(self) -> int:
        """Time left to wait for calls, ms."""
        return max(0, self._shut_ms + SETTLE_MS - self._clock.now_ms())
