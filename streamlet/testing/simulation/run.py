"""Plays a scenario: steps one after the other, then what was expected of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from streamlet.assignor.assign import assign
from streamlet.assignor.values import Leaving, Role
from streamlet.errors import PositionsMismatchError
from streamlet.rebalance.leader import Assignor
from streamlet.scaling.leavers import Burden, choose_leavers
from streamlet.tasks.task_record import OURS
from streamlet.testing.simulation import events as ev
from streamlet.testing.simulation.counting import changelog_of
from streamlet.testing.simulation.events import Event, Step
from streamlet.testing.simulation.expect import compare
from streamlet.testing.simulation.moments import Moments
from streamlet.testing.simulation.report import Recorder, as_dict, final_of
from streamlet.testing.simulation.scenario import Scenario
from streamlet.testing.simulation.settling import Settler
from streamlet.testing.simulation.start import begin
from streamlet.testing.simulation.world import World

#: How long the clock runs after a step's events, at most.
STEP_MS = 1_000


class Simulation:
    """One run of a scenario.

    Args:
        scenario: what to play.
        seed: for chance, None for the scenario's own.
        assignor: the leaders' brain.
        watched: keep what a page needs that plays the run again.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        seed: int | None = None,
        assignor: Assignor = assign,
        watched: bool = False,
    ) -> None:
        self.scenario = scenario
        self.world = World(scenario, seed=seed, assignor=assignor)
        self.recorder = Recorder(self.world)
        self.rounds_to_stable: list[int] = []
        self._asked_to_drain_all = False
        #: Why an operator has to decide how a task goes on, whose changelog lost records.
        self.given_up = ""
        begin(self.world)
        self.moments = Moments(self) if watched else None

    def run(self) -> dict[str, Any]:
        """Play all steps and look at the end; the result in the shape of ``--json``."""
        for step in self.scenario.steps:
            if not self.play(step):
                if self.given_up:
                    self.world.checks.note("given up", self.given_up)
                break
        else:
            broken = self.world.checks.broken
            broken += compare(self.world, self.scenario.expect, self.result())
        self.world.watch()
        return self.result()

    def play(self, step: Step) -> bool:
        """Play one step; False when the simulation itself broke, which is a violation."""
        world, number = self.world, len(self.rounds_to_stable)
        before = len(self.recorder.rounds)
        try:
            world.begin_step()
            for event in step.events:
                self._do(event)
            world.watch()
            if world.cluster.specs.keys() - self.recorder.known_tasks:
                self.rejoin("there are other partitions")
            if step.advance_ms:
                world.run(world.now_ms + step.advance_ms)
            world.run(world.now_ms + STEP_MS, while_busy=True)
            self.recorder.catch_up(number)
            if step.settle_rounds is not None:
                Settler(self).settle(number, step.settle_rounds)
            self.recorder.catch_up(number)
            self.check()
            world.watch()
        except PositionsMismatchError as error:
            if not world.cluster.heard.short:
                world.checks.note("error", f"{type(error).__name__}: {error}")
            self.given_up = str(error)
            return False
        except Exception as error:  # ours or the assignor's: it must not hide what led there
            world.checks.note("error", f"{type(error).__name__}: {error}")
            self.recorder.catch_up(number)
            self.rounds_to_stable.append(len(self.recorder.rounds) - before)
            return False
        self.rounds_to_stable.append(len(self.recorder.rounds) - before)
        return True

    def check(self) -> None:
        """Look at the group if nothing is under way in it."""
        paused = any(member.paused for member in self.world.members)
        if self.world.members and not paused and self.world.quiet():
            plan, everything = self.recorder.last_plan, self.world.cluster.specs
            # Before the first round no leader has given out what ``start`` leaves out.
            self.world.checks.at_rest(everything if plan is None else plan.unassigned)

    def result(self) -> dict[str, Any]:
        """Everything, in the shape of ``--json``."""
        checks, totals = self.world.checks, self.recorder.totals
        return {
            "name": self.scenario.name,
            "rounds": self.recorder.rounds,
            "final": final_of(self.world),
            "totals": {
                "rebalances": len(self.recorder.rounds),
                "stateful_moves": checks.stateful_moves,
                "stateless_moves": checks.stateless_moves,
                "cold_moves": checks.cold_moves,
                "max_learners": totals.learners,
                "rounds_to_stable": self.rounds_to_stable,
            },
            "metadata_bytes": {
                "subscription_max": totals.subscription_max,
                "assignment_max": totals.assignment_max,
                "group_total": totals.group_total,
            },
            "violations": [as_dict(broken) for broken in checks.broken],
        }

    # -- events --------------------------------------------------------------------------------

    def _do(self, event: Event) -> None:
        world = self.world
        match event:
            case ev.Deploy(field, values):
                for name, value in values.items():
                    instance = world.cluster.instances[name]
                    instance.spec = attrs.evolve(instance.spec, **{field: value})
            case ev.Join(names):
                for name in names:
                    if any(member.worker.stopping for member in world.of(name)):
                        world.kill(name, remove=True)  # it was ordered to leave and takes its time
                    if not world.of(name):
                        world.start_instance(name)
            case ev.Leave(names):
                for member in self._members(names):
                    member.worker.stop()
                    member.wake_worker()
            case ev.Crash(names):
                for name in names:
                    world.kill(name, remove=True)
            case ev.Restart(names):
                for name in (name for name in names if world.of(name)):
                    static = world.cluster.instances[name].spec.instance_id is not None
                    world.kill(name, remove=not static)
                    world.start_instance(name)
            case ev.Pause(names):
                for member in self._members(names):
                    member.pause()
            case ev.Resume(names):
                for member in self._members(names):
                    member.resume()
            case ev.Expel(names):
                for member in self._members(names):
                    world.expel(member, "thrown out")
            case ev.Drain() | ev.DrainPercent() | ev.CancelDrain():
                self._drain(event)
            case ev.Ready(tasks):
                self._ready(tasks)
            case ev.Lag(lags):
                for name, lag_of in lags.items():
                    for label, lag in lag_of.items():
                        self.lag(name, label, lag)
            case _:
                self._disturb(event)

    def _disturb(self, event: Event) -> None:
        world = self.world
        match event:
            case ev.Lose(sender):
                spec = world.cluster.instances.get(sender)
                names = {sender} if spec is None else {sender, *spec.spec.member_names}
                world.network.lose(event, names)
            case ev.Busy(times):
                for name, ms in times.items():
                    for member in world.named(name):
                        member.be_busy(ms)
            case ev.SlowControl(times):
                for name, ms in times.items():
                    for member in world.named(name):
                        member.session.thread.rest(ms)
            case ev.SlowCopies(times):
                for name, ms in times.items():
                    for member in world.named(name):
                        member.worker.runner.next_step_ms = ms
                        world.slow_until_ms = max(world.slow_until_ms, world.now_ms + ms)
            case ev.ShortLog(times):
                for label, ms in times.items():
                    changelog = changelog_of(world.cluster.by_label[label].task)
                    world.cluster.heard.shorten(changelog, world.now_ms + ms)
            case ev.Truncate(labels):
                for label in labels:
                    task = world.cluster.by_label[label].task
                    world.cluster.truncate(task)
                    for member in world.members:
                        member.worker.runner.report(task)
            case ev.CoordinatorRestart():
                world.fail_over()
            case ev.AddTasks(specs):
                world.cluster.add_tasks(specs)
            case _:
                raise AssertionError(event)

    def _members(self, names: Iterable[str]) -> list[Any]:
        return [member for name in names for member in self.world.of(name)]

    def rejoin(self, reason: str) -> bool:
        """Have a member call a rebalance, the leader if there is one."""
        able = [member for member in self.world.members if not member.paused]
        leader = self.world.leader()
        caller = leader if leader in able else next(iter(able), None)
        if caller is None:
            return False
        caller.session.rejoin(reason)
        return True

    # -- leaving -------------------------------------------------------------------------------

    def _drain(self, event: ev.Drain | ev.DrainPercent | ev.CancelDrain) -> None:
        world = self.world
        if isinstance(event, ev.CancelDrain):
            for name in event.instances:
                world.cluster.instances[name].leaving = None
                self._tell_leaving(name)
            return
        staying = [n for n, i in world.cluster.instances.items() if world.of(n) and not i.leaving]
        if isinstance(event, ev.DrainPercent):
            names = choose_leavers({name: self._burden(name) for name in staying}, event.percent)
        else:
            names = [name for name in event.instances if name in staying]
            if len(names) == len(staying) and not self._asked_to_drain_all:
                self._asked_to_drain_all = True  # refused once: no instance would be left
                return
        timeout = self.scenario.settings.scale_down_timeout_ms
        timeout = timeout if event.timeout_ms is None else event.timeout_ms
        deadline = None if timeout is None else world.now_ms + timeout
        for name in names:
            world.cluster.instances[name].leaving = Leaving(world.now_ms, deadline)
            self._tell_leaving(name)

    def _tell_leaving(self, name: str) -> None:
        for member in self.world.of(name):
            member.when_awake(member.set_leaving)()

    def _burden(self, name: str) -> Burden:
        """The state that would have to move if the instance left."""
        cluster = self.world.cluster
        tasks = {task for member in self.world.of(name) for task in member.tasks(*OURS)}
        return Burden({task: cluster.logs[task].end for task in tasks if cluster.is_stateful(task)})

    # -- copies --------------------------------------------------------------------------------

    def _ready(self, wanted: Mapping[str, tuple[str, ...] | str]) -> None:
        cluster = self.world.cluster
        for name, which in wanted.items():
            behind = self.behind(name)
            if isinstance(which, tuple):
                tasks = [cluster.by_label[label].task for label in which]
            else:
                tasks = sorted({task for task, _ in behind})
            if which == "one":
                tasks = sorted({task for task, role in behind if role is Role.LEARNER})[:1]
            for task in tasks:
                self.lag(name, cluster.label(task), 0)

    def behind(self, name: str) -> list[tuple[Any, Role]]:
        """Copies that have not caught up."""
        return [
            (task, copy.role)
            for member in self.world.named(name)
            for task, copy in member.manager.followed.copies.items()
            if not copy.ready and task not in member.tasks(*OURS)
        ]

    def lag(self, name: str, label: str, lag: int) -> None:
        """Let a member's copy of a task lag so many records behind."""
        spec = self.world.cluster.by_label[label]
        for member in self.world.named(name):
            if spec.task in member.worker.updater.kept:
                end = self.world.cluster.logs[spec.task].end
                member.instance.disk[spec.task] = max(end - lag, 0)
                member.worker.runner.report(spec.task)


@attrs.frozen
class SimulationResult:
    """A finished run; ``playback`` is what ``playback_page`` plays, None unless it was watched."""

    result: dict[str, Any]
    playback: dict[str, Any] | None = None

    @property
    def held(self) -> bool:
        """True if everything expected came true and no rule was broken."""
        return not self.result["violations"]


def simulate(
    scenario: Scenario,
    *,
    seed: int | None = None,
    assignor: Assignor = assign,
    watched: bool = False,
) -> SimulationResult:
    """Play a scenario from beginning to end."""
    simulation = Simulation(scenario, seed=seed, assignor=assignor, watched=watched)
    result, moments = simulation.run(), simulation.moments
    return SimulationResult(result, None if moments is None else moments.playback(result))
