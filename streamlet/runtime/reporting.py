"""Puts together what a member says of itself in the control topic, when there is something to say.

On the worker's thread, a few times a second. Something new is said at once, how far copies are
every second (those of global tables too, once more than a round's records are missing), and what
has not changed every half minute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import attrs

from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.control.values import MemberProgress, TaskProgress
from streamlet.kafka.ports import RecordSource
from streamlet.kafka.waiting_partitions import LONG_MS, WaitingPartitions
from streamlet.processing.global_tables import STEP_RECORDS, GlobalTables
from streamlet.runtime.transactions import OpenTransactions
from streamlet.state.rocksdb_options import memory_used
from streamlet.tasks.activation import Activation
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.manager import TaskManager
from streamlet.tasks.rebalance_events import RebalanceEvents
from streamlet.tasks.state_updater import StateUpdater
from streamlet.tasks.task_record import TaskRecord, TaskStage
from streamlet.tasks.task_registry import TaskRegistry
from streamlet.types import TaskId, TopicPartition


def memory_parts(registry: TaskRegistry, settings: Settings) -> tuple[tuple[str, int, int], ...]:
    """Each part of the memory with the bytes it uses, an estimate, and the bytes it may use."""
    blocks, memtables = memory_used()
    return (
        ("caches", registry.cached_bytes(), settings.cache_max_bytes),
        ("input", registry.waiting_bytes(), settings.input_buffer_max_bytes),
        ("blocks", blocks, settings.rocksdb_block_cache_bytes),
        ("memtables", memtables, settings.rocksdb_memtables_bytes),
    )


@attrs.define
class LongCalls:
    """Names the calls that records have waited for since ``LONG_MS``."""

    _waiting: WaitingPartitions = attrs.field(factory=WaitingPartitions)

    def problems(self, tasks: Iterable[ActiveTask], now_ms: int) -> dict[str, str]:
        """The reason why each task commits nothing, if it is the same call for so long."""
        found: dict[TopicPartition, tuple[str, str, int]] = {}
        for active in tasks:
            calls = active.processor.calls
            if calls is not None and (oldest := calls.oldest) is not None:
                node, call = oldest
                at = TopicPartition(call.topic, call.partition)
                found[at] = str(active.task), node, call.offset
        offsets = {at: offset for at, (_, _, offset) in found.items()}
        return {
            found[at][0]: (
                f"the call of {found[at][1]} for the record at offset {offset} of {at} has not "
                f"ended for {LONG_MS // 1000} s or more; timeout= of map_values_async() ends one"
            )
            for at, offset in self._waiting.for_long(offsets, now_ms).items()
        }


#: How often to look whether there is something new.
LOOK_MS = 250
#: How often to say how far copies are that are not ready, and what has not changed.
MOVING_MS = 1_000
RESTING_MS = 30_000

#: Offset reached and end, summed over a task's changelogs.
Reads: TypeAlias = Mapping[TaskId, tuple[int, int]]

_ACTIVE = {
    TaskStage.OPENING: "restoring",
    TaskStage.RUNNING: "running",
    TaskStage.STOPPED: "stopped",
    TaskStage.HELD: "stopped",
}
#: A wait for the commit of another task that takes longer is told, ms.
WAIT_MS = 2_000
_MOVING = frozenset({"learning", "waiting", "restoring", "stopped"})


@attrs.define(eq=False)
class Reporter:
    """Reports the tasks and the progress of one member to the control topic.

    Args:
        always: who it is, and all else of its reports that never changes.
        rebalance_events: has the task manager.
        publish: takes what is to be said; must not block.
        member_id: asks for its present member id.
        clock: the time.
        busy: share of the time it worked since this was asked last.
        settings: have the bounds of its memory.
        latencies: topics that it writes, with the longest time of late to an output, ms.
    """

    _always: MemberProgress
    _rebalance_events: RebalanceEvents
    _publish: Callable[[MemberProgress], None]
    _member_id: Callable[[], str]
    _clock: Clock
    _busy: Callable[[int], float | None] = lambda now_ms: None
    _settings: Settings | None = None
    _latencies: Callable[[], tuple[tuple[str, int], ...]] | None = None
    _look_at_ms: int = attrs.field(default=0, init=False)
    _reported_at_ms: int = attrs.field(default=0, init=False)
    _traits_reported: tuple[object, ...] = attrs.field(default=(), init=False)
    _moving: bool = attrs.field(default=False, init=False)
    _open: OpenTransactions = attrs.field(factory=OpenTransactions, init=False)
    _calls: LongCalls = attrs.field(factory=LongCalls, init=False)
    #: The positions of copies in the last report, to compute their rates from.
    _reached: dict[TaskId, int] = attrs.field(factory=dict, init=False)

    def look(
        self,
        now_ms: int,
        state: str,
        *,
        source: RecordSource,
        registry: TaskRegistry,
        activation: Activation,
        updater: StateUpdater | None,
        tables: GlobalTables | None = None,
        inputs: tuple[tuple[str, int], ...] | None = None,
    ) -> None:
        """Say what there is to say, if it is time to look; ``inputs`` as a report has them."""
        if now_ms < self._look_at_ms:
            return
        self._look_at_ms = now_ms + LOOK_MS
        problems = self._open.problems(registry.tasks.values(), source, now_ms)
        problems |= self._calls.problems(registry.tasks.values(), now_ms)
        waits = _waits(registry)
        problems |= _problems(registry, activation, updater)
        with self._rebalance_events.manager() as manager:
            outline = self._outline(manager, state, inputs)
        paused = [task for task, one in registry.tasks.items() if one.paused]
        latencies = None if self._latencies is None else self._latencies()
        # A report of each change would be many: that of a worst time of another magnitude counts.
        worst = max((ms for _, ms in latencies or ()), default=0).bit_length()
        traits = outline, problems, waits, paused, worst
        if not self._due(traits, now_ms):
            return
        reads: Reads = {} if updater is None else updater.reads
        lags = () if tables is None else tables.topic_lags
        behind = any(lag > STEP_RECORDS for _, lag in lags)
        self._moving = behind or any(task.stage in _MOVING for task in outline.tasks)
        tasks = tuple(
            attrs.evolve(
                self._measured(t, now_ms, reads, registry, source),
                problem=problems.get(t.task),
                **waits.get(t.task, {}),
            )
            for t in outline.tasks
        )
        self._traits_reported, self._reported_at_ms = traits, now_ms
        self._reached = {task: offset for task, (offset, _) in reads.items()}
        wall, busy = self._clock.wall_ms(), self._busy(now_ms)
        memory = None if self._settings is None else memory_parts(registry, self._settings)
        measured = attrs.evolve(outline, tasks=tasks, at_ms=wall, busy=busy)
        measured = attrs.evolve(measured, global_tables=lags, memory=memory)
        self._publish(attrs.evolve(measured, latencies=latencies))

    def _outline(
        self, manager: TaskManager, state: str, inputs: tuple[tuple[str, int], ...] | None
    ) -> MemberProgress:
        """The report without positions and lags, whose changes alone are no news."""
        return attrs.evolve(
            self._always,
            member_id=self._member_id(),
            state=state,
            generation=manager.generation,
            leaving=manager.leaving is not None,
            inputs=inputs,
            tasks=tuple(_of_record(*item) for item in sorted(manager.records.items())),
        )

    def _due(self, traits: tuple[object, ...], now_ms: int) -> bool:
        pause_ms = MOVING_MS if self._moving else RESTING_MS
        return traits != self._traits_reported or now_ms - self._reported_at_ms >= pause_ms

    def _measured(
        self,
        progress: TaskProgress,
        now_ms: int,
        reads: Reads,
        registry: TaskRegistry,
        source: RecordSource,
    ) -> TaskProgress:
        """With how far it is."""
        task = TaskId.parse(progress.task)
        if progress.stage == "running":
            lag, active = _input_lag(task, registry, source), registry.tasks.get(task)
            if active is None:
                return attrs.evolve(progress, lag=lag)
            progress = attrs.evolve(progress, paused=active.paused)
            counters = active.processor.counters
            late, dropped = counters.late or None, counters.dropped or None  # none is shorter
            misplaced = active.misplaced or None
            return attrs.evolve(progress, lag=lag, late=late, dropped=dropped, misplaced=misplaced)
        if task not in reads or progress.role == "released":
            return progress
        restored, end = reads[task]
        left = max(end - restored, 0)
        rate = self._rate(task, restored, now_ms)
        return attrs.evolve(
            progress,
            lag=left,
            restored=restored,
            end=end,
            rate=rate,
            eta_s=0.0 if not left else left / rate if rate else None,
        )

    def _rate(self, task: TaskId, restored: int, now_ms: int) -> float | None:
        """Records per second since the last report; None the first time."""
        before, since_ms = self._reached.get(task), self._reported_at_ms
        if before is None or now_ms <= since_ms:
            return None
        return max(restored - before, 0) * 1000 / (now_ms - since_ms)


def _problems(
    registry: TaskRegistry, activation: Activation, updater: StateUpdater | None
) -> dict[str, str]:
    """The reasons why active tasks, or copies, stand still, by task."""
    read = {} if updater is None else updater.problems
    found = {str(task): why for task, why in (read | activation.troubles.problems).items()}
    halted = ((task, one.halted) for task, one in registry.tasks.items() if one.halted)
    return found | {str(task): reason for task, reason in halted}


def _waits(registry: TaskRegistry) -> dict[str, dict[str, Any]]:
    """The task that the input of each waits for, as fields of its progress."""
    found = {}
    for task, active in registry.tasks.items():
        edges = active.processor.edges
        waits = None if edges is None else edges.waits_for(WAIT_MS)
        if waits is not None:
            writer, waited_ms = waits
            found[str(task)] = {"waits_for": str(writer), "waits_s": waited_ms // 1000}
    return found


def _of_record(task: TaskId, record: TaskRecord) -> TaskProgress:
    copy, generation = record.copy, record.generation
    match record.stage:
        case TaskStage.COPIED:
            assert copy is not None, task
            return TaskProgress(str(task), copy.role.value, "ready" if copy.ready else "learning")
        case TaskStage.WAITING:
            return TaskProgress(str(task), "pending", "waiting", generation=generation)
        case TaskStage.RELEASED:
            return TaskProgress(str(task), "released", "released")
        case stage:
            return TaskProgress(str(task), "active", _ACTIVE[stage], generation=generation)


def _input_lag(task: TaskId, registry: TaskRegistry, source: RecordSource) -> int | None:
    """Input records that were not processed yet, as far as the last fetches know."""
    active = registry.tasks.get(task)
    if active is None:
        return None
    ends = {tp: source.known_end(tp) for tp in active.positions}
    known = [max(end - active.positions[tp], 0) for tp, end in ends.items() if end is not None]
    return sum(known) if known else None
