"""The active tasks of a worker, and the input partitions that they read.

The input of tasks that are about to be ours is fetched before it is known where they begin. A task
that is handed over begins at the offsets of its mark. Fetching only from then on would cost a round
trip to the broker, and the fetch under way before it, while no member runs the task. So from the
first look at its committed positions, when the mark is still to come, its input is read from there;
the mark then says which of these records count. A purge may delete what was just begun to be read:
then the task begins the usual way (``give_up``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from streamlet.garbage import GarbageCollection
from streamlet.kafka.ports import PartitionBatch, RecordSource
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.input_bound import InputBound
from streamlet.tasks.open_task import OpenTask
from streamlet.tasks.served_tasks import ServedTasks
from streamlet.tasks.task_record import TaskStage
from streamlet.types import TaskId, TopicPartition

#: Records of one partition that may wait; what is behind them is fetched when the task runs.
MOST_RECORDS = 10_000


@attrs.define
class _Fetched:
    """One partition: what was read, without a hole, from ``start`` to before ``end``."""

    task: TaskId
    start: int
    end: int
    batches: list[PartitionBatch] = attrs.field(factory=list)
    paused: bool = False

    def forget_below(self, offset: int) -> None:
        """Keep what is at or behind an offset that was read."""
        self.batches = [cut for batch in self.batches if len(cut := from_offset(batch, offset))]
        self.start = offset


@attrs.define(eq=False)
class Prefetcher:
    """Reads the input of tasks before they are ours, and keeps it by task.

    Args:
        source: the worker's consumer.
    """

    _source: RecordSource
    _fetched: dict[TopicPartition, _Fetched] = attrs.field(factory=dict, init=False)

    def read(self, task: TaskId, committed: Mapping[TopicPartition, int]) -> None:
        """Read this task's input from these offsets, or drop what is below them; -1 is unknown.

        Raises:
            BrokerError: the client refused.
        """
        if any(offset < 0 for offset in committed.values()):
            return
        new = {tp: offset for tp, offset in committed.items() if tp not in self._fetched}
        if new:
            self._fetched |= {tp: _Fetched(task, at, at) for tp, at in new.items()}
            self._source.assign(new)
        for tp in committed.keys() - new.keys():
            one = self._fetched[tp]
            if one.start < committed[tp] <= one.end:
                one.forget_below(committed[tp])
        self._bound(committed)

    def take(self, batch: PartitionBatch) -> bool:
        """Keep a batch; False if it is not of a partition that is read ahead."""
        tp = TopicPartition(batch.topic, batch.partition)
        one = self._fetched.get(tp)
        if one is None:
            return False
        one.batches.append(batch)
        one.end = batch.offsets[-1] + 1
        self._bound((tp,))
        return True

    def give(
        self, task: TaskId, positions: Mapping[TopicPartition, int]
    ) -> list[PartitionBatch] | None:
        """The records from these offsets on; the consumer goes on behind them.

        None if that is not what was read: the partitions are not assigned any more.
        """
        mine = {tp: one for tp, one in self._fetched.items() if one.task == task}
        good = mine.keys() == positions.keys() and all(
            one.start <= positions[tp] <= one.end for tp, one in mine.items()
        )
        if not good:
            self._forget(mine)
            return None
        for tp, one in mine.items():
            one.forget_below(positions[tp])
            del self._fetched[tp]
        paused = [tp for tp, one in mine.items() if one.paused]
        if paused:
            self._source.resume(paused)
        return [batch for tp in sorted(mine) for batch in mine[tp].batches]

    def only(self, tasks: Iterable[TaskId]) -> None:
        """Forget what was read ahead for all but these tasks."""
        if self._fetched:
            kept = frozenset(tasks)
            self._forget([tp for tp, one in self._fetched.items() if one.task not in kept])

    def give_up(self, partition: TopicPartition) -> bool:
        """Let go of this partition's task; False if it is not one that is read ahead."""
        one = self._fetched.get(partition)
        if one is None:
            return False
        self._forget([tp for tp, other in self._fetched.items() if other.task == one.task])
        return True

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        gone = list(partitions)
        if gone:
            self._source.unassign(gone)
        for tp in gone:
            del self._fetched[tp]

    def _bound(self, partitions: Iterable[TopicPartition]) -> None:
        """Pause what has enough waiting, resume it when that was dropped."""
        for tp in partitions:
            one = self._fetched[tp]
            full = sum(map(len, one.batches)) >= MOST_RECORDS
            if full != one.paused:
                one.paused = full
                (self._source.pause if full else self._source.resume)([tp])


