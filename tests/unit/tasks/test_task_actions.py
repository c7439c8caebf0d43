"""What a worker makes of news that came while it was busy, all of it in one round."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest

from streamlet.clock import ManualClock
from streamlet.coordinator.events import (
    Assigned,
    CommitDone,
    CommitOutcome,
    JoinBlocked,
    JoinSoon,
    Lost,
    UnblockJoin,
)
from streamlet.processing.edges.agreement import Agreement
from streamlet.rebalance.values import Assignment
from streamlet.tasks.commit_loop import Precopy
from streamlet.tasks.commit_share import Settled
from streamlet.tasks.input_bound import InputBound
from streamlet.tasks.manager import TaskManager
from streamlet.tasks.meters import Meters
from streamlet.tasks.rebalance_events import RebalanceEvents
from streamlet.tasks.task_actions import TaskActions
from streamlet.tasks.task_events import HandoverRules, TaskClaimed, TaskEvent, TaskRunning
from streamlet.tasks.task_record import TaskStage, Unit, UnitStage
from streamlet.tasks.task_registry import TaskRegistry
from streamlet.testing.memory_ports import MemoryLog, MemorySource
from streamlet.types import TaskId

T, U = TaskId(0, 1), TaskId(0, 2)


@attrs.define
class OneCommit:
    """A commit port with a commit of ``T`` under way; ``meanwhile``: called when it is over."""

    sent: bool = False
    forgot: bool = False
    unit: Unit | None = None
    meanwhile: Callable[[], None] = lambda: None
    texts: object = attrs.field(factory=SimpleNamespace)

    def done(self, token: int, outcome: CommitOutcome, code: int, gone: Any) -> Settled:
        self.meanwhile()
        part: Any = SimpleNamespace(active=SimpleNamespace(task=T), offsets={T: 1}, remade=False)
        return Settled(outcome, (part,), self.unit)

    def forget_queued(self) -> None:
        self.forgot = True

    def abort(self) -> None:
        pass


@attrs.define
class Wanted:
    """Tasks to bring up."""

    tasks: frozenset[TaskId] = frozenset()
    settling: frozenset[TaskId] = frozenset()
    edges: object = attrs.field(factory=lambda: SimpleNamespace(agreement=Agreement()))

    def want(self, task: TaskId, positions: object) -> None:
        self.tasks |= {task}

    def want_again(self, task: TaskId) -> None:
        self.settling |= {task}

    def settled(self) -> None:
        self.tasks |= self.settling
        self.settling = frozenset()

    def cancel(self, task: TaskId) -> None:
        self.tasks -= {task}
        self.settling -= {task}


@attrs.define
class Copies:
    """Copies of which only is known which are kept."""

    wanted: frozenset[TaskId] = frozenset()

    def set(self, tasks: frozenset[TaskId]) -> None:
        self.wanted = tasks

    def prefer(self, tasks: frozenset[TaskId]) -> None:
        pass

    def take(self) -> list[object]:
        return []


@attrs.define
class Wishes:
    """A membership that notes what is wanted of it."""

    made: list[object] = attrs.field(factory=list)

    def want(self, wish: object) -> None:
        self.made.append(wish)


@attrs.define
class Scene:
    """A worker of which only the rules and what they lead to are real; it runs ``T``, claimed."""

    commit: OneCommit = attrs.field(factory=OneCommit)
    wanted: Wanted = attrs.field(factory=Wanted)
    copies: Copies = attrs.field(factory=Copies)
    clock: ManualClock = attrs.field(factory=ManualClock)
    group: Wishes = attrs.field(factory=Wishes)
    rebalance_events: RebalanceEvents = attrs.field(init=False)
    orders: TaskActions = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        clock = self.clock
        self.rebalance_events = RebalanceEvents(TaskManager(HandoverRules()), clock)
        source = MemorySource(MemoryLog())
        self.orders = TaskActions(
            self.rebalance_events,
            group=cast(Any, self.group),
            registry=TaskRegistry(
                source,
                cache_bytes=1,
                input_bound=InputBound(1, 1 << 20),
                forget=lambda active: None,
            ),
            activation=cast(Any, self.wanted),
            updater=cast(Any, self.copies),
            commit=cast(Any, self.commit),
            clock=clock,
            settled=lambda settled: None,
            meters=Meters(clock),
            precopy=Precopy(10_000),
        )
        self.assign(1, "a")
        self.orders.take()
        self.come_up()
        self.accept()
        self.orders.take()
        assert self.claimed

    def assign(self, generation: int, member_id: str) -> None:
        order = Assignment(frozenset({T}))
        self.rebalance_events.offer(Assigned(generation, member_id, order))

    def accept(self) -> None:
        self.rebalance_events.offer(CommitDone(7, CommitOutcome.ACCEPTED))

    def come_up(self) -> None:
        self.rebalance_events.handle(TaskRunning(T))
        self.rebalance_events.actions()
        self.wanted.tasks -= {T}

    @property
    def stage(self) -> TaskStage:
        with self.rebalance_events.manager() as manager:
            return manager.claims[T].stage

    @property
    def claimed(self) -> bool:
        with self.rebalance_events.manager() as manager:
            return manager.claims[T].claimed


def test_a_commit_accepted_before_a_loss_is_no_claim_of_the_task_given_back() -> None:
    """While a batch was processed, a commit was accepted, the member expired, and joined anew.

    The accepted commit is of the active period that was lost. Taken for the claim of the new one,
    it would let the task be given up, with a mark, before its new epoch was fenced (M4).
    """
    scene = Scene()
    scene.accept()
    scene.rebalance_events.offer(Lost("expired"))
    scene.assign(3, "b")
    scene.orders.take()
    assert scene.commit.forgot
    assert (scene.stage, scene.wanted.tasks) == (TaskStage.OPENING, {T})
    assert not scene.claimed

    scene.come_up()
    assert not scene.claimed
    scene.accept()  # this one is of the new period
    scene.orders.take()
    assert scene.claimed


def test_a_loss_amid_the_round_ends_what_was_ordered_before_it() -> None:
    """The control thread tells of it between the look at the news and what is done about them.

    Carried out behind what follows from the loss, the order would bring the task up all the same.
    """
    scene = Scene()
    scene.commit.meanwhile = lambda: scene.rebalance_events.offer(Lost("expired"))
    scene.rebalance_events.offer(Assigned(2, "a", Assignment(frozenset({T, U}))))
    scene.accept()
    scene.orders.take()
    scene.orders.take()
    assert scene.wanted.tasks == set()


def test_without_a_loss_it_goes_on_as_claimed() -> None:
    scene = Scene()
    scene.accept()
    scene.assign(2, "a")
    scene.orders.take()
    assert (scene.stage, scene.claimed, scene.commit.forgot) == (TaskStage.RUNNING, True, False)


def test_a_join_that_is_due_does_not_wait_for_further_commits() -> None:
    """It may wait for the tasks that they go before, and the whole group waits for it."""
    scene = Scene()
    scene.rebalance_events.offer(Assigned(2, "a", Assignment(revoke=frozenset({T}))))
    scene.orders.take()
    assert (scene.orders.unit.waiting, scene.orders.precopy.over) == (True, False)
    scene.rebalance_events.offer(JoinSoon(-1, 2))
    scene.orders.take()
    assert (scene.orders.unit.waiting, scene.orders.precopy.over) == (False, True)


def test_a_task_that_another_takes_over_is_given_up_when_it_is_our_turn() -> None:
    scene = Scene()
    due, delay = scene.orders.precopy.due, 450
    for generation, now_ms in ((2, 0), (3, delay - 100)):
        scene.clock.advance(now_ms)
        scene.rebalance_events.offer(
            Assigned(generation, "a", Assignment(release={T: "b"}, release_delay_ms=delay))
        )
        scene.orders.take()
        assert (due(delay - 1), due(delay)) == (False, True), "whichever plan says so first"


def test_an_order_that_is_replaced_asks_for_no_further_commits() -> None:
    scene = Scene()
    scene.rebalance_events.offer(Assigned(2, "a", Assignment(revoke=frozenset({T}))))
    scene.orders.take()
    assert (scene.orders.unit.waiting, scene.orders.precopy.due(0)) == (True, True)
    scene.assign(3, "a")
    scene.orders.take()
    assert (scene.orders.unit.waiting, scene.orders.precopy.due(0)) == (False, False)


@pytest.mark.parametrize("how", ["taken back", "lost", "given up"])
def test_a_copy_is_kept_until_it_is_promoted_or_its_task_goes_elsewhere(how: str) -> None:
    """The next order may take the task back before its committed positions are known.

    Nothing else would close the copy then, and no other worker could lock its folder.
    """
    scene = Scene()
    plans = (Assignment(frozenset({T}), learner=frozenset({U})), Assignment(frozenset({T, U})))
    for generation, plan in enumerate(plans, 2):
        scene.rebalance_events.offer(Assigned(generation, "a", plan))
        scene.orders.take()
        assert scene.copies.wanted == {U}
    assert scene.wanted.tasks == {U}
    match how:
        case "taken back":
            scene.assign(4, "a")
        case "lost":
            scene.rebalance_events.offer(Lost("expired"))
        case _:
            scene.orders.lose_all()
    scene.orders.take()
    assert (scene.wanted.tasks, scene.copies.wanted) == (set(), set())


def test_a_round_without_news_leaves_the_manager_alone() -> None:
    scene, handle = Scene(), RebalanceEvents.handle
    asked: list[TaskEvent] = []

    def noting(rebalance_events: RebalanceEvents, *events: TaskEvent) -> None:
        asked.extend(events)
        handle(rebalance_events, *events)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RebalanceEvents, "handle", noting)
        scene.orders.take()
        asked.clear()
        scene.orders.take()
        assert asked == []
        scene.accept()
        scene.orders.take()
        assert TaskClaimed(T) in asked


def stopped_for_another() -> Scene:
    """A worker that has stopped ``T`` to hand it over; its last commit is under way."""
    scene = Scene()
    active: Any = SimpleNamespace(
        task=T,
        inputs=(),
        stage=TaskStage.RUNNING,
        move_to=lambda stage: None,
        processor=SimpleNamespace(close=lambda: None),
        opened=SimpleNamespace(_closed=True),
        subtopology=SimpleNamespace(stateful=False),
    )
    scene.orders._registry.tasks[T] = active
    scene.rebalance_events.offer(Assigned(2, "a", Assignment(release={T: "b"})))
    scene.orders.take()
    scene.rebalance_events.offer(JoinBlocked(1, True))
    scene.orders.take()
    scene.commit.unit = Unit(1, 2, (T,), {T: "b"}, stage=UnitStage.COMMITTING)
    return scene


@pytest.mark.parametrize("answered", [True, False])
def test_a_task_that_was_given_up_is_closed_though_the_worker_stops(answered: bool) -> None:
    """The mark may have arrived: committed once more, it would be taken from its next owner.

    Without an answer the unit's time is up, and the group was told that the task is released.
    """
    scene = stopped_for_another()
    scene.orders.take_answers()
    assert T in scene.orders._registry.tasks
    if answered:
        scene.rebalance_events.offer(CommitDone(7, CommitOutcome.UNKNOWN))
    else:
        scene.rebalance_events.describe()
    scene.orders.take_answers()
    assert T not in scene.orders._registry.tasks
    assert scene.group.made == ([UnblockJoin(1)] if answered else [])


def test_a_worker_that_stops_lets_joins_go_on() -> None:
    """It begins no unit that one could wait for, and its last commit may wait for the join."""
    scene = Scene()
    scene.rebalance_events.offer(JoinBlocked(1, True))
    scene.rebalance_events.offer(JoinSoon(-1, 1))
    scene.orders.take_answers()
    assert scene.group.made == [UnblockJoin(1), UnblockJoin(-1)]


def test_a_task_that_starts_again_waits_for_the_commit_that_is_on_its_way() -> None:
    """It could read the positions before those of that commit, and count twice what it covers."""
    scene = Scene(commit=OneCommit(sent=True))
    dropped: Any = SimpleNamespace(task=T)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TaskRegistry, "drop", lambda registry, active: None)
        scene.orders.restart(dropped)
    scene.orders.take()
    assert (scene.wanted.settling, scene.wanted.tasks) == ({T}, frozenset())
    scene.commit.sent = False
    scene.orders.take()
    assert (scene.wanted.settling, scene.wanted.tasks) == (frozenset(), {T})
    assert scene.stage is TaskStage.OPENING


def test_tasks_of_topics_that_were_made_again_begin_again_once_a_commit_covers_them() -> None:
    """One that was begun before may have written positions that went with the topic."""
    before, since = (
        SimpleNamespace(active=object(), offsets={T: 1}, remade=remade) for remade in (False, True)
    )
    parts: Any = (before, since)
    assert Settled(CommitOutcome.ACCEPTED, parts).outdated == (since.active,)
    assert Settled(CommitOutcome.UNKNOWN, parts).outdated == ()
