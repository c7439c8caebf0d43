"""When a member says something of itself, and what."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest

from streamlet.assignor.values import Leaving
from streamlet.clock import ManualClock
from streamlet.control.values import MemberProgress, TaskProgress
from streamlet.coordinator.events import Assigned, JoinBlocked
from streamlet.kafka.waiting_partitions import LONG_MS
from streamlet.processing.global_tables import STEP_RECORDS
from streamlet.processing.record_failures import RecordCounters
from streamlet.rebalance.values import Assignment
from streamlet.runtime.reporting import LOOK_MS, MOVING_MS, RESTING_MS, Reporter, _waits
from streamlet.tasks.manager import TaskManager
from streamlet.tasks.rebalance_events import RebalanceEvents
from streamlet.tasks.task_events import (
    Action,
    CopyLag,
    GiveUp,
    HandoverRules,
    LeavingSet,
    TaskClaimed,
    TaskEvent,
    TaskRunning,
)
from streamlet.tasks.task_record import TaskStage
from streamlet.types import TaskId, TopicPartition

A, B, C = TaskId(0, 0), TaskId(0, 1), TaskId(0, 2)
BETWEEN = (("words-1-repartition", ""),)


@attrs.define
class Active:
    positions: dict[TopicPartition, int]
    halted: str = ""
    paused: bool = False
    task: TaskId = A
    misplaced: str = ""
    counters: RecordCounters = attrs.field(factory=RecordCounters)
    calls: Any = None
    edges: None = None

    @property
    def processor(self) -> Active:
        return self

    @property
    def inputs(self) -> tuple[TopicPartition, ...]:
        return (*self.positions,)


@attrs.define
class Parts:
    """What a worker has, as far as it is asked."""

    tasks: dict[TaskId, Active] = attrs.field(factory=dict)
    ends: dict[TopicPartition, int | None] = attrs.field(factory=dict)
    copied: Mapping[TaskId, tuple[int, int]] = attrs.field(factory=dict)
    problems: dict[TaskId, str] = attrs.field(factory=dict)
    held: dict[TopicPartition, int] = attrs.field(factory=dict)

    @property
    def troubles(self) -> Parts:
        return self

    def held_from(self, partition: TopicPartition) -> int | None:
        return self.held.get(partition)

    def known_end(self, partition: TopicPartition) -> int | None:
        return self.ends.get(partition)


@attrs.define
class Copied:
    reads: Mapping[TaskId, tuple[int, int]]
    problems: Mapping[TaskId, str]


@attrs.define
class Tables:
    topic_lags: tuple[tuple[str, int], ...]


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock(1_000)
        self.manager = TaskManager(HandoverRules(acceptable_lag=10))
        self.parts = Parts()
        self.troubles: dict[TaskId, str] = {}
        self.said: list[MemberProgress] = []
        self.tables: Tables | None = None
        self.inputs: tuple[tuple[str, int], ...] | None = None
        self.reporter = Reporter(
            MemberProgress("p", 0, "h-0", "", 0, repartitions=BETWEEN, read_committed=True),
            RebalanceEvents(self.manager, self.clock),
            publish=self.said.append,
            member_id=lambda: "id",
            clock=self.clock,
        )

    def look(self, ms: int = LOOK_MS, state: str = "RUNNING") -> MemberProgress | None:
        """Time passes, and the worker comes round; what it said then."""
        self.clock.advance(ms)
        before = len(self.said)
        parts: Any = self.parts
        copies: Any = Copied(self.parts.copied, self.troubles)
        tables: Any = self.tables
        self.reporter.look(
            self.clock.now_ms(),
            state,
            source=parts,
            registry=parts,
            activation=parts,
            updater=copies,
            tables=tables,
            inputs=self.inputs,
        )
        return self.said[-1] if len(self.said) > before else None

    def happened(self, *events: TaskEvent) -> list[Action]:
        now_ms = self.clock.now_ms()
        return [action for event in events for action in self.manager.handle(event, now_ms)]

    def assigned(self, generation: int, **orders: Any) -> list[Action]:
        return self.happened(Assigned(generation, "id", Assignment(**orders)))


def test_news_are_told_at_the_next_look_and_nothing_is_told_every_half_minute() -> None:
    bench = Bench()
    first = bench.look()
    assert first is not None
    assert (first.member, first.member_id, first.at_ms, first.tasks) == ("h-0", "id", 1_250, ())
    assert first.read_committed
    assert bench.look() is None
    bench.assigned(1, active=frozenset({A}))
    assert bench.look(LOOK_MS - 1) is None
    told = bench.look(1)
    assert told is not None
    assert told.tasks == (TaskProgress("0_0", "active", "restoring", generation=1),)
    bench.happened(TaskRunning(A))
    assert bench.look() is not None
    assert bench.look(RESTING_MS - 1) is None
    assert bench.look() is not None
    bench.happened(LeavingSet(Leaving(5)))
    leaving = bench.look()
    assert leaving is not None
    assert leaving.leaving


def test_what_the_leader_reads_is_told_as_soon_as_it_leads_or_reads_more() -> None:
    bench = Bench()
    said = bench.look()
    assert said is not None
    assert said.inputs is None
    for inputs in ((("words", 2),), (("words", 4),)):
        bench.inputs = inputs
        said = bench.look()
        assert said is not None
        assert said.inputs == inputs


def test_a_learner_is_told_of_each_second_with_its_rate_until_it_is_ready() -> None:
    bench = Bench()
    bench.assigned(1, learner=frozenset({A}))
    bench.parts.copied = {A: (100, 400)}
    told = bench.look()
    assert told is not None
    begun = TaskProgress("0_0", "learner", "learning", 300, 100, 400)
    assert told.tasks == (begun,)
    bench.parts.copied = {A: (200, 400)}
    assert bench.look(MOVING_MS - 1) is None
    told = bench.look(LOOK_MS)
    assert told is not None
    rate = 100 * 1000 / (MOVING_MS - 1 + LOOK_MS)
    assert told.tasks == (attrs.evolve(begun, lag=200, restored=200, rate=rate, eta_s=200 / rate),)
    bench.happened(CopyLag(A, 5))
    told = bench.look()
    assert told is not None
    assert told.tasks[0].stage == "ready"
    assert bench.look(MOVING_MS + LOOK_MS) is None


@pytest.mark.parametrize(
    "stage", [one for one in TaskStage if one not in (TaskStage.COPIED, TaskStage.CLOSED)]
)
def test_there_is_a_word_for_a_claim_in_every_stage(stage: TaskStage) -> None:
    bench = Bench()
    bench.assigned(1, active=frozenset({A}))
    bench.manager.records[A].stage = stage
    told = bench.look()
    assert told is not None
    assert [task.task for task in told.tasks] == ["0_0"]


def test_a_handover_can_be_followed_from_both_ends() -> None:
    bench = Bench()
    bench.assigned(1, active=frozenset({A}))
    bench.happened(TaskRunning(A), TaskClaimed(A))
    actions = bench.assigned(2, release={A: "other"}, pending={B: "other"})
    token = next(one.unit.token for one in actions if isinstance(one, GiveUp))
    stages = {task.task: (task.role, task.stage) for task in (bench.look() or bench.said[0]).tasks}
    assert stages == {"0_0": ("active", "running"), "0_1": ("pending", "waiting")}
    bench.happened(JoinBlocked(token, True))
    told = bench.look()
    assert told is not None
    assert [task.stage for task in told.tasks] == ["stopped", "waiting"]


def test_an_active_task_lags_by_what_its_inputs_still_hold() -> None:
    bench = Bench()
    bench.assigned(1, active=frozenset({A, B, C}))
    for task in (A, B, C):
        bench.happened(TaskRunning(task))
    x, y = TopicPartition("x", 0), TopicPartition("y", 0)
    bench.parts.tasks = {A: Active({x: 4, y: 9}), B: Active({TopicPartition("x", 1): 0})}
    bench.parts.ends = {x: 10, y: 8}
    told = bench.look()
    assert told is not None
    assert [task.lag for task in told.tasks] == [6, None, None]


def test_a_transaction_that_is_open_for_long_is_named_with_the_task_that_waits() -> None:
    bench = Bench()
    bench.assigned(1, active=frozenset({A}))
    bench.happened(TaskRunning(A))
    x = TopicPartition("x", 0)
    bench.parts.tasks, bench.parts.held = {A: Active({x: 4})}, {x: 4}
    told = bench.look()
    assert told is not None
    assert told.tasks[0].problem is None
    bench.parts.held = {x: 9}  # another one
    assert bench.look(LONG_MS) is None
    told = bench.look(LONG_MS)
    assert told is not None
    assert told.tasks[0].problem == (
        "a transaction that is open since offset 9 of x-0 holds back what is behind it, until it "
        "is committed or aborted"
    )
    bench.parts.held = {}
    told = bench.look()
    assert told is not None
    assert told.tasks[0].problem is None


def test_a_call_that_takes_long_is_named_with_the_task_whose_commits_wait() -> None:
    bench = Bench()
    bench.assigned(1, active=frozenset({A}))
    bench.happened(TaskRunning(A))
    x = TopicPartition("x", 0)

    def waits_at(offset: int) -> None:
        oldest = "KSTREAM-CALLS-1", SimpleNamespace(topic="x", partition=0, offset=offset)
        bench.parts.tasks = {A: Active({x: 4}, calls=SimpleNamespace(oldest=oldest))}

    waits_at(4)
    told = bench.look()
    assert told is not None
    assert told.tasks[0].problem is None
    waits_at(5)  # another one
    assert bench.look(LONG_MS) is None
    told = bench.look(LONG_MS)
    assert told is not None
    assert told.tasks[0].problem == (
        "the call of KSTREAM-CALLS-1 for the record at offset 5 of x-0 has not ended for 10 s or "
        "more; timeout= of map_values_async() ends one"
    )


def test_a_task_that_is_restored_here_is_told_of_as_well() -> None:
    bench = Bench()
    bench.assigned(3, active=frozenset({A}))
    bench.parts.copied = {A: (7, 7)}
    told = bench.look()
    assert told is not None
    assert told.tasks == (
        TaskProgress("0_0", "active", "restoring", 0, 7, 7, None, 0.0, generation=3),
    )


def test_a_task_that_stands_still_is_told_of_at_once_with_the_reason() -> None:
    bench = Bench()
    bench.assigned(1, active=frozenset({A, B, C}))
    bench.parts.tasks = {A: Active({}), B: Active({})}
    assert bench.look() is not None
    bench.parts.tasks[B].halted = "words-1 holds 5 to 9"
    bench.parts.problems = {C: "no space left"}
    told = bench.look()
    assert told is not None
    assert [task.problem for task in told.tasks] == [None, "words-1 holds 5 to 9", "no space left"]
    assert bench.look() is None, "it is said once"
    bench.parts.problems = {}
    told = bench.look()
    assert told is not None
    assert [task.problem for task in told.tasks] == [None, "words-1 holds 5 to 9", None]


def test_a_copy_that_waits_for_a_lock_is_told_of_with_the_reason() -> None:
    bench = Bench()
    bench.assigned(1, learner=frozenset({A}))
    assert bench.look() is not None
    bench.troubles = {A: "waits for a lock: it is held by process 7"}
    told = bench.look()
    assert told is not None
    assert [task.problem for task in told.tasks] == ["waits for a lock: it is held by process 7"]


def test_a_running_task_reports_how_many_records_were_late_and_dropped() -> None:
    bench = Bench()
    bench.assigned(1, active=frozenset({A, B}))
    for task, late, dropped in ((A, 7, 0), (B, 0, 3)):
        bench.happened(TaskRunning(task))
        bench.parts.tasks[task] = Active({}, counters=RecordCounters(late=late, dropped=dropped))
    told = bench.look()
    assert told is not None
    assert [(task.late, task.dropped) for task in told.tasks] == [(7, None), (None, 3)]
    assert told.repartitions == BETWEEN


def test_copies_of_global_tables_are_told_of_each_second_while_they_are_far_behind() -> None:
    bench = Bench()
    told = bench.look()
    assert told is not None
    assert told.global_tables == ()
    bench.tables = Tables((("rates", STEP_RECORDS),))
    assert bench.look(MOVING_MS) is None
    told = bench.look(RESTING_MS)
    assert told is not None
    assert told.global_tables == (("rates", STEP_RECORDS),)
    bench.tables = Tables((("rates", STEP_RECORDS + 1),))
    assert bench.look(RESTING_MS) is not None
    bench.tables = Tables((("rates", 7),))
    told = bench.look(MOVING_MS)
    assert told is not None
    assert told.global_tables == (("rates", 7),)
    assert bench.look(MOVING_MS) is None


def test_a_task_that_waits_long_for_the_commit_of_another_says_for_whose() -> None:
    waits = {2_000: (TaskId(0, 3), 4_200)}
    tasks = {
        TaskId(1, number): SimpleNamespace(processor=SimpleNamespace(edges=edges))
        for number, edges in enumerate((SimpleNamespace(waits_for=waits.get), None))
    }
    registry = cast(Any, SimpleNamespace(tasks=tasks))
    assert _waits(registry) == {"1_0": {"waits_for": "0_3", "waits_s": 4}}
