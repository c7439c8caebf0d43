"""Records that wait for others, to be processed together: ``map_batches`` with ``max_wait=``.

They wait beside those that wait for calls (``processing.task_calls``), and as these do keep the
task from being committed: a commit has them processed first, so none is lost or counted twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

import attrs

from streamlet.batch import Batch, joined
from streamlet.clock import Clock
from streamlet.topology.operator import GatheringOperator
from streamlet.types import TopicPartition

Step = Callable[[Batch], Iterator[None]]
ProcessRuns = Callable[[Sequence[Batch]], list[Batch] | None]


@attrs.define(eq=False)
class GatheredRecords:
    """The records that wait at one operator.

    Args:
        name: of its node.
        operator: how many, and how long.
        step: has it process records of one partition, under the error policy.
        together: has it process those of several; None: each by itself.
        forward: the step behind the node.
        clock: the time.
        ends: tells whether no record may wait for others any more.
    """

    name: str
    _operator: GatheringOperator
    _step: Step
    _together: ProcessRuns
    _forward: Step
    _clock: Clock
    _ends: Callable[[], bool]
    #: In the order of the records: those that wait, and those that are being processed.
    _batches: deque[Batch] = attrs.field(factory=deque, init=False)
    _going: list[Batch] = attrs.field(factory=list, init=False)
    _waiting: int = attrs.field(default=0, init=False)
    #: The time at which the first of them has waited for long enough, ms.
    _due_ms: int = attrs.field(default=0, init=False)

    @property
    def in_flight(self) -> int:
        """The number of records that wait, or are being processed."""
        return self._waiting + sum(map(len, self._going))

    @property
    def places(self) -> Iterable[tuple[TopicPartition, int]]:
        """The partitions of these records, with the lowest offset of each batch."""
        for some in (*self._going, *self._batches):
            offsets = some.offsets  # of results of calls in the order in which these ended
            first = offsets[0] if type(offsets) is range else min(offsets)
            yield TopicPartition(some.topic, some.partition), first

    @property
    def arrived(self) -> bool:
        """True if no record waits for others any more, or the first has for long enough."""
        return self._waiting > 0 and (self._ends() or self._clock.now_ms() >= self._due_ms)

    def take(self, batch: Batch) -> Iterator[None]:
        """Have records wait, or process them with those that wait if these are enough."""
        if not self._waiting:
            self._begin()
        most, count = self._operator.max_records, len(batch)
        self._waiting += count
        # Cut once: to cut the rest off again and again takes a time that is square in the length.
        parts = (batch.slice(at, at + most) for at in range(0, count, most))
        self._batches.extend(parts if count > most else [batch])
        while self._waiting >= most:
            yield from self._sent()

    def send(self) -> Iterator[None]:
        """Process the records that wait if they need not wait any more."""
        while self.arrived:
            yield from self._sent()

    def _begin(self) -> None:
        self._due_ms = self._clock.now_ms() + self._operator.max_wait_ms

    def _sent(self) -> Iterator[None]:
        """Process the first records, as many as go together."""
        self._going = _runs(self._taken(self._operator.max_records))
        self._waiting -= sum(map(len, self._going))
        self._begin()
        out = self._together(self._going) if len(self._going) > 1 else None
        if out is None:
            for run in self._going:
                yield from self._step(run)
        else:
            for batch in out:
                yield from self._forward(batch)
        self._going = []

    def _taken(self, most: int) -> Iterator[Batch]:
        while self._batches and most:
            first = self._batches.popleft()
            if len(first) > most:
                self._batches.appendleft(first.slice(most, len(first)))
                first = first.slice(0, most)
            most -= len(first)
            yield first


def _runs(batches: Iterable[Batch]) -> list[Batch]:
    """The records in runs, each of one partition."""
    runs = groupby(batches, key=lambda batch: (batch.topic, batch.partition))
    return [joined(list(run)) for _, run in runs]
