"""Failures that concern one running task: its stores, or a log that lacks its position.

The worker's other tasks go on meanwhile, and do not notice.

Stores fail where files are damaged or a disk is full. A store is never more than a copy of what
the changelog and the commits say. So the task is closed as of its last commit, what is damaged is
deleted, and the task comes up again like any other.

A log does not hold a position any more where retention overtook it, records were deleted, or it
lost its end. It is asked, beside the loop, what it holds now.

* The task was taken over: its new owner had records of a repartition topic deleted that it had
  committed. The member that is late reads no more of it, and is about to learn that the task is
  lost. A period without a claim may have the same epoch as that of the new owner.
* The position is before the log's start: ``auto.offset.reset`` decides. Under ``none`` the task is
  halted: it reads nothing, commits what it has, and can be handed over.
* The topic was made again: the task commits and is brought up again, at the first record there.
* The position is behind the log's end, or the partition is a table's own: the task restarts from
  its commit, and its start decides (``tasks.start``, ``tasks.local_state``).
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.errors import StateError, StreamletError, TaskCorruptedError
from streamlet.logs import get_logger
from streamlet.tasks.activation import ASK_AGAIN_MS, Activation
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.meters import Meters
from streamlet.tasks.start import InputRange, is_table, policy_name, reset_policy
from streamlet.tasks.target import Target
from streamlet.tasks.targets import TargetAnswer
from streamlet.tasks.task_actions import TaskActions
from streamlet.tasks.task_record import TaskStage
from streamlet.tasks.task_registry import TaskRegistry
from streamlet.types import TopicPartition

log = get_logger(__name__)


@attrs.frozen(eq=False)
class StoreFailures:
    """Handles errors of the stores of active tasks.

    Args:
        registry: the active tasks.
        activation: opens them again.
        actions: closes them.
        meters: counts.
        lose: called when all tasks are to be brought up again.
    """

    _registry: TaskRegistry
    _activation: Activation
    _actions: TaskActions
    _meters: Meters
    _lose: Callable[[StreamletError], None]

    def restart(self, error: StateError) -> None:
        """Close the task that the error names, and bring it up again from its last commit.

        That is not enough where its last commit is on its way to another member: then all tasks are
        brought up again.

        Raises:
            StateError: this one, if it names no active task.
        """
        active = self._blame(error)
        self._meters.store_failures += 1
        if active.stage is not TaskStage.RUNNING:
            self._lose(error)
            return
        if active.opened.damaged:
            log.warning("task %s is restored, and the others go on: %s", active.task, error)
        else:
            self._activation.put_off(active.task, str(error))
        self._actions.restart(active)

    def give_up(self, error: StateError) -> None:
        """Close the task that the error names, for good; raises as ``restart``."""
        active = self._blame(error)
        log.warning("%s; the next owner of task %s repeats its last commit", error, active.task)
        self._registry.drop(active)

    def _blame(self, error: StateError) -> ActiveTask:
        active = None if error.task is None else self._registry.tasks.get(error.task)
        if active is None:
            raise error
        active.opened.damaged = isinstance(error, TaskCorruptedError)
        return active


@attrs.define(eq=False, slots=False)
class OutOfRange:
    """Positions of running tasks that their logs do not hold.

    Args:
        settings: the application's.
        registry: the active tasks.
        activation: asks what logs hold.
        actions: restarts tasks.
        meters: counts.
        clock: for retries.
    """

    _settings: Settings
    _registry: TaskRegistry
    _activation: Activation
    _actions: TaskActions
    _meters: Meters
    _clock: Clock
    _asked: dict[TopicPartition, tuple[ActiveTask, TargetAnswer]] = attrs.field(
        factory=dict, init=False
    )
    _ask_again_ms: dict[TopicPartition, int] = attrs.field(factory=dict, init=False)

    @property
    def waiting(self) -> bool:
        """True if ``step`` has something to do."""
        return bool(self._asked or self._ask_again_ms)

    def met(self, partition: TopicPartition) -> bool:
        """Ask what the log of this partition holds; False if no running task reads it."""
        active = self._registry.by_partition.get(partition)
        if active is not None:
            found = self._activation.targets.read([active.task])
            self._asked[partition] = active, found
        return active is not None

    def step(self) -> None:
        """Take the answers that have come.

        Raises:
            StreamletError: the brokers refuse to say what a log holds.
        """
        now = self._clock.now_ms()
        for partition in [tp for tp, at in self._ask_again_ms.items() if at <= now]:
            del self._ask_again_ms[partition]
            self.met(partition)
        for partition, (active, found) in list(self._asked.items()):
            if found.done():
                del self._asked[partition]
                if self._registry.by_partition.get(partition) is active:
                    self._take(active, partition, found)

    def _take(self, active: ActiveTask, partition: TopicPartition, found: TargetAnswer) -> None:
        try:
            target = found.result()[active.task]
        except StreamletError as error:
            if not self._activation.missing.waits_out(error):
                raise
            log.warning("task %s waits for what %s holds: %s", active.task, partition, error)
            self._ask_again_ms[partition] = self._clock.now_ms() + ASK_AGAIN_MS
        else:
            self._decide(active, partition, target)

    def _decide(self, active: ActiveTask, partition: TopicPartition, target: Target) -> None:
        held = target.ranges[partition]
        position, task = active.processor.received[partition], active.task
        where = f"task {task}: {partition} holds {held.first} to {held.end}, its position is "
        where += str(position)
        if target.epoch >= active.epoch + active.claimed:  # a period that is not ours has it
            log.warning("%s; another member has taken the task over", where)
            return
        active.compare(target.topic_ids or {})
        if active.remade:
            log.warning("%s; the topic was made again, and is read from its first record", where)
            self._meters.out_of_range["restarted"] += 1
        elif held.first <= position <= held.end:
            self._registry.skip_to(active, partition, position)
        elif position > held.end or is_table(active.subtopology, partition.topic):
            log.warning("%s; it restarts from its commit", where)
            self._meters.out_of_range["restarted"] += 1
            self._actions.restart(active)
        else:
            self._reset(active, partition, held, where)

    def _reset(
        self, active: ActiveTask, partition: TopicPartition, held: InputRange, where: str
    ) -> None:
        policy = policy_name(reset_policy(active.subtopology, partition.topic, self._settings))
        if policy == "none":
            reason = f"{where}, and auto.offset.reset is none; start with earliest or latest"
            log.error("%s; the task is halted, the others go on", reason)
            self._meters.out_of_range["halted"] += 1
            self._registry.halt(active, reason)
            return
        start = held.without_position(policy)
        log.warning("%s; it goes on at %s, %d", where, policy, start)
        self._meters.out_of_range[policy] += 1
        self._registry.skip_to(active, partition, start)
