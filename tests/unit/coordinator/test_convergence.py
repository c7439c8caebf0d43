"""Whole groups around the fake coordinator: machines, tasks protocol and the real assignor.

Workers are as small as can be: they run what they are given, and give up what they are asked to as
one unit of stopping and committing. What they run is watched all the time.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from streamlet.assignor.assign import assign
from streamlet.assignor.values import Copy, Role, Rules, TaskInfo
from streamlet.coordinator.events import (
    Assigned,
    BlockJoin,
    CommitDone,
    CommitOutcome,
    CommitWanted,
    JoinBlocked,
    LeaveWanted,
    Lost,
    Rejoin,
    UnblockJoin,
)
from streamlet.rebalance.protocol import TasksProtocol
from streamlet.rebalance.values import Subscription
from streamlet.types import TaskId, TopicPartition
from tests.unit.rebalance.task_changes import TaskChanges


class Worker:
    """Runs tasks by the assignments its machine delivers."""

    def __init__(self, crew, name, **settings):
        self.crew = crew
        self.name = name
        self.running: set[TaskId] = set()
        self.claims: dict[TaskId, int] = {}
        self.stopped = Counter()  # how often a task stopped here, for whatever reason
        self.stopping: dict[int, tuple[TaskId, ...]] = {}
        self.protocol = TasksProtocol(
            Subscription(name, name, instance_id=settings.get("instance_id")),
            Rules(learners=False),
            assign,
            tasks=lambda: crew.tasks,
            wall_ms=lambda: crew.world.now_ms,
            rejoin=lambda reason: self.wish(Rejoin(reason)),
        )
        self.seat = crew.world.add(
            name,
            metadata=lambda need: self.protocol.subscribe(need, self.copies())[0][1],
            assign=self.protocol.assign,
            **settings,
        )
        self.seat.listen = self.heard

    def copies(self):
        return {task: Copy(Role.ACTIVE, gen) for task, gen in self.claims.items()}

    def wish(self, event):
        self.crew.world.later(lambda: self.crew.world.tell(self.seat, event))

    def heard(self, command):
        match command:
            case Assigned(generation, _, assignment):
                self.obey(self.protocol.decode(assignment), generation)
            case Lost():
                self.drop(self.running)
                self.claims.clear()
            case JoinBlocked(token, granted):
                self.stop(token, granted)
            case CommitDone(token, outcome) if token in self.stopping:
                self.committed(token, outcome)
        self.crew.watch()

    def obey(self, assignment, generation):
        orders = TaskChanges.of(self.claims, assignment)
        self.drop(orders.lose)
        self.claims = dict.fromkeys([*orders.start, *orders.keep, *orders.stop], generation)
        self.running |= {*orders.start, *orders.keep}
        if orders.stop:
            self.crew.tokens += 1
            self.stopping[self.crew.tokens] = orders.stop
            self.wish(BlockJoin(self.crew.tokens, generation))
        elif orders.rejoin:
            self.wish(Rejoin("nothing left to give up"))

    def stop(self, token, granted):
        tasks = self.stopping[token]
        if not granted:
            del self.stopping[token]
            return
        self.drop(tasks)
        offsets = {TopicPartition("t", t.partition): (1, "") for t in tasks}
        self.wish(CommitWanted(token, offsets, hold=token))

    def committed(self, token, outcome):
        tasks = self.stopping.pop(token)
        if outcome is CommitOutcome.ACCEPTED:
            for task in tasks:
                self.claims.pop(task, None)
            self.wish(Rejoin("gave up what was asked"))
        else:
            self.running |= {task for task in tasks if task in self.claims}
        self.wish(UnblockJoin(token))

    def drop(self, tasks):
        for task in [task for task in tasks if task in self.running]:
            self.running.discard(task)
            self.stopped[task] += 1

    @property
    def counts(self):
        """Whether what it runs matters: alive, and can reach the coordinator."""
        world = self.crew.world
        return self.seat.alive and self.seat.ended is None and self.name not in world.cut


class Crew:
    """A group of workers, and what must hold of them at every moment."""

    def __init__(self, world, tasks=12):
        self.world = world
        self.tasks = tuple(TaskInfo(TaskId(0, n), stateful=True) for n in range(tasks))
        self.workers: dict[str, Worker] = {}
        self.tokens = 0

    def hire(self, name, **settings):
        self.workers[name] = Worker(self, name, **settings)
        return self.workers[name]

    def active(self):
        return [worker for worker in self.workers.values() if worker.counts]

    def watch(self):
        """No task runs at two workers that could both commit it."""
        runs = Counter()
        for worker in self.active():
            if self.world.coordinator.view("g") and worker.seat.machine.view.member_id in (
                self.world.coordinator.view("g").members
            ):
                runs.update(worker.running)
        twice = [str(task) for task, count in runs.items() if count > 1]
        assert not twice, (twice, {w.name: w.running for w in self.active()})

    def settle(self, ms=40_000):
        """Time passes until all tasks run, each once, evenly, and nothing more happens."""
        self.world.run(ms)
        before = {w.name: w.seat.machine.view.generation for w in self.active()}
        self.world.run(5_000)
        assert before == {w.name: w.seat.machine.view.generation for w in self.active()}, "unrest"
        assert self.world.settled()
        runs = Counter(task for worker in self.active() for task in worker.running)
        assert runs == dict.fromkeys([info.task for info in self.tasks], 1)
        loads = [len(worker.running) for worker in self.active()]
        assert max(loads) - min(loads) <= max(2, max(loads) // 2), loads


@pytest.fixture
def crew(world):
    return Crew(world)


@pytest.mark.parametrize("members", [1, 2, 7])
def test_members_started_at_once_share_the_tasks(crew, members):
    """A deployment starts all its members in the same moment."""
    for n in range(members):
        crew.hire(f"m{n}")
    crew.settle(5_000)
    assert sum(w.seat.delivered[-1].leader for w in crew.active()) == 1
    assert len(crew.world.coordinator.rounds) <= 6


def test_a_newcomer_takes_its_share_and_the_other_tasks_never_stop(crew):
    """Scale-up under load, revoke then assign: only tasks that move are touched."""
    first, second = crew.hire("a"), crew.hire("b")
    crew.settle(5_000)
    rounds = len(crew.world.coordinator.rounds)
    third = crew.hire("c")
    crew.settle(5_000)
    moved = sum((first.stopped + second.stopped).values())
    assert moved == len(third.running) == 4 or moved == len(third.running) == 3
    assert len(crew.world.coordinator.rounds) - rounds <= 4


def test_a_member_that_leaves_hands_its_tasks_to_the_others(crew):
    workers = [crew.hire(name) for name in "abc"]
    crew.settle(5_000)
    crew.world.tell(workers[1].seat, LeaveWanted("scale-down"))
    workers[1].running.clear()
    crew.settle(2_000)
    assert not workers[0].stopped + workers[2].stopped


def test_a_member_that_crashes_is_replaced_after_its_session(crew):
    workers = [crew.hire(name) for name in "abc"]
    crew.settle(5_000)
    crew.world.crash("b")
    crew.settle(15_000)
    assert not workers[0].stopped + workers[2].stopped


def test_the_leader_may_crash_like_anybody(crew):
    for name in "abc":
        crew.hire(name)
    crew.settle(5_000)
    (leader,) = [w for w in crew.active() if w.seat.delivered[-1].leader]
    crew.world.crash(leader.name)
    crew.settle(15_000)


def test_a_coordinator_that_fails_over_disturbs_nobody(crew):
    """Stable members heartbeat and find generation and member ids still good."""
    workers = [crew.hire(name) for name in "abc"]
    crew.settle(5_000)
    rounds = len(crew.world.coordinator.rounds)
    crew.world.restart()
    crew.settle(5_000)
    assert len(crew.world.coordinator.rounds) == rounds
    assert not any(worker.stopped for worker in workers)


def test_a_coordinator_that_fails_over_during_a_rebalance_loses_no_join(crew):
    """The pending rebalance is gone with it: who was joining joins again."""
    crew.hire("a")
    crew.settle(5_000)
    crew.hire("b")
    while not crew.world.coordinator.view("g").joined:
        crew.world.run(1)
    crew.world.restart()
    crew.settle(20_000)


def test_a_member_cut_off_loses_its_tasks_only_when_it_hears_so(crew):
    """Its session runs out while it goes on processing; its commits are refused from then on."""
    workers = [crew.hire(name) for name in "abc"]
    crew.settle(5_000)
    crew.world.cut.add("b")
    crew.world.run(15_000)
    assert workers[1].running
    assert not workers[1].seat.lost
    crew.world.cut.clear()
    crew.settle(10_000)
    assert workers[1].seat.lost


def test_a_static_member_that_restarts_in_time_moves_nothing(crew):
    """The new process says nothing new, gets the old assignment, and nobody else notices."""
    workers = [crew.hire(name, instance_id=name) for name in "ab"]
    crew.settle(5_000)
    rounds = len(crew.world.coordinator.rounds)
    old = set(workers[1].running)
    crew.world.crash("b")
    crew.world.run(2_000)
    del crew.workers["b"], crew.world.seats["b"]
    reborn = crew.hire("b", instance_id="b", first_nonce=1_000)
    crew.settle(5_000)
    assert reborn.running == old
    assert len(crew.world.coordinator.rounds) == rounds
    assert not workers[0].stopped


def test_the_same_static_id_twice_stops_the_older_one(crew):
    older = crew.hire("a", instance_id="i")
    crew.settle(5_000)
    crew.hire("b", instance_id="i", first_nonce=1_000)
    crew.settle(5_000)
    assert older.seat.ended is not None
    assert older.seat.lost


def test_a_commit_during_a_rebalance_is_gated_switched_or_accepted_but_never_lost(crew):
    """Ten commits a second while members come and go: live members keep their tasks."""
    for name in "ab":
        crew.hire(name)
    crew.settle(5_000)
    for n in range(6):
        crew.hire(f"extra{n}")
        for _ in range(20):
            crew.world.run(97)
            for worker in crew.active():
                crew.world.commit(worker.seat)
        crew.world.tell(crew.workers[f"extra{n}"].seat, LeaveWanted("enough"))
        crew.workers[f"extra{n}"].running.clear()
    crew.settle(5_000)
    outcomes = Counter(
        result.outcome for name in "ab" for result in crew.workers[name].seat.commits.values()
    )
    assert not outcomes[CommitOutcome.LOST] + outcomes[CommitOutcome.UNKNOWN]
    assert outcomes[CommitOutcome.ACCEPTED] > outcomes[CommitOutcome.GATED]


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_to_a_group_it_settles_with_each_task_running_once(crew, seed):
    """Joins, leaves, crashes, cut connections and coordinator failovers in any order."""
    chance = random.Random(seed)
    for n in range(chance.randint(1, 4)):
        crew.hire(f"m{n}")
    for n in range(10, 22):
        crew.world.run(chance.choice([5, 50, 400, 3_000]))
        crew.watch()
        happens = chance.choice(["hire", "hire", "leave", "crash", "cut", "heal", "restart"])
        names = [worker.name for worker in crew.active()]
        if happens == "hire":
            crew.hire(f"m{n}")
        elif happens == "heal":
            crew.world.cut.clear()
        elif happens == "restart":
            crew.world.restart()
        elif len(names) > 1:
            name = chance.choice(names)
            if happens == "cut":
                crew.world.cut.add(name)
            elif happens == "crash":
                crew.world.crash(name)
            else:
                crew.world.tell(crew.workers[name].seat, LeaveWanted("enough"))
                crew.workers[name].running.clear()
    crew.world.cut.clear()
    crew.settle(90_000)
