"""One simulated member: the real membership machine, tasks protocol and hand-over rules.

The real control thread (``session``) and the real task actions (``worker``) carry out what these
want; what is imitated is only when their threads come round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import attrs

from streamlet.assignor.values import Copy, MemberState
from streamlet.config import Settings
from streamlet.coordinator.events import (
    CommitDone,
    CommitOutcome,
    Failed,
    JoinBlocked,
    Left,
    SessionEvent,
)
from streamlet.coordinator.member_config import MembershipConfig
from streamlet.coordinator.membership import Membership
from streamlet.coordinator.states import ENDED, MembershipState
from streamlet.rebalance.protocol import rules_from, types_for
from streamlet.tasks.manager import TaskManager
from streamlet.tasks.task_events import HandoverRules
from streamlet.tasks.task_record import TaskStage
from streamlet.testing.simulation.cluster import SimulatedInstance
from streamlet.testing.simulation.counting import GROUP
from streamlet.testing.simulation.identities import identity_of, protocol_of, state_of
from streamlet.testing.simulation.session import SimEvents, SimSession
from streamlet.testing.simulation.worker import SimWorker
from streamlet.types import TaskId

if TYPE_CHECKING:
    from streamlet.testing.simulation.world import World

#: Less than a step lasts: owners do not stagger releases here, so none is late with giving up.
FAREWELL_MS = 250


def _heartbeat_ms(settings: Settings) -> int:
    """The interval as set; else a long one, because rebalances are announced (``World``)."""
    if "heartbeat.interval.ms" in settings.given:
        return settings.heartbeat_interval_ms
    return max(min(settings.session_timeout_ms // 4, 2_500), 1)


class SimMember:
    """One process: it never comes back, a restart makes another.

    Args:
        world: what it lives in.
        instance: its instance.
        number: of the member within its instance.
        uid: tells it from all other processes there ever were.
        protocol_type: of the group it is put into, None: it joins as it likes.
    """

    def __init__(
        self,
        world: World,
        instance: SimulatedInstance,
        number: int,
        uid: int,
        protocol_type: str | None,
    ) -> None:
        self.world = world
        self.instance = instance
        self.uid = uid
        self.name = instance.spec.member_names[number]
        self.alive_process = True
        self.paused = False
        self.ended: Failed | Left | None = None
        settings, spec = world.settings, instance.spec
        static = None if spec.instance_id is None else f"{spec.instance_id}-{number}"
        self.mode = spec.mode or settings.stream_rebalancing_mode
        rules = HandoverRules.from_settings(settings)
        rules = attrs.evolve(rules, static=static is not None, confirm_delay_ms=FAREWELL_MS)
        rules = attrs.evolve(rules, stops_at_joins=self.mode == "eager")
        types = types_for(self.mode)
        if protocol_type is not None and protocol_type != types[0]:
            types = types[::-1]
        config = MembershipConfig.from_settings(
            GROUP, settings, member=number, first_nonce=uid * 1_000, jitter=uid
        )
        self.config = attrs.evolve(
            config,
            instance_id=static,
            announce_joins=rules.announced_joins,
            heartbeat_interval_ms=_heartbeat_ms(settings),
            protocol_types=types,
        )
        self.manager = TaskManager(rules)
        self.identity = identity_of(self, number, static)
        self.plan_rules = rules_from(settings, learners=True)
        self.protocol = protocol_of(self)
        self._rebalance_events = SimEvents(self)
        self.session = SimSession(self, self.protocol, self.tell, self._describe)
        self.worker = SimWorker(self, self._rebalance_events)
        #: Generation of the orders that the worker had when it last came round.
        self.generation_before = -1
        #: The tasks of commits without an answer, by token, with whether it is a unit's, and the
        #: outcomes of answered ones.
        self.commits: dict[int, tuple[frozenset[TaskId], bool]] = {}
        self._outcomes: dict[TaskId, CommitOutcome] = {}
        #: Tasks given up for the join that was last described.
        self.surrendered: frozenset[TaskId] = frozenset()
        #: How often our tasks were described to the group.
        self.descriptions = 0
        #: When a rebalance is due that our last assignment puts off.
        self.deferral_ms: int | None = None
        self._unread = False  # the events hold something that the worker has not taken
        self._backlog: list[Callable[[], None]] = []
        self._work_at_ms: int | None = None
        self._busy_until_ms = 0  # until then the worker's loop is in a user function

    def __repr__(self) -> str:
        return f"<{self.name} {self.machine!r}>"

    # -- what others ask -----------------------------------------------------------------------

    @property
    def live(self) -> bool:
        """True if the process runs and is, or wants to be, a member."""
        return self.alive_process and self.ended is None

    @property
    def machine(self) -> Membership:
        """Its membership machine."""
        return self.session.machine

    @property
    def loss_unseen(self) -> bool:
        """True if tasks were lost and the worker has not come round since."""
        return self.session.loss_unseen

    @property
    def settled(self) -> bool:
        """True if nothing is under way but processing and its commits."""
        if self._unread or self.session.thread.waiting:
            return False
        machine = self.machine
        quiet = machine.view.state is MembershipState.STABLE or machine.view.state in ENDED
        manager, worker = self.manager, self.worker
        return quiet and not (manager.busy or manager.confirming or worker.busy)

    def tasks(self, *stages: TaskStage) -> set[TaskId]:
        """Tasks with a claim in one of these stages."""
        return {t for t, claim in self.manager.claims.items() if claim.stage in stages}

    def state(self) -> MemberState:
        """The state of this member as a leader would know it if it joined now."""
        return state_of(self, self.manager.view(self._dormant()), self.deferral_ms)

    # -- the control thread --------------------------------------------------------------------

    def start(self) -> None:
        """Begin to join."""
        self.manager.leaving = self.instance.leaving
        self.session.start()

    def when_awake(self, action: Callable[[], None]) -> Callable[[], None]:
        """Do something now, later if the process stands still, never if it is gone."""

        def run() -> None:
            if self.paused:
                self._backlog.append(run)
            elif self.live:
                action()

        return run

    def _describe(self) -> Mapping[TaskId, Copy]:
        """The description for the JoinGroup; an assignment not taken up is void from now on."""
        claims = self.manager.claims.items()
        self.surrendered = frozenset(t for t, claim in claims if claim.surrendered)
        dormant = self._dormant()
        for task in self.world.cluster.specs.keys() - dormant.keys():
            self._rebalance_events.forget_dormant(task)
        self._rebalance_events.add_dormant(dormant)
        self.descriptions += 1
        described = self._rebalance_events.describe()
        self.protocol.leaving = self._rebalance_events.described_leaving
        self.world.protocol.described(self, described)
        return described

    def _dormant(self) -> dict[TaskId, int | None]:
        """State in the instance's folder that no other of its members has in its hands."""
        instance, logs = self.instance, self.world.cluster.logs
        return {
            task: logs[task].lag(offset)
            for task, offset in instance.disk.items()
            if instance.locks.get(task, self.name) == self.name
        }

    # -- the worker's thread -------------------------------------------------------------------

    def tell(self, event: SessionEvent) -> None:
        """Leave an event for the worker; its end ends the process."""
        if isinstance(event, Failed | Left):
            self.ended = event
            self.world.member_ended(self)
            return
        if isinstance(event, CommitDone):
            tasks, of_unit = self.commits.pop(event.token, (frozenset(), False))
            if of_unit and event.outcome is not CommitOutcome.ACCEPTED:
                tasks |= self.tasks(TaskStage.STOPPED)  # it is over, whatever its next one had
            self._outcomes |= dict.fromkeys(tasks, event.outcome)
        if isinstance(event, JoinBlocked) and event.granted:
            self.world.protocol.joins_blocked(self, self.session.orders[event.token])
        self._rebalance_events.offer(event)
        self._unread = True
        self.wake_worker()

    def wake_worker(self, at_ms: int | None = None) -> None:
        """Have the worker's loop come round, in a moment or then."""
        due_ms = self.world.now_ms + self.world.network.latency() if at_ms is None else at_ms
        if self._work_at_ms is not None and self._work_at_ms <= due_ms:
            return
        self._work_at_ms = due_ms
        self.world.at(due_ms, lambda: self._work_due(due_ms))

    def _work_due(self, due_ms: int) -> None:
        if due_ms != self._work_at_ms:
            return
        self._work_at_ms = None
        if self.world.now_ms < self._busy_until_ms:
            self.wake_worker(self._busy_until_ms)
        else:
            self.when_awake(self._work)()

    def _work(self) -> None:
        """One round of the worker's loop."""
        self._unread = False
        stages = {task: claim.stage for task, claim in self.manager.claims.items()}
        outcomes, self._outcomes = self._outcomes, {}
        descriptions, self.generation_before = self.descriptions, self.manager.generation
        self.worker.round()
        if not self.live:
            return
        knows_all = not (self.loss_unseen or self._unread or self.worker.stopping)
        if knows_all and descriptions == self.descriptions:
            self.world.protocol.went_round(self, stages, outcomes)
        self.worker.check_invariants()
        self.manager.check_invariants()
        times = [self.manager.due_ms(), self.worker.due_ms()]
        due_ms = min((at for at in times if at is not None), default=None)
        if due_ms is not None:
            self.wake_worker(max(due_ms, self.world.now_ms + 1))

    def later(self, ms: int, action: Callable[[], None]) -> None:
        """Schedule an action and then a step of the worker, after some ms."""

        def run() -> None:
            action()
            self.wake_worker()

        self.world.later(ms, self.when_awake(run))

    # -- what happens to a process -------------------------------------------------------------

    def die(self) -> None:
        """Stop existing; the disk stays."""
        self.alive_process = False
        self.worker.die()

    def pause(self) -> None:
        """Stand still, as under SIGSTOP."""
        self.paused = True

    def resume(self) -> None:
        """Go on: first what lay in the producer's queue, then all that came in meanwhile."""
        self.paused = False
        self.worker.stray_flush()
        backlog, self._backlog = self._backlog, []
        for action in backlog:
            action()
        self.wake_worker()

    def be_busy(self, ms: int) -> None:
        """Be in a user function for so long; the control thread and the copies' go on."""
        self._busy_until_ms = max(self._busy_until_ms, self.world.now_ms + ms)
        self.world.slow_until_ms = max(self.world.slow_until_ms, self._busy_until_ms)

    def set_leaving(self) -> None:
        """Our instance was marked, or its mark was taken away."""
        self._rebalance_events.set_leaving(self.instance.leaving)
        self._unread = True
        self.wake_worker()
