"""The one loop of a worker process: poll, process, commit, and take orders between two batches.

Everything that touches tasks happens on this thread. The control thread (``group.session``) keeps
the membership alive and leaves what it learns in the inbox; the loop looks there once a round, so
that a join never stops processing and a slow user function never stops a heartbeat.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

import attrs

from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.errors import (
    BrokerError,
    DeliveryError,
    ProcessingError,
    RecordRefusedError,
    StreamletError,
    TaskMigratedError,
    TimedOutError,
)
from streamlet.group.session import Assigned, CommitDone, Failed, Left, Lost
from streamlet.kafka.ports import PartitionBatch, RecordSink, RecordSource
from streamlet.runtime.activation import Activation
from streamlet.runtime.active import ActiveTask, Stage
from streamlet.runtime.catalog import Catalog
from streamlet.runtime.commit import AtLeastOnceCommit, CommitGroup
from streamlet.runtime.inbox import Inbox
from streamlet.runtime.policy import ErrorPolicy
from streamlet.runtime.purge import Purge
from streamlet.runtime.restore import RestoreProgress
from streamlet.runtime.task import Output
from streamlet.types import TaskId, TopicPartition

log = logging.getLogger(__name__)

#: Records per poll, and how long a poll waits for that many: librdkafka waits for a full batch.
POLL_RECORDS = 10_000
POLL_MS = 5
#: How much of a round goes to restoring while other tasks run, ms, and while none does.
RESTORE_STEP_MS = 5
RESTORE_ALONE_MS = 100


class WorkerGroup(CommitGroup, Protocol):
    """What the worker asks of its membership (``group.session``)."""

    def start(self) -> None:
        """Join."""
        ...

    def rejoin(self, reason: str) -> None:
        """Have the group rebalance."""
        ...

    def progress(self) -> None:
        """The loop went round."""
        ...

    def leave(self, reason: str, timeout_ms: int, *, quietly: bool | None = None) -> bool:
        """Leave for good; False if that took longer."""
        ...

    def close(self) -> None:
        """End the control thread."""
        ...


class Observer(Protocol):
    """Who wants to know what a worker does (the supervisor's pipe, a notebook, a test)."""

    def state_changed(self, state: str, tasks: tuple[TaskId, ...]) -> None:
        """The worker's state (Kafka Streams' names) or the set of running tasks changed."""
        ...

    def restoring(self, progress: RestoreProgress) -> None:
        """A store is being restored."""
        ...

    def produced(self, outputs: list[Output]) -> None:
        """These were handed to the producer."""
        ...


@attrs.define
class WorkerCounters:
    """What a worker counted since it started."""

    records: int = 0
    skipped: int = 0
    commits: int = 0


class Worker:
    """Runs the tasks the group gives it.

    Args:
        settings: the application's.
        group: our membership, not started.
        inbox: where the control thread leaves events.
        source: consumer of input partitions.
        sink: producer.
        activation: brings tasks up.
        commit: the commit port.
        catalog: knows what topics there are.
        purge: deletes what was read of repartition topics.
        clock: the time.
        policy: what becomes of records that fail.
        observer: is told what happens.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        group: WorkerGroup,
        inbox: Inbox,
        source: RecordSource,
        sink: RecordSink,
        activation: Activation,
        commit: AtLeastOnceCommit,
        catalog: Catalog,
        purge: Purge,
        clock: Clock,
        policy: ErrorPolicy,
        observer: Observer,
    ) -> None:
        self._settings = settings
        self._group = group
        self._inbox = inbox
        self._source = source
        self._sink = sink
        self._activation = activation
        self._commit = commit
        self._catalog = catalog
        self._purge = purge
        self._clock = clock
        self._policy = policy
        self._observer = observer
        self.counters = WorkerCounters()
        self.state = "CREATED"
        #: All tasks we hold, in whatever stage, by id.
        self.tasks: dict[TaskId, ActiveTask] = {}
        #: Running tasks by input partition.
        self._by_partition: dict[TopicPartition, ActiveTask] = {}
        self._paused: set[TopicPartition] = set()
        self._next_commit_ms = 0
        #: Set while an order to give tasks up is being carried out: rejoin when they are gone.
        self._owes_rejoin = False
        #: Wall-clock time at which we, as the leader, are to have the group rebalance.
        self._follow_up_ms: int | None = None
        self._stopping = False

    # The loop.

    def run(self, keep_going: Callable[[], bool]) -> None:
        """Join the group and work until told to stop, then commit and leave.

        ``keep_going`` is asked once a round.

        Raises:
            StreamletError: what ended the worker; state is as of the last commit.
        """
        collecting = gc.isenabled()
        gc.disable()  # each batch is thousands of tracked messages; collected at commits instead
        try:
            self._set_state("REBALANCING")
            self._group.start()
            while keep_going():
                self.run_once()
            self.stop()
        except BaseException:
            self._set_state("ERROR")
            self._drop_all()
            raise
        finally:
            if collecting:
                gc.enable()
            self._close()

    def run_once(self) -> None:
        """One round: orders, restoring, a batch, perhaps a commit."""
        self._take_orders()
        self._activate()
        self._process()
        self._commit_due()
        self._group.progress()

    def stop(self) -> None:
        """Commit what was processed, give up all tasks and leave the group.

        A commit that cannot be had within the commit's time limit is left out: what it would have
        covered is processed again by the next owner.
        """
        self._set_state("PENDING_SHUTDOWN")
        self._stopping = True
        for active in list(self.tasks.values()):  # one not yet running goes at once
            self._stop_task(active)
        try:
            self._await_last_commit()
        except TimedOutError as error:
            log.warning("%s; the next owner repeats what was not committed", error)
        self._drop_all()
        self._group.leave("stopped", self._settings.session_timeout_ms)
        self._set_state("NOT_RUNNING")

    # Orders.

    def _take_orders(self) -> None:
        events, assigned = self._inbox.take()
        for event in events:
            match event:
                case CommitDone(token=token, outcome=outcome, code=code):
                    self._settle(self._commit.done(token, outcome, code))
                case Lost(reason=reason):
                    log.warning("lost all tasks: %s", reason)
                    self._drop_all()
                case Failed(error=error):
                    raise error
                case Left():
                    log.debug("left the group")
                case _:
                    raise AssertionError(f"nobody asked for {event}")
        if assigned is not None:
            self._apply(assigned)
        due = self._follow_up_ms
        if due is not None and self._clock.wall_ms() >= due and not self._stopping:
            self._follow_up_ms = None
            self._group.rejoin("the plan's next part is due")

    def _apply(self, assigned: Assigned) -> None:
        """Carry out an assignment: only tasks that move are touched."""
        order = assigned.assignment
        for task in sorted(set(self.tasks) - order.active - order.revoke):
            log.warning("task %s is no longer ours and was not revoked; dropping it", task)
            self._drop(self.tasks[task])
        for task in sorted(order.revoke & set(self.tasks)):
            self._stop_task(self.tasks[task])
        for task in sorted(order.active):
            if task not in self.tasks:
                self._activation.want(task)
            elif self.tasks[task].stage is Stage.STOPPED and not self._stopping:
                self._resume_task(self.tasks[task])
        self._activation.keep(order.active)
        self._owes_rejoin = bool(order.revoke)
        self._follow_up_ms = order.follow_up_ms
        self._next_commit_ms = min(self._next_commit_ms, self._clock.now_ms())
        self._settle(list(self.tasks.values()))
        log.info("generation %d: tasks %s", assigned.generation, _names(order.active))
        self._update_state()

    def _settle(self, accepted: Iterable[ActiveTask]) -> None:
        """Give up stopped tasks whose last commit stands; rejoin once all are gone."""
        for active in accepted:
            if active.stage is Stage.RUNNING:
                self._purge.committed(active)
            elif active.stage is Stage.STOPPED and active.claimed and not active.changed:
                self._drop(active)
        waiting = any(active.stage is Stage.STOPPED for active in self.tasks.values())
        if self._owes_rejoin and not waiting and not self._stopping:
            self._owes_rejoin = False
            self._group.rejoin("gave up the tasks it was asked to")

    # Tasks.

    def _activate(self) -> None:
        if self._stopping or self._activation.idle:
            return
        step_ms = RESTORE_STEP_MS if self._by_partition else RESTORE_ALONE_MS
        for active in self._activation.opened():
            self.tasks[active.task] = active
            self._share_cache()
        for active in self._activation.step(step_ms):
            self._resume_task(active)
        self._update_state()

    def _resume_task(self, active: ActiveTask) -> None:
        """Let a restored or stopped task process, from its own positions."""
        active.move_to(Stage.RUNNING)
        self._by_partition |= dict.fromkeys(active.inputs, active)
        assert active.processor is not None
        self._source.assign(active.processor.received)
        self._next_commit_ms = min(self._next_commit_ms, self._clock.now_ms())

    def _stop_task(self, active: ActiveTask) -> None:
        """Process nothing more of a task; a task not yet running is simply dropped."""
        if active.stage is Stage.RESTORING:
            self._drop(active)
        elif active.stage is Stage.RUNNING:
            self._forget_inputs(active)
            active.move_to(Stage.STOPPED)

    def _forget_inputs(self, active: ActiveTask) -> None:
        mine = [tp for tp in active.inputs if self._by_partition.get(tp) is active]
        self._source.unassign(mine)
        for tp in mine:
            del self._by_partition[tp]
        self._paused.difference_update(mine)

    def _drop(self, active: ActiveTask) -> None:
        """Close a task, writing nothing; its folder stays as it was at the last commit."""
        self._forget_inputs(active)
        self._commit.forget(active)
        self._activation.forget(active)
        active.close()
        del self.tasks[active.task]
        self._share_cache()
        self._inbox.give_up([active.task])

    def _share_cache(self) -> None:
        """``cache.max.bytes`` is the worker's; stateful tasks have equal parts of it."""
        holders = [active for active in self.tasks.values() if active.subtopology.stateful]
        for active in holders:
            active.state.cache_bytes = self._settings.cache_max_bytes // len(holders)

    def _drop_all(self) -> None:
        self._commit.abort()
        self._activation.keep(frozenset())
        for active in list(self.tasks.values()):
            self._drop(active)
        self._update_state()

    # Records.

    def _process(self) -> None:
        busy = not self._activation.idle
        batches = self._source.poll(POLL_RECORDS, 0 if busy and not self._by_partition else POLL_MS)
        now = self._clock.now_ms()
        for batch in batches:
            active = self._by_partition.get(TopicPartition(batch.topic, batch.partition))
            if active is not None:
                self._process_batch(active, batch, now)
        for active in list(self.tasks.values()):
            if active.stage is Stage.RUNNING and active.processor is not None:
                self._resume_waiting(active, now)

    def _process_batch(self, active: ActiveTask, batch: PartitionBatch, now: int) -> None:
        assert active.processor is not None
        self.counters.records += len(batch)
        try:
            outputs = active.processor.process(batch, now, self._source.known_end)
            self._send(outputs)
        except ProcessingError as error:
            self._fail(active, error)

    def _resume_waiting(self, active: ActiveTask, now: int) -> None:
        assert active.processor is not None
        waiting = active.processor.buffered()
        if not waiting:
            return
        try:
            self._send(active.processor.resume(now, self._source.known_end))
        except ProcessingError as error:
            self._fail(active, error)
        self._bound(active.processor.buffered())

    def _bound(self, buffered: dict[TopicPartition, int]) -> None:
        """Pause partitions that have enough waiting; resume them at half of that."""
        most = self._settings.buffered_records_per_partition
        full = [tp for tp, n in buffered.items() if n > most and tp not in self._paused]
        low = [tp for tp, n in buffered.items() if n <= most // 2 and tp in self._paused]
        if full:
            self._source.pause(full)
            self._paused.update(full)
        if low:
            self._source.resume(low)
            self._paused.difference_update(low)

    def _send(self, outputs: list[Output]) -> None:
        for output in outputs:
            self._send_one(output)
        if outputs:
            self._observer.produced(outputs)

    def _send_one(self, output: Output) -> None:
        """Hand an output to the producer; a record it refuses meets the error policy."""
        while True:
            try:
                self._sink.send(
                    output.topic,
                    output.keys,
                    output.values,
                    output.timestamps,
                    output.partitions,
                    output.headers,
                )
                return
            except RecordRefusedError as error:
                where, offset = output.origin(error.index)
                if self._policy.action == "fail":
                    raise ProcessingError(
                        str(error), where.topic, where.partition, offset, f"sink to {output.topic}"
                    ) from error
                self.counters.skipped += 1
                output = output.behind(error.index)

    def _fail(self, active: ActiveTask, error: ProcessingError) -> None:
        """A record failed for good: drop its task as of its last commit, keep the others' work."""
        self._drop(active)
        self.stop()
        raise error

    # Commits.

    def _commit_due(self) -> None:
        now = self._clock.now_ms()
        stopped = any(active.stage is Stage.STOPPED for active in self.tasks.values())
        if now < self._next_commit_ms and not stopped and not self._too_dirty():
            return
        if self._commit.under_way and self._commit.sent:
            return
        self._begin_commit()
        if not self._commit.under_way or self._commit.sent:
            self._next_commit_ms = now + self._settings.commit_interval_ms
            gc.collect(1)
        self._purge.run(now)
        self._look_at_topics(now)

    def _look_at_topics(self, now: int) -> None:
        try:
            if self._catalog.look(now):
                self._group.rejoin("there are other partitions")
        except BrokerError as error:
            log.warning("looking at topics: %s", error)

    def _too_dirty(self) -> bool:
        dirty = sum(active.state.dirty_bytes() for active in self.tasks.values())
        return dirty > self._settings.cache_max_bytes // 2

    def _begin_commit(self) -> None:
        try:
            self._commit.begin(self.tasks.values())
        except TaskMigratedError as error:
            log.warning("lost all tasks: %s", error)
            self._drop_all()
            self._group.rejoin("membership was lost")
        except DeliveryError:
            raise
        except BrokerError as error:
            log.warning("commit postponed: %s", error)
            self._next_commit_ms = self._clock.now_ms() + self._settings.commit_interval_ms

    def _await_last_commit(self) -> None:
        """Commit until nothing is left to say."""
        deadline = self._clock.now_ms() + self._settings.session_timeout_ms
        while any(active.changed or not active.claimed for active in self.tasks.values()):
            if self._clock.now_ms() > deadline:
                raise TimedOutError("no answer to the last commit")
            if not self._commit.sent:
                self._begin_commit()
            self._inbox.wait(POLL_MS)
            self._take_orders()

    # State.

    def _update_state(self) -> None:
        if self._stopping or self.state == "ERROR":
            return
        self._set_state("RUNNING" if self._activation.idle else "REBALANCING")

    def _set_state(self, state: str) -> None:
        running = tuple(
            sorted(t for t, active in self.tasks.items() if active.stage is Stage.RUNNING)
        )
        if (state, running) != (self.state, getattr(self, "_told", None)):
            self.state, self._told = state, running
            self._observer.state_changed(state, running)

    def _close(self) -> None:
        for close in (self._activation.close, self._source.close, self._sink.close):
            try:
                close()
            except StreamletError as error:
                log.warning("while closing: %s", error)
        self._group.close()


def _names(tasks: Iterable[TaskId]) -> str:
    return " ".join(str(task) for task in sorted(tasks)) or "none"
