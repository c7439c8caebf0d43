"""The records of a round: what is polled, processed and sent by the tasks that run.

Each task with a batch under way goes on with its next part once a round; between two rounds orders
and commits of other tasks have their turn. A task with a record that is to be tried again
after a pause waits with all that is behind it, and no other task does.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from streamlet.clock import Clock
from streamlet.errors import OutOfRangeError, ProcessingError, StateError
from streamlet.forks import OwnProcess
from streamlet.kafka.ports import PartitionBatch, RecordSource
from streamlet.logs import get_logger
from streamlet.processing.call_pool import call_loop
from streamlet.processing.edges.undecided import Undecided
from streamlet.processing.record_collector import RecordCollector
from streamlet.processing.record_failures import RecordCounters
from streamlet.runtime.listeners import Observer
from streamlet.runtime.placement import PlacementCheck
from streamlet.runtime.task_sending import TaskSender
from streamlet.runtime.transactions import OffsetGaps
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.commit import AtLeastOnceCommit
from streamlet.tasks.key_questions import KeyQuestions
from streamlet.tasks.meters import Meters
from streamlet.tasks.opening import blamed
from streamlet.tasks.rebalance_events import RebalanceEvents
from streamlet.tasks.task_actions import TaskActions
from streamlet.tasks.task_failures import OutOfRange
from streamlet.tasks.task_record import TaskStage
from streamlet.tasks.task_registry import TaskRegistry
from streamlet.types import TopicPartition

log = get_logger(__name__)

#: Records per poll: what the client has when the first of them is there. It never waits for more,
#: since what comes while a batch is processed makes the next one larger.
POLL_RECORDS = 10_000
#: How long a poll waits for the first record while something else is to go on.
POLL_MS = 5
#: How long it waits otherwise, which costs nothing while there is none; news that no other member
#: waits for may lie for so long. Shorter waits were most of what a quiet worker cost.
QUIET_MS = 20
#: How long a worker that runs nothing waits for news; what is due then may come so late.
IDLE_MS = 50
#: Records per poll while a hand-over is open: another member waits for us, at most for a batch.
POLL_BUSY_RECORDS = 1_000
#: How long the outputs of one poll should wait at most for room in the producer's queue, ms: orders
#: wait as long. Over a slow link, or a quota, so many fewer records are polled at a time.
ROOM_MS = 100


@attrs.define(eq=False, slots=False)
class RecordLoop:
    """Polls and processes for the running tasks of a worker.

    Args:
        source: consumer of input partitions.
        rebalance_events: where news of the group comes.
        clock: the time.
        questions: about tasks whose records wait for their commits.
        undecided: what waits of the tasks of this worker.
        registry: the tasks.
        actions: tells whether another member waits for us.
        commit: tells whether a commit is under way.
        out_of_range: takes partitions whose position the log does not hold.
        collector: where outputs go.
        observer: called with outputs.
        meters: count the time.
        counters: count the records.
        fail: called when a record failed for good; it raises.
        restart: called when the stores of a task fail.
        placement: looks whether keys lie where they should.
        pauses: has tasks stand still that an operator paused.
        own_markers: whether the topics between tasks may be written in transactions.
    """

    _source: RecordSource
    _rebalance_events: RebalanceEvents
    _clock: Clock
    _questions: KeyQuestions
    _undecided: Undecided
    _registry: TaskRegistry
    _actions: TaskActions
    _commit: AtLeastOnceCommit
    _out_of_range: OutOfRange
    _collector: RecordCollector
    _observer: Observer
    _meters: Meters
    _counters: RecordCounters
    _fail: Callable[[ActiveTask, ProcessingError], None]
    _restart: Callable[[StateError], None]
    _placement: PlacementCheck | None = None
    _pauses: Callable[[], None] = lambda: None
    _own_markers: bool = False
    #: Of the last round: whether more records were there than it took; whether some wait, and
    #: whether a task has more to come of its batch.
    _backlog: bool = attrs.field(default=False, init=False)
    _waiting: bool = attrs.field(default=False, init=False)
    _under_way: bool = attrs.field(default=False, init=False)
    #: Whether records wait for calls of async functions.
    _calling: bool = attrs.field(default=False, init=False)
    _gaps: OffsetGaps = attrs.field(factory=OffsetGaps, init=False)
    _own_process: OwnProcess = attrs.field(factory=OwnProcess, init=False)
    #: Records to poll at most, and how long outputs had waited for room before this round, ms.
    _most: int = attrs.field(default=POLL_RECORDS, init=False)
    _waited_ms: int = attrs.field(default=0, init=False)
    #: Sends what tasks write.
    outputs: TaskSender = attrs.field(init=False)

    @outputs.default
    def _sends_outputs(self) -> TaskSender:
        where = self._collector, self._registry, self._commit, self._observer, self._clock
        return TaskSender(*where, self._meters.topics)

    def process(self) -> None:
        """Poll once, process what came and what may go on."""
        self._pauses()
        self._questions.step()
        if self._commit.sealed:
            self._rebalance_events.wait(POLL_MS)
            return
        # What we wrote has to be delivered before a task may move.
        hurried = self.outputs.hurried = self._actions.urgent or self._actions.unit.waiting
        if not (self.outputs.keeping or self._collector.sink.has_room(hurried=hurried)):
            self._rebalance_events.wait(POLL_MS)
            return
        if kept := self.outputs.kept():
            self._send_kept(kept)
        self.outputs.tell(*self._registry.tasks.values())
        self._undecided.count(
            task.held.waiting
            for task in self._registry.tasks.values()
            if task.held is not None and not task.retrying
        )
        began = self._clock.now_ns()
        self._waited_ms = self._collector.sink.waited_ms
        batches = self._registry.take_kept() or self._poll()
        polled = self._clock.now_ns()
        self._meters.poll.add_ns(polled - began)
        now = self._clock.now_ms()
        for batch in batches:
            where = TopicPartition(batch.topic, batch.partition)
            active = self._registry.by_partition.get(where)
            if active is not None:
                self._process_batch(active, batch, now)
            else:
                self._registry.ahead.take(batch)
        if batches:
            self._meters.process.add_ns(self._clock.now_ns() - polled)
        elif not self._under_way:
            running = self._registry.of_stage(TaskStage.RUNNING)
            self._gaps.look(now, running, self._source, own=self._own_markers)
        self._waiting = self._under_way = self._calling = False
        for active in self._registry.of_stage(TaskStage.RUNNING):
            self._process_waiting(active, now)
        self._adapt(sum(map(len, batches)))

    def _adapt(self, polled: int) -> None:
        """Poll fewer records if the outputs of these had to wait, else more, up to the usual."""
        waited_ms = self._collector.sink.waited_ms - self._waited_ms
        if waited_ms > ROOM_MS:
            self._most = max(min(polled or self._most, self._most) * ROOM_MS // waited_ms, 1)
        elif self._most < POLL_RECORDS and not self.outputs.keeping:  # what is kept waits later
            self._most = min(self._most + self._most // 8 + 1, POLL_RECORDS)

    def settle(self, active: ActiveTask, *, release: bool = True) -> None:
        """Finish the batch that a task has under way: a commit is to cover the task.

        And what opens its period: the first commit is not sent before that is delivered.
        ``release``: what waits for that commit is sent, too.

        Raises:
            StreamletError: a record failed for good.
            StateError: the stores fail.
        """
        try:
            self.outputs.tell(active)
            self.outputs.send_rest_now(active)
            self.outputs.send(active, active.processor.settle(release=release))
            self.outputs.send_rest_now(active)
        except ProcessingError as error:
            self._fail(active, error)

    def stop(self) -> None:
        """Stop all running tasks, once their calls have ended.

        Dropped is a task whose calls take too long, or that is to try a record again.
        """
        self.outputs.keeps = False
        running = self._registry.of_stage(TaskStage.RUNNING)
        self._registry.any_delays_stop([active.task for active in running])
        for active in running:
            if not self._ends(active):
                log.info(
                    "task %s stops within a batch, which its next owner reads again", active.task
                )
                self._registry.drop(active)
        self._registry.stop(self._registry.of_stage(TaskStage.RUNNING))

    def _ends(self, active: ActiveTask) -> bool:
        """True if a task has come to the end of what it has begun, as far as calls are in it."""
        try:
            if active.processor.calling and not active.retrying:
                # The commit before may be under way, and what waits for one comes behind it.
                self.settle(active, release=False)
        except StateError as error:
            log.warning("task %s: %s", active.task, error)
            return False
        return not (active.retrying or active.processor.calling)

    # Polling.

    def _poll(self) -> list[PartitionBatch]:
        try:
            if batches := self._push_or_go_on():
                return batches
            if self._registry.idle:
                # Only news can make another member wait for us: take it at once.
                idle_ms = QUIET_MS if self._actions.busy else IDLE_MS
                self._rebalance_events.wait(POLL_MS if self._actions.urgent else idle_ms)
                return self._source.poll(self._most, 0)
            if self._actions.urgent:  # news in place of records, unless there are many of these
                if not (self._backlog or self._under_way):
                    self._rebalance_events.wait(POLL_MS)
                return self._poll_busy()
            if self._calling and not self._under_way:
                call_loop().wait(POLL_MS)
                return self._source.poll(self._most, 0)
            # Longer for a first record where nothing is half done.
            quiet_ms = POLL_MS if self._commit.under_way or self._waiting else QUIET_MS
            return self._source.poll(self._most, 0, 0 if self._under_way else quiet_ms)
        except OutOfRangeError as error:
            if self._registry.ahead.give_up(error.partition):
                log.debug("not read ahead: %s", error)
            elif not self._out_of_range.met(error.partition):
                raise
            return []

    def _push_or_go_on(self) -> list[PartitionBatch]:
        """Have outputs sent that linger, unless records are there: these come first.

        A push takes a millisecond, in which nothing is processed. After each round it was a fifth
        of the thread's time at 10,000 records/s through a repartition. More records give more
        outputs for the same requests, and the producer's own linger bounds how long any of them
        waits.
        """
        if not self.outputs.lingering or self._under_way:
            return []
        batches = self._poll_busy() if self._actions.urgent else self._source.poll(self._most, 0)
        if not batches:
            self.outputs.lingering = False
            self._collector.sink.push()
        return batches

    def _poll_busy(self) -> list[PartitionBatch]:
        most = min(POLL_BUSY_RECORDS, self._most)
        batches = self._source.poll(most, 0)
        self._backlog = sum(map(len, batches)) >= most
        return batches

    # Processing.

    def _process_batch(self, active: ActiveTask, batch: PartitionBatch, now: int) -> None:
        if active.stands:
            return
        self._counters.records += len(batch)
        self._registry.input_bound.read(batch.topic, self._meters.topics.read(batch))
        if self._placement is not None:
            self._placement.look(active, batch)
        try:
            with self._own_process, blamed(active.task):
                outputs = active.processor.process(batch, now, self._source.known_end)
                self.outputs.send(active, outputs)
                self._trim(active)
        except ProcessingError as error:
            self._fail(active, error)
        except StateError as error:
            self._restart(error)

    def _send_kept(self, tasks: list[ActiveTask]) -> None:
        """Send what was kept; where it has to wait for room so much less is kept and polled."""
        self._waited_ms = self._collector.sink.waited_ms
        for active in tasks:
            try:
                self.outputs.send_kept(active)
            except ProcessingError as error:
                self._fail(active, error)
        self.outputs.adapt((self._collector.sink.waited_ms - self._waited_ms) / ROOM_MS)
        self._adapt(0)

    def _process_waiting(self, active: ActiveTask, now: int) -> None:
        calls = active.processor.calls
        self._calling |= calls is not None and calls.running
        self._waiting |= active.processor.calling
        if (active.stands and not active.under_way) or self._waits_for_retry(active, now):
            return
        if active.unsent is None and not active.processor.waits(now):
            return
        try:
            with self._own_process, blamed(active.task):
                self.outputs.send_rest(active)
                if active.unsent is not None:
                    self._waiting = True
                    return
                self.outputs.send(active, active.processor.resume(now, self._end_of_records))
        except ProcessingError as error:
            self._fail(active, error)
        except StateError as error:
            self._restart(error)
        else:
            self._trim(active)
            self._under_way |= active.processor.under_way and not active.processor.calling
            self._waiting |= active.unsent is not None or self._registry.bound(active)

    def _trim(self, active: ActiveTask) -> None:
        """Shrink the cache of a task that has ended its batch."""
        if not active.processor.under_way:
            active.state.trim()

    def _waits_for_retry(self, active: ActiveTask, now: int) -> bool:
        """True if a record of a task is to be tried again, and not yet."""
        if active.unsent is not None:
            return now < active.unsent.due_ms
        if not active.processor.pausing or active.processor.waits(now):
            return False
        self._registry.bound(active)
        return True

    def _end_of_records(self, partition: TopicPartition) -> int | None:
        """End of a partition as far as records will come, once all that was polled is taken.

        The last offsets may be no records (a transaction's marker): a wait for them would
        not end.
        """
        end = self._source.known_end(partition)
        if end is None:
            return None
        return 0 if self._source.positions([partition]).get(partition, -1) >= end else end
