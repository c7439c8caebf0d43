"""One simulated member: the real membership machine, tasks protocol and hand-over rules.

What is imitated is only what surrounds them: the control thread that carries commands out, and the
worker that looks at ``runtime.rebalance_events`` some time later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, assert_never

import attrs

from streamlet.assignor.values import Copy, MemberState
from streamlet.config import Settings
from streamlet.group.commands import (
    Abandon,
    Assigned,
    Command,
    CommitDone,
    CommitOutcome,
    Failed,
    FetchDone,
    FindCoordinator,
    JoinBlocked,
    JoinSoon,
    Left,
    Lost,
    NeedMetadata,
    RunAssignor,
    Send,
    SessionEvent,
    WakeAt,
)
from streamlet.group.events import (
    Answered,
    AssignmentsReady,
    CoordinatorFound,
    Event,
    MetadataReady,
    MigrationOrdered,
    ProgressMade,
    RejoinWanted,
    RequestFailed,
    StartMembership,
)
from streamlet.group.handover import Handover
from streamlet.group.handover_values import ClaimStage, HandoverRules
from streamlet.group.member_config import MembershipConfig
from streamlet.group.membership import Membership
from streamlet.group.messages import JoinGroup
from streamlet.group.states import ENDED, MembershipState
from streamlet.group.tasks import rules_from, types_for
from streamlet.runtime.rebalance_events import RebalanceEvents
from streamlet.testing.simulation.cluster import GROUP, SimulatedInstance
from streamlet.testing.simulation.identities import identity_of, protocol_of, state_of
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
        protocol_type: str | None = None,
    ) -> None:
        self.world = world
        self.instance = instance
        self.uid = uid
        self.name = instance.spec.member_names[number]
        self.alive_process = True
        self.paused = False
        self.ended: Command | None = None
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
        self.machine = Membership(self.config)
        self.handover = Handover(rules)
        self.identity = identity_of(self, number, static)
        self.plan_rules = rules_from(settings, learners=True)
        self.protocol = protocol_of(self, lambda reason: self._next.append(RejoinWanted(reason)))
        self._board = RebalanceEvents(self.handover)
        self.worker = SimWorker(self, self._board)
        #: Generation of the orders that the worker had when it last came round.
        self.generation_before = -1
        #: The tasks of commits without an answer, by token, and the outcomes of answered ones.
        self.commits: dict[int, frozenset[TaskId]] = {}
        self._outcomes: dict[TaskId, CommitOutcome] = {}
        #: Tasks given up for the join that was last described.
        self.surrendered: frozenset[TaskId] = frozenset()
        self._next: deque[Event] = deque()
        self._feeding = False
        #: How often our tasks were described to the group.
        self.descriptions = 0
        #: Number and time of the JoinGroup that is not answered yet.
        self.join_sent: tuple[int, int] | None = None
        self._unread = False  # the board has something that the worker has not taken
        #: How often tasks were lost, and how many of these losses the worker has seen.
        self.losses = self.losses_seen = 0
        self._handed = self._handed_at_ms = 0  # what the worker wants, on its way to the machine
        self._backlog: list[Callable[[], None]] = []
        self._tick_at_ms = 0
        self._alarm_ms: int | None = None
        self._work_at_ms: int | None = None
        self._deferral_ms: int | None = None

    def __repr__(self) -> str:
        return f"<{self.name} {self.machine!r}>"

    # -- what others ask -----------------------------------------------------------------------

    @property
    def live(self) -> bool:
        """True if the process runs and is, or wants to be, a member."""
        return self.alive_process and self.ended is None

    @property
    def loss_unseen(self) -> bool:
        """True if tasks were lost and the worker has not come round since."""
        return self.losses != self.losses_seen

    @property
    def settled(self) -> bool:
        """True if nothing is under way but processing and its commits."""
        if self._unread or self._next or self._handed:
            return False
        machine = self.machine
        quiet = machine.state is MembershipState.STABLE or machine.state in ENDED
        handover, worker = self.handover, self.worker
        return quiet and not (handover.busy or handover.confirming or worker.busy)

    def alive(self) -> bool:
        """True if the group has heard of us within the session timeout."""
        since_ms = self.world.now_ms - self.machine.last_heartbeat_ms
        return since_ms < self.config.session_timeout_ms

    def tasks(self, *stages: ClaimStage) -> set[TaskId]:
        """Tasks with a claim in one of these stages."""
        return {t for t, claim in self.handover.claims.items() if claim.stage in stages}

    def state(self) -> MemberState:
        """The state of this member as a leader would know it if it joined now."""
        return state_of(self, self.handover.view(self._dormant()), self._deferral_ms)

    # -- the control thread --------------------------------------------------------------------

    def start(self) -> None:
        """Begin to join."""
        self.protocol.leaving = self.handover.leaving = self.instance.leaving
        self.feed(StartMembership())

    def receive(self, event: Event) -> None:
        """Something came over the network, or time passed."""
        self.when_awake(lambda: self._received(event))()

    def _received(self, event: Event) -> None:
        if isinstance(event, Answered | RequestFailed):
            self._join_over(event.number)
        self.feed(event)

    def _join_over(self, number: int) -> None:
        if self.join_sent is not None and self.join_sent[0] == number:
            self.join_sent = None

    def when_awake(self, action: Callable[[], None]) -> Callable[[], None]:
        """Do something now, later if the process stands still, never if it is gone."""

        def run() -> None:
            if self.paused:
                self._backlog.append(run)
            elif self.live:
                action()

        return run

    def feed(self, event: Event) -> None:
        """Hand the machine an event and do what it says, until it wants nothing more."""
        self._next.append(event)
        if self._feeding:
            return
        self._feeding = True
        try:
            while self._next and self.live:
                for command in self.machine.handle(self._next.popleft(), self.world.now_ms):
                    self._perform(command)
                self.machine.check_invariants()
        finally:
            self._feeding = False

    def _perform(self, command: Command) -> None:
        match command:
            case FindCoordinator():
                found = CoordinatorFound("coordinator")
                self.world.network.travel(lambda: self.receive(found))
            case Send():
                if isinstance(command.request, JoinGroup):
                    self.join_sent = (command.number, self.world.now_ms)
                self.world.network.send(self, command)
            case Abandon(number):
                self._join_over(number)  # an answer that comes all the same is not awaited
            case NeedMetadata():
                protocols = self.protocol.subscribe(command, self._describe())
                event = MetadataReady(command.request, self.protocol.protocol_type, protocols)
                self._next.append(event)
            case RunAssignor(generation):
                assignments = self.protocol.assign(command)
                self._next.append(AssignmentsReady(generation, assignments))
            case Assigned():
                orders = self.protocol.decode(command.assignment)
                self.world.protocol.delivered(self, orders, self.protocol.said_nonce)
                self._deferral_ms = orders.deferral_deadline_ms
                orders = attrs.evolve(orders, turn_ms=0)  # a step is over sooner than all turns
                self.tell(Assigned(command.generation, command.member_id, orders))
                flip = orders.flip
                if flip is not None and flip.protocol_type != self.protocol.protocol_type:
                    self.world.protocol.ordered_over(self, command.generation)
                    self._next.append(MigrationOrdered(flip.protocol_type, command.generation))
            case Lost():
                self.losses += 1
                self.tell(command)
            case CommitDone() | FetchDone() | JoinBlocked() | JoinSoon():
                self.tell(command)
            case WakeAt(at_ms):
                self.wake_at(at_ms)
            case Failed() | Left():
                self.ended = command
                self.world.member_ended(self)
            case _:
                assert_never(command)

    def wake_at(self, at_ms: int) -> None:
        """Wake the machine then, in place of when it was to be woken before."""
        self._tick_at_ms = at_ms
        if self._alarm_ms is None or at_ms < self._alarm_ms:
            self._alarm_ms = at_ms
            self.world.at(at_ms, lambda: self._woken(at_ms))

    def _woken(self, alarm_ms: int) -> None:
        if alarm_ms != self._alarm_ms:
            return  # an earlier alarm has taken its place
        self._alarm_ms = None
        if self._tick_at_ms > self.world.now_ms:
            self.wake_at(self._tick_at_ms)
        else:
            self.receive(ProgressMade())

    def _describe(self) -> Mapping[TaskId, Copy]:
        """The description for the JoinGroup; an assignment not taken up is void from now on."""
        claims = self.handover.claims.items()
        self.surrendered = frozenset(t for t, claim in claims if claim.surrendered)
        dormant = self._dormant()
        for task in self.world.cluster.specs.keys() - dormant.keys():
            self._board.forget_dormant(task)
        self._board.add_dormant(dormant)
        self.descriptions += 1
        described = self._board.describe()
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

    def hand_over(self, action: Callable[[], None]) -> None:
        """Do what the worker wants of the machine, in the order in which it wants it."""
        self._handed += 1
        self._handed_at_ms = max(self._handed_at_ms, self.world.now_ms + self.world.network.hop())

        def arrive() -> None:
            self._handed -= 1
            action()

        self.world.at(self._handed_at_ms, self.when_awake(arrive))

    # -- the worker's thread -------------------------------------------------------------------

    def tell(self, event: SessionEvent) -> None:
        """Leave an event for the worker."""
        if isinstance(event, CommitDone):
            tasks = self.commits.pop(event.token, frozenset())
            self._outcomes |= dict.fromkeys(tasks, event.outcome)
        self._board.offer(event)
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
        if due_ms == self._work_at_ms:
            self._work_at_ms = None
            self.when_awake(self._work)()

    def _work(self) -> None:
        """One round of the worker's loop."""
        self.losses_seen = self.losses
        self.feed(ProgressMade())
        self._unread = False
        stages = {task: claim.stage for task, claim in self.handover.claims.items()}
        outcomes, self._outcomes = self._outcomes, {}
        descriptions, self.generation_before = self.descriptions, self.handover.generation
        self.worker.round()
        if not self.live:
            return
        knows_all = not (self.loss_unseen or self._unread or self.worker.stopping)
        if knows_all and descriptions == self.descriptions:
            self.world.protocol.went_round(self, stages, outcomes)
        self.worker.check_invariants()
        self.handover.check_invariants()
        times = [self.handover.due_ms(), self.worker.due_ms()]
        due_ms = min((at for at in times if at is not None), default=None)
        if due_ms is not None:
            self.wake_worker(max(due_ms, self.world.now_ms + 1))

    def later(self, ms: int, action: Callable[[], None]) -> None:
        """Have the worker do something after so long, and come round."""

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
        self.receive(ProgressMade())

    def set_leaving(self) -> None:
        """Our instance was marked, or its mark was taken away."""
        self.protocol.leaving = self.instance.leaving
        self._board.set_leaving(self.instance.leaving)
        self.wake_worker()