def from_offset(batch: PartitionBatch, offset: int) -> PartitionBatch:
    """The records of a batch at or behind an offset."""
    first = bisect_left(batch.offsets, offset)
    return batch.slice(first) if first else batch


@attrs.define(eq=False, slots=False)
class TaskRegistry:
    """The active tasks of a worker: those held, those that run, and the input fetched for them.

    Args:
        source: the worker's consumer.
        cache_bytes: ``cache.max.bytes``, shared equally by stateful tasks.
        input_bound: how much of an input partition may wait.
        forget: called with a task that is about to be closed.
        close: closes stores, now or soon.
        served: those whose stores may be queried.
    """

    _source: RecordSource
    _cache_bytes: int
    input_bound: InputBound
    _forget: Callable[[ActiveTask], None]
    _close: Callable[[OpenTask], None] = OpenTask.close
    _served: ServedTasks = attrs.field(factory=ServedTasks)
    #: All tasks held, in whatever stage, in order.
    tasks: dict[TaskId, ActiveTask] = attrs.field(factory=dict, init=False)
    #: Running tasks by input partition.
    by_partition: dict[TopicPartition, ActiveTask] = attrs.field(factory=dict, init=False)
    _paused: set[TopicPartition] = attrs.field(factory=set, init=False)
    #: Input of tasks to come, and what was read so of tasks that run now.
    ahead: Prefetcher = attrs.field(init=False)
    #: Closed tasks are what it is to collect.
    garbage: GarbageCollection = attrs.field(factory=GarbageCollection, init=False)
    _kept: list[PartitionBatch] = attrs.field(factory=list, init=False)

    @ahead.default
    def _none_ahead(self) -> Prefetcher:
        return Prefetcher(self._source)

    @property
    def idle(self) -> bool:
        """True if no task runs, so that nothing has to be done between two steps."""
        return not self.by_partition

    def of_stage(self, stage: TaskStage) -> list[ActiveTask]:
        """The tasks in a stage, in order."""
        return [active for active in self.tasks.values() if active.stage is stage]

    def unclaimed(self) -> list[ActiveTask]:
        """Running tasks whose active period was not claimed yet."""
        return [one for one in self.of_stage(TaskStage.RUNNING) if not one.claimed]

    def asks_commit(self) -> bool:
        """True if a processor of a running task asks for a commit, and there is something in it."""
        asking = (one for one in self.tasks.values() if one.processor.commit_requested)
        return any(one.stage is TaskStage.RUNNING and one.changed for one in asking)

    def with_held(self) -> list[ActiveTask]:
        """Running tasks whose records wait in repartition topics for a commit not yet begun."""
        held = ((one, one.held) for one in self.of_stage(TaskStage.RUNNING))
        return [one for one, writer in held if writer is not None and writer.wants_commit]

    def dirty_bytes(self) -> int:
        """Estimate of the memory that only a commit can free."""
        return sum(active.state.dirty_bytes() for active in self.tasks.values())

    def add(self, *opened: ActiveTask) -> None:
        """Hold tasks that were opened."""
        for active in opened:
            assert active.task not in self.tasks, active.task
            self.tasks[active.task] = active
        ordered = sorted(self.tasks.items())  # here, since every round goes through them
        self.tasks.clear()
        self.tasks.update(ordered)
        self._share_cache()

    def resume(self, actives: Iterable[ActiveTask]) -> None:
        """Have restored or stopped tasks process, from where they are."""
        positions = dict[TopicPartition, int]()
        for active in actives:
            active.move_to(TaskStage.RUNNING)
            active.halted, active.paused = "", False
            self._served.add(active)
            self.by_partition |= dict.fromkeys(active.inputs, active)
            kept = self.ahead.give(active.task, active.processor.received)
            if kept is None:
                positions |= active.processor.received
            else:
                self._kept += kept
        if positions:  # by one call: a client takes a millisecond for each
            self._source.assign(positions)

    def take_kept(self) -> list[PartitionBatch]:
        """Records of running tasks that were read before they ran; they come first."""
        kept, self._kept = self._kept, []
        return kept

    def stop(self, tasks: Iterable[ActiveTask]) -> None:
        """Process nothing more of these running tasks, but keep them as they are."""
        stopped = list(tasks)
        self._stop_fetching(stopped)
        for active in stopped:
            active.move_to(TaskStage.STOPPED)

    def halt(self, active: ActiveTask, reason: str) -> None:
        """Stop reading for a running task, which ends its batch and can be handed over."""
        self._source.unassign(active.inputs)
        self._paused.difference_update(active.inputs)
        active.halted = reason

    def set_paused(self, active: ActiveTask, paused: bool) -> None:
        """Read nothing more of a running task, or go on reading it where it was."""
        active.paused = paused
        if active.halted:
            return
        if paused:
            self._source.unassign(active.inputs)
            self._paused.difference_update(active.inputs)
        else:
            self._source.assign(active.processor.received)

    def skip_to(self, active: ActiveTask, partition: TopicPartition, offset: int) -> None:
        """Go on reading an input partition of a running task at this offset."""
        active.processor.skip_to(partition, offset)
        self._source.assign({partition: offset})  # which resumes it
        self._paused.discard(partition)

    def drop(self, active: ActiveTask) -> None:
        """Close a task as of the last commit that was accepted; its folder stays."""
        self._served.remove(active.task)
        self._stop_fetching([active])
        active.processor.close()
        self._forget(active)
        self.garbage.closed()
        active.move_to(TaskStage.CLOSED)
        self._close(active.opened)
        del self.tasks[active.task]
        self._share_cache()

    def bound(self, active: ActiveTask) -> bool:
        """Pause the partitions of a task that have enough waiting; resume them at half of that.

        True if some of its records wait.
        """
        buffered = active.processor.buffered()
        self._bound(active, buffered)
        return any(buffered.values())

    def _bound(self, active: ActiveTask, buffered: Mapping[TopicPartition, int]) -> None:
        if active.stands:  # none of them is read
            return
        shared_by = len(self.by_partition)
        most = {tp: self.input_bound.most(tp.topic, shared_by) for tp in buffered}
        full = [tp for tp, n in buffered.items() if n > most[tp] and tp not in self._paused]
        low = [tp for tp, n in buffered.items() if n <= most[tp] // 2 and tp in self._paused]
        if full:
            self._source.pause(full)
            self._paused.update(full)
        if low:
            self._source.resume(low)
            self._paused.difference_update(low)

    def any_delays_stop(self, tasks: Iterable[TaskId]) -> bool:
        """Ask all of these tasks to come to an end; True if one of them cannot be stopped yet."""
        return any([task in self.tasks and self.tasks[task].delays_stop() for task in tasks])

    def pause(self, active: ActiveTask) -> None:
        """Fetch no more for a task until ``bound`` finds that little waits."""
        self._bound(active, dict.fromkeys(active.inputs, self.input_bound.most_records + 1))

    def _stop_fetching(self, tasks: Sequence[ActiveTask]) -> None:
        """Have the client forget their inputs, at once: each call waits for a thread of its own."""
        mine = [tp for task in tasks for tp in task.inputs if self.by_partition.get(tp) is task]
        if mine:
            self._source.unassign(mine)
        for tp in mine:
            del self.by_partition[tp]
        self._paused.difference_update(mine)
        if self._kept:
            running = self.by_partition
            self._kept = [b for b in self._kept if TopicPartition(b.topic, b.partition) in running]

    def cached_bytes(self) -> int:
        """Estimate of the memory of the stores' caches."""
        return sum(
            store.commits.cache_bytes()
            for active in self.tasks.values()
            for store in active.state.stores.values()
        )

    def waiting_bytes(self) -> int:
        """Estimate of the memory of the input that was read ahead and not processed."""
        buffered = [active.processor.buffered() for active in self.tasks.values()]
        return sum(
            self.input_bound.bytes_of(tp.topic, records)
            for one in buffered
            for tp, records in one.items()
        )

    def _share_cache(self) -> None:
        holders = [active for active in self.tasks.values() if active.subtopology.stateful]
        for active in holders:
            active.state.cache_bytes = self._cache_bytes // len(holders)
