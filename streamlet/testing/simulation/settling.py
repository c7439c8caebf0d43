"""Lets a simulated group come to rest: rebalances until the plan stays as it is, then progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlet.assignor.values import Plan, Role
from streamlet.tasks.copy_opener import AGAIN_MS
from streamlet.tasks.opening import REOPEN_MS
from streamlet.tasks.task_record import OURS
from streamlet.testing.simulation.counting import input_of
from streamlet.testing.simulation.expect import out_of_band

if TYPE_CHECKING:
    from streamlet.testing.simulation.run import Simulation

#: How long ``settle`` waits for one round to end: a member that never comes back is thrown out
#: after the rebalance timeout.
ROUND_MS = 180_000
#: How long beyond a commit interval a task of a group at rest may take to commit new input, and how
#: often it may take as long once more: answers may be lost. Behind a disk that failed it may more
#: often, since its stores are opened after a pause.
PROGRESS_MS, PROGRESS_TRIES, MOST_TRIES = 1_000, 5, 20
#: Turns without a rebalance after which nothing will come any more.
_IDLE_TURNS = 8


class Settler:
    """Settles a simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._world = simulation.world
        self._recorder = simulation.recorder

    def settle(self, number: int, most: int) -> None:
        """Force a round, let learners catch up, again and again until the plan stays as it is."""
        world, first, idle = self._world, len(self._recorder.rounds), 0
        force = True
        while world.members and idle < _IDLE_TURNS:
            if force and not self._simulation.rejoin("settle"):
                return  # all stand still
            world.run(world.now_ms + ROUND_MS, while_busy=True)
            idle = 0 if self._recorder.catch_up(number) else idle + 1
            rounds = len(self._recorder.rounds) - first
            if rounds > most:
                world.checks.note("settle", f"{rounds} rebalances, expected at most {most}")
                return
            force = False
            if not world.members or self._catch_up():
                continue
            plan = world.would_plan()
            if self._is_fixpoint(plan):
                self._check_band(plan)
                self._check_progress(plan)
                return
            force = not self._wait_for_deadline(plan)
        if world.members:
            world.checks.note("settle", "rebalances are asked for, but none comes to its end")

    def _catch_up(self) -> bool:
        """Make all copies of those that do not stand still ready; whether a learner was behind."""
        learners, awake = False, [m for m in self._world.members if not m.paused]
        for member in awake:
            behind = self._simulation.behind(member.name)
            learners |= any(role is Role.LEARNER for _, role in behind)
            for task, _ in behind:
                self._simulation.lag(member.name, self._world.cluster.label(task), 0)
        kept = [copy for m in awake for copy in m.worker.updater.kept.values()]
        if learners and any(copy is None for copy in kept):
            self._world.run(self._world.now_ms + AGAIN_MS)  # its disk failed, or its folder is held
        return learners

    def _is_fixpoint(self, plan: Plan) -> bool:
        """True if each member would be assigned what it does already, and nothing is to follow."""
        if plan.follow_up_ms is not None or plan.unassigned:
            return plan.follow_up_ms is None and bool(plan.unassigned)
        for member in self._world.members:
            part = plan.members.get(member.machine.view.member_id)
            if part is None:
                continue  # it stands still
            copies = member.manager.followed.copies.items()
            learner = {t for t, copy in copies if copy.role is Role.LEARNER}
            standby = {t for t, copy in copies if copy.role is Role.STANDBY}
            now = [set(part.active), set(part.learner), set(part.standby)]
            same = now == [member.tasks(*OURS), learner, standby]
            if not same or part.release or part.pending or part.revoke:
                return False
        return True

    def _check_band(self, plan: Plan) -> None:
        """A settled plan must report what it cannot bring into the band."""
        instances = self._world.cluster.instances.values()
        known = {i.spec.name for i in instances if i.process_id in plan.out_of_band}
        for name, text in out_of_band(self._world).items():
            if name not in known and not plan.unassigned:
                self._world.checks.note("band", f"{text}, and the plan does not say so")

    def _check_progress(self, plan: Plan) -> None:
        """Let input come, and see that every task commits some of it before long."""
        world, wait_ms = self._world, self._world.settings.commit_interval_ms + PROGRESS_MS
        before = world.protocol.offsets()
        for tries in range(1, MOST_TRIES + 1):
            world.input_until_ms = world.now_ms + wait_ms
            for member in world.members:
                member.wake_worker()
            world.run(world.now_ms + wait_ms)
            after, given = world.protocol.offsets(), world.cluster.specs.keys() - plan.unassigned
            stays = [m for m in world.members if m.instance.leaving is None and not m.paused]
            stuck = [
                task
                for task in given
                if after.get(input_of(task), 0) <= before.get(input_of(task), 0)
            ]
            if not stays or not stuck:
                return
            failed = max(world.network.disk_failed_ms.get(task, 0) for task in stuck)
            if tries >= PROGRESS_TRIES and world.now_ms - failed > 2 * REOPEN_MS:
                break
        text = f"{', '.join(world.cluster.labels(stuck))} stand still though nothing is under way"
        world.checks.note("liveness", text, stuck)

    def _wait_for_deadline(self, plan: Plan) -> bool:
        """Let time pass to what the plan waits for; False: there is nothing, so force a round.

        In a group that gathers after a change of its type that is the end of the change: until then
        leaders plan nothing, however often they are asked.
        """
        migrations = (m.protocol.migration for m in self._world.members if m.protocol.gathering)
        ends = [one.until_ms for one in migrations if one is not None]
        due = max(ends) if ends else plan.follow_up_ms
        timers = [m.manager.due_ms() for m in self._world.members if not m.paused]
        later = [at for at in timers if at is not None and at > self._world.now_ms]
        if due is None or due <= self._world.now_ms or not later:
            return False
        self._world.run(max(due, min(later)) + 1)
        return True
