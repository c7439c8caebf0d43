"""Everything that lives in a simulation, and the only place where its time passes.

One queue of things to do, in the order of time and then of asking; a clock that jumps from one to
the next; chance from one seed. The same scenario with the same seed is the same run.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable

import attrs

from streamlet.assignor.assign import assign
from streamlet.assignor.values import GroupState, Plan, Violation
from streamlet.clock import ManualClock
from streamlet.coordinator.events import Failed
from streamlet.coordinator.messages import LeaveGroup
from streamlet.errors import FencedError
from streamlet.rebalance.envelope import Envelope, FixedTopics
from streamlet.rebalance.leader import Assignor
from streamlet.rebalance.wire import short_hash
from streamlet.testing.coordinator import FakeCoordinator
from streamlet.testing.coordinator_desk import BrokerRules, GroupPhase
from streamlet.testing.simulation.checks import Checks
from streamlet.testing.simulation.cluster import SimulatedCluster, SimulatedInstance
from streamlet.testing.simulation.counting import GROUP, input_of
from streamlet.testing.simulation.events import InstanceSpec
from streamlet.testing.simulation.member import SimMember
from streamlet.testing.simulation.network import Network
from streamlet.testing.simulation.protocol_checks import ProtocolChecks
from streamlet.testing.simulation.scenario import Scenario
from streamlet.types import TaskId

#: How long the coordinator is kept from ending a join phase because a member has yet to join.
HOLD_MS = 1_000
#: How long input comes in after a step began; then a long wait costs little.
INPUT_MS = 30_000
#: How long after a commit its input is deleted, at most.
_BEHIND_MS = 50
#: How soon a supervisor starts a failed worker again.
_RESTART_MS = 100
#: More events than this at one moment, and nothing will ever come of it.
_TOO_MANY = 100_000
_CALM = GroupPhase.STABLE, GroupPhase.EMPTY, GroupPhase.DEAD


class Reasons:
    """The reasons of the next rebalance, for people."""

    def __init__(self) -> None:
        self._noted: dict[str, None] = {}

    def note(self, name: str, reason: str) -> None:
        """Note a reason; that there is a rebalance is none."""
        if reason != "rebalance in progress":
            self._noted[f"{name}: {reason}"] = None

    def take(self) -> str:
        """All since the last time."""
        noted, self._noted = self._noted, {}
        return "; ".join(noted)


@attrs.frozen(eq=False)
class Planned:
    """The input and the answer of a leader, and the faults of the answer."""

    leader: SimMember
    state: GroupState
    plan: Plan
    violations: tuple[Violation, ...]
    reason: str


class World:
    """One simulated cluster.

    Args:
        scenario: what is in it; its steps are not played here.
        seed: for chance, None for the scenario's.
        assignor: the leaders' brain.
    """

    def __init__(
        self, scenario: Scenario, *, seed: int | None = None, assignor: Assignor = assign
    ) -> None:
        seed = scenario.seed if seed is None else seed
        self.scenario = scenario
        self.settings = scenario.settings
        self.clock = ManualClock()
        found = {spec.task.subtopology: spec.stateful for spec in scenario.all_tasks}
        numbers = 1 + max(found, default=0)
        kinds = [found.get(number, False) for number in range(numbers)]
        self.cluster = SimulatedCluster(scenario.tasks, kinds, scenario.instances, seed, self.clock)
        self.subtopologies = tuple(short_hash(b"%d" % number) for number in range(numbers))
        #: What is around the members' bytes in a group of type "consumer".
        topics = {n: (input_of(TaskId(n, 0)).topic,) for n in range(numbers)}
        self.envelope = Envelope(FixedTopics(topics))
        lowest_ms = min(6_000, self.settings.session_timeout_ms)
        highest_ms = max(1_800_000, self.settings.session_timeout_ms)
        rules = BrokerRules(min_session_timeout_ms=lowest_ms, max_session_timeout_ms=highest_ms)
        self.coordinator = FakeCoordinator(rules, hold=self._holds)
        self.network = Network(self, scenario.network, seed)
        self._input_dice = random.Random(f"input of {seed}")
        self.reasons = Reasons()
        self.checks = Checks(self)
        self.protocol = ProtocolChecks(self)
        #: When something last happened that a hand-over may have to wait for.
        self.disturbed_ms = 0
        #: Until when a thread stands still because a scenario says so.
        self.slow_until_ms = 0
        #: Processes that run, in the order they were started.
        self.members: list[SimMember] = []
        #: Every process that ever got a member id, by that id.
        self.by_id: dict[str, SimMember] = {}
        self.failed_over = False
        #: Members that left, and have not come back.
        self.left: set[str] = set()
        #: Plans by generation and leader.
        self.planned: dict[tuple[int, str], Planned] = {}
        self._assign = assignor
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._uids = self._expelled = 0
        self._hold_until_ms = 0
        #: Until when there is input to process, see ``INPUT_MS``.
        self.input_until_ms = 0
        self._held = self._prompted = False
        #: Called before time passes, when all is done that was due.
        self.watch: Callable[[], None] = lambda: None

    def subtopologies_of(self, spec: InstanceSpec) -> tuple[bytes, ...]:
        """The subtopologies of an instance's program, as it describes them."""
        return tuple(
            short_hash(f"{number} {spec.topology[number]}".encode())
            if number in spec.topology
            else usual
            for number, usual in enumerate(self.subtopologies)
        )

    # -- time ----------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """The simulated time, wall clock and monotonic in one."""
        return self.clock.now_ms()

    def at(self, at_ms: int, action: Callable[[], None]) -> None:
        """Do something then."""
        self._sequence += 1
        heapq.heappush(self._queue, (max(at_ms, self.now_ms), self._sequence, action))

    def later(self, ms: int, action: Callable[[], None]) -> None:
        """Do something after so long."""
        self.at(self.now_ms + ms, action)

    def run(self, until_ms: int, *, while_busy: bool = False) -> bool:
        """Let time pass until then, with ``while_busy`` only as long as something is under way.

        Tells whether all is quiet.
        """
        here, count = self.now_ms, 0
        while not (while_busy and self.quiet()):
            at_ms = self._next_ms()
            if at_ms is None or at_ms > until_ms:
                self.clock.advance(max(until_ms - self.now_ms, 0))
                return self.quiet()
            count = count + 1 if at_ms <= here else 0
            assert count < _TOO_MANY, f"time stands still at {here} ms"
            here = max(here, at_ms)
            if at_ms > self.now_ms:
                self.watch()
            self.clock.advance(max(at_ms - self.now_ms, 0))
            self._do_next()
        return True

    def _next_ms(self) -> int | None:
        queued = self._queue[0][0] if self._queue else None
        timer = self.coordinator.next_deadline()
        times = [at for at in (queued, timer) if at is not None]
        if self._held and self._hold_until_ms > self.now_ms:
            times.append(self._hold_until_ms)
        return min(times, default=None)

    def _do_next(self) -> None:
        """Do one thing that is due."""
        timer = self.coordinator.next_deadline()
        if timer is not None and timer <= self.now_ms:
            self.network.deliver(self.coordinator.tick(self.now_ms))
        elif self._queue and self._queue[0][0] <= self.now_ms:
            heapq.heappop(self._queue)[2]()
        self._prompt()
        if self._held:
            self._held = False
            self.network.deliver(self.coordinator.release(GROUP, self.now_ms))

    def _prompt(self) -> None:
        """Let all members learn of a rebalance soon: a heartbeat may be due at any moment.

        So a scenario does not use up clock on waiting for heartbeats.
        """
        preparing = self.coordinator.phase(GROUP) is GroupPhase.PREPARING
        if preparing and not self._prompted:
            for member in list(self.members):
                wake = member.when_awake(member.session.prompt)
                self.later(self.network.spread(), wake)
        self._prompted = preparing

    def quiet(self) -> bool:
        """True if nothing immediate remains; processes that stand still do not count."""
        if self.network.traffic:
            return False
        if not all(member.settled for member in self.members if not member.paused):
            return False
        group = self.coordinator.view(GROUP)
        if group is None or group.state not in _CALM:
            return group is None
        joined = set(group.members)
        if joined - {member.machine.view.member_id for member in self.members}:
            return False  # the coordinator has yet to notice that a member is gone
        return all(
            m.machine.view.member_id in joined and m.machine.view.generation == group.generation
            for m in self.members
            if not m.paused
        )

    # -- the join phase ------------------------------------------------------------------------

    def begin_step(self) -> None:
        """Keep join phases open for a while, so that all events of a step come in one round."""
        self._hold_until_ms = self.now_ms + HOLD_MS
        self.disturbed_ms = self.now_ms
        self.input_until_ms = self.now_ms + INPUT_MS

    def committed(self) -> None:
        """Have input deleted in a moment: any worker may delete what was committed."""
        if self._input_dice.random() < 0.5:
            self.later(self._input_dice.randint(0, _BEHIND_MS), self._delete_input)

    def _delete_input(self) -> None:
        dice, committed = self._input_dice, sorted(self.protocol.offsets().items())
        self.cluster.delete_input(dict(one for one in committed if dice.random() < 0.5))

    def records_there(self) -> int:
        """The records that a poll of one input brings."""
        return self._input_dice.randint(1, 3)

    def _holds(self, group: str) -> bool:
        if self.now_ms >= self._hold_until_ms:
            return False
        view = self.coordinator.view(group)
        if view is None or not view.members:
            return False  # it becomes Empty, and the next member starts a new one
        joined = view.joined
        self._held = any(
            not member.paused and not member.worker.stopping
            for member in self.members
            if member.machine.view.member_id not in joined
        )
        return self._held

    # -- processes -----------------------------------------------------------------------------

    def new_member(
        self, instance: SimulatedInstance, number: int, protocol_type: str | None = None
    ) -> SimMember:
        """A process that has yet to be started; see ``SimMember``."""
        self._uids += 1
        member = SimMember(self, instance, number, self._uids, protocol_type)
        self.members.append(member)
        self.left.discard(member.name)
        return member

    def start_instance(self, name: str) -> None:
        """Start all processes of an instance."""
        instance = self.cluster.instances[name]
        instance.drained = instance.exited = False
        instance.starts += 1
        for number in range(instance.spec.members):
            self.new_member(instance, number).start()

    def of(self, instance: str) -> list[SimMember]:
        """The live members of an instance."""
        return [m for m in self.members if m.instance.spec.name == instance]

    def named(self, name: str) -> list[SimMember]:
        """The live members that a name means: one, or all of an instance."""
        return [m for m in self.members if name in (m.name, m.instance.spec.name)]

    def kill(self, instance: str, *, remove: bool) -> None:
        """End all processes of an instance; with ``remove`` the group knows at once."""
        for member in self.of(instance):
            member.die()
            self.members.remove(member)
            if remove:
                self.expel(member, "crashed")

    def expel(self, member: SimMember, reason: str) -> None:
        """Remove all member ids of the process from the group, with their parked requests."""
        self.reasons.note(member.name, reason)
        self._expelled += 1
        view = self.coordinator.view(GROUP)
        known = set() if view is None else {*view.members, *view.pending}
        static = member.config.instance_id
        ids = [member_id for member_id, owner in self.by_id.items() if owner is member]
        leaving = [member_id for member_id in ids if member_id in known]
        if static is not None:
            leaving = [""]  # the holder of the static id: the process may not know its id yet
        for member_id in leaving:
            request = LeaveGroup(GROUP, member_id, static, reason)
            key = ("expelled", self._expelled, member_id)
            self.network.deliver(self.coordinator.handle(key, request, self.now_ms))

    def member_ended(self, member: SimMember) -> None:
        """A process left the group, or was refused for good."""
        self.disturbed_ms = self.now_ms
        self.checks.ended(member)
        member.die()
        self.members.remove(member)
        if self.was_forgotten(member):
            number = member.identity.member
            self.later(_RESTART_MS, lambda: self.new_member(member.instance, number).start())
            return
        self.left.add(member.name)
        instance = member.instance
        instance.exited = not self.of(instance.spec.name)
        if instance.exited:
            instance.leaving = None

    def fail_over(self) -> None:
        """The coordinator moves: it knows what was written, and all connections are new."""
        self.failed_over = True
        self.coordinator.restart(self.now_ms)
        self.network.cut()

    def was_forgotten(self, member: SimMember) -> bool:
        """True if a member was fenced because the coordinator failed over."""
        fenced = isinstance(member.ended, Failed) and isinstance(member.ended.error, FencedError)
        return fenced and self.failed_over

    def name_member(self, member_id: str, member: SimMember) -> None:
        """The coordinator calls a process so."""
        self.by_id[member_id] = member

    def name_of(self, member_id: str) -> str:
        """The scenario's name of a member."""
        member = self.by_id.get(member_id)
        return member_id if member is None else member.name

    def names_of(self, member_ids: Iterable[str]) -> list[str]:
        """The scenario's names of members."""
        return [self.name_of(member_id) for member_id in member_ids]

    def leader(self) -> SimMember | None:
        """The member that leads the group."""
        view = self.coordinator.view(GROUP)
        found = None if view is None or view.leader is None else self.by_id.get(view.leader)
        return found if found in self.members else None

    def accepts(self, member: SimMember) -> bool:
        """True if a commit of the member's worker would be taken now."""
        if member.loss_unseen:
            return False  # it is turned away before it is sent, whatever id the member has by now
        view = self.coordinator.view(GROUP)
        machine = member.machine
        known = view is not None and machine.view.member_id in view.members
        return known and view is not None and machine.view.generation == view.generation

    # -- planning ------------------------------------------------------------------------------

    def plan(self, leader: SimMember, state: GroupState) -> Plan:
        """Plan for a leader, and validate the plan."""
        self.protocol.planned(leader, state)
        plan = self._assign(state)
        violations = self.checks.planned(state, plan, self._assign)
        key = (state.generation, leader.machine.view.member_id)
        before = self.planned.get(key)  # its SyncGroup was lost, so it plans once more
        reason = self.reasons.take() or ("" if before is None else before.reason)
        self.planned[key] = Planned(leader, state, plan, tuple(violations), reason)
        return plan

    def would_plan(self) -> Plan:
        """The answer of a leader if all members joined now."""
        leader = self.leader() or self.members[0]
        states = tuple(m.state() for m in self.members if not m.paused and m.machine.view.member_id)
        view = self.coordinator.view(GROUP)
        now = 0 if view is None else view.generation
        last = self.planned.get((now, leader.machine.view.member_id))
        if last is not None:  # it went by the descriptions, which are incomplete from older members
            rules = last.state.rules
        else:
            eager = any(member.mode == "eager" for member in self.members)
            rules = attrs.evolve(leader.plan_rules, mode="eager" if eager else "incremental")
        return self._assign(
            GroupState(tuple(self.cluster.infos), states, now + 1, self.now_ms, rules)
        )
