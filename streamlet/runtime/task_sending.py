"""Sends the outputs of tasks: at once, with a pause before one that was refused, or once they may.

The producer tells that all is delivered once its queue is empty. So while a commit waits for that,
what tasks write is kept here, and processing goes on; it follows once the commit is delivered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import suppress

import attrs

from streamlet.clock import Clock, pause
from streamlet.errors import DeliveryError, StillQueuedError
from streamlet.kafka.ports import OutgoingRecords
from streamlet.kafka.queue_bound import FIRST_BYTES, HURRIED_SHARE, LEAST_BYTES, mean_size
from streamlet.processing.edges.held_writer import joined
from streamlet.processing.outputs import Output
from streamlet.processing.record_collector import RecordCollector
from streamlet.runtime.listeners import Observer
from streamlet.tasks.active import ActiveTask, Unsent
from streamlet.tasks.commit import AtLeastOnceCommit
from streamlet.tasks.task_registry import TaskRegistry
from streamlet.tasks.topic_meters import TopicMeters

#: Bytes of kept outputs with which nothing more is processed until they are sent, at most. Over a
#: slow link, or a quota, it is so many fewer that they find room in the producer's queue.
MOST_KEPT = 4 << 20
#: How long the last markers of a worker are waited for, ms.
END_MS = 100


@attrs.define(eq=False)
class TaskSender:
    """Sends the outputs and markers of a worker's tasks.

    Args:
        collector: where they go.
        registry: the tasks.
        commit: tells whether one is being delivered.
        observer: called with outputs.
        clock: the time.
        topics: count what was sent.

    Attributes:
        lingering: whether something was sent since the last push.
        keeps: whether outputs are kept while a commit is delivered.
        hurried: whether another member waits for deliveries: less is kept then.
    """

    _collector: RecordCollector
    _registry: TaskRegistry
    _commit: AtLeastOnceCommit
    _observer: Observer
    _clock: Clock
    _topics: TopicMeters
    lingering: bool = attrs.field(default=False, init=False)
    keeps: bool = attrs.field(default=True, init=False)
    hurried: bool = attrs.field(default=False, init=False)
    _kept_bytes: int = attrs.field(default=0, init=False)
    #: Bytes that were kept when they were last sent, and how many may be kept.
    _last_kept: int = attrs.field(default=0, init=False)
    _most_kept: int = attrs.field(default=FIRST_BYTES, init=False)

    @property
    def keeping(self) -> bool:
        """True if outputs are kept now."""
        return self.keeps and self._commit.delivering

    @property
    def full(self) -> bool:
        """True if nothing is to be processed until what is kept was sent."""
        most = self._most_kept * (HURRIED_SHARE if self.hurried else 1)
        return self._kept_bytes >= most and self.keeping

    def adapt(self, late: float) -> None:
        """Keep less if what was kept last waited so many times too long for room, else more."""
        if late > 1:
            self._most_kept = max(int(min(self._last_kept, self._most_kept) / late), LEAST_BYTES)
        elif self._last_kept > self._most_kept // 2:
            self._most_kept = min(2 * self._most_kept, MOST_KEPT)

    def send(self, active: ActiveTask, outputs: list[Output]) -> None:
        """Send outputs of a task behind those that wait, or have them wait, too."""
        if active.unsent is not None:  # they come behind what waits
            active.unsent.outputs += outputs
            return
        if self.keeping:  # also without any: what was kept would be in the way
            active.kept += outputs
            self._kept_bytes += sum(map(_size, outputs))
            return
        self.send_kept(active, outputs)

    def send_kept(self, active: ActiveTask, outputs: list[Output] | None = None) -> None:
        """Send what was kept of a task, and outputs behind it, unless it may write nothing."""
        outputs = outputs or []
        if active.kept:
            outputs, active.kept = active.kept + outputs, []
        if not outputs:
            return
        self.tell(active)
        if active.held is not None and active.held.silent:  # its claim is not accepted yet
            active.kept = outputs
            return
        self.lingering = active.wrote = True
        sent: list[Output] = []
        for number, output in enumerate(outputs):
            again = self._collector.send(output, active.edge_writer, active.task, sent=sent)
            if again is not None:
                rest = deque([again.rest, *outputs[number + 1 :]])
                due_ms = self._clock.now_ms() + again.pause_ms
                active.unsent = Unsent(rest, again.attempt, due_ms, sent)
                self._registry.pause(active)
                return
        self._sent(sent)

    def _sent(self, outputs: list[Output]) -> None:
        self._topics.written(outputs)
        self._observer.produced(outputs)

    def kept(self) -> list[ActiveTask]:
        """The tasks whose kept outputs may be sent by now."""
        if not self._kept_bytes or self.keeping:
            return []
        self._last_kept, self._kept_bytes = self._kept_bytes, 0
        return [active for active in self._registry.tasks.values() if active.kept]

    def send_rest(self, active: ActiveTask) -> None:
        """Send what waits because the producer refused a record of it."""
        unsent = active.unsent
        if unsent is None:
            return
        self.lingering = True
        while unsent.outputs:
            how = active.edge_writer, active.task, unsent.attempt
            again = self._collector.send(unsent.outputs[0], *how, sent=unsent.sent)
            if again is not None:
                unsent.outputs[0], unsent.attempt = again.rest, again.attempt
                unsent.due_ms = self._clock.now_ms() + again.pause_ms
                return
            unsent.outputs.popleft()
            unsent.attempt = 1
        active.unsent = None
        self._sent(unsent.sent)

    def send_rest_now(self, active: ActiveTask) -> None:
        """Send what waits, with the pauses: the task has stopped, and a commit is to cover it."""
        while active.unsent is not None:
            pause(max(0, active.unsent.due_ms - self._clock.now_ms()))
            self.send_rest(active)

    def tell(self, *tasks: ActiveTask, at_once: bool = False) -> None:
        """Write the markers of tasks for whose commits records wait.

        ``at_once``: no record of them follows.
        """
        writers = [task.held for task in tasks if task.held is not None]
        if not writers:
            return
        now = self._clock.now_ms()
        for one in joined([due for held in writers for due in held.markers(now, at_once=at_once)]):
            keys: list[bytes | None] = [None] * len(one.values)
            records = OutgoingRecords(one.topic, keys, one.values, None, one.partitions)
            self._collector.sink.send(records)
            self.lingering = True

    def end(self, tasks: Iterable[ActiveTask]) -> None:
        """Have the last markers of tasks delivered; what is lost of them others tell later."""
        if any(active.held is not None for active in tasks):
            with suppress(StillQueuedError, DeliveryError):
                self._collector.sink.flush(END_MS)


def _size(output: Output) -> int:
    return len(output.keys) * mean_size(output.keys, output.values, output.headers)
