"""The real membership of a simulated member: its thread, its way to the coordinator.

``coordinator.session`` is the one that ships. What is simulated is when the control
thread comes round, what the network does with a request, and the one wait that a session has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING

import attrs

from streamlet.assignor.values import Copy
from streamlet.coordinator.events import (
    BlockJoin,
    Connection,
    Event,
    HeartbeatWanted,
    Rejoin,
    Send,
    SessionEvent,
    Tick,
    WorkerRequest,
)
from streamlet.coordinator.messages import Answer, Request
from streamlet.coordinator.session import GroupSession, Item
from streamlet.errors import StreamletError
from streamlet.rebalance.protocol import TasksProtocol
from streamlet.rebalance.values import Assignment
from streamlet.tasks.rebalance_events import RebalanceEvents
from streamlet.testing.simulation.counting import task_of
from streamlet.types import TaskId, TopicPartition

if TYPE_CHECKING:
    from streamlet.testing.simulation.member import SimMember


class SimControl:
    """The control thread of a member: an item waits for as long as a thread takes to come round."""

    def __init__(self, member: SimMember, session: GroupSession) -> None:
        self._member, self._session = member, session
        self._started = False
        #: Items that were put and not taken yet.
        self.waiting = 0
        self._last_ms = 0
        self._alarm_ms: int | None = None

    @property
    def running(self) -> bool:
        """True if it was started and did not end."""
        return self._started and not self._session.ended.is_set()

    def start(self) -> None:
        """Begin."""
        self._started = True
        self._session.begin()
        self.arm()

    def resume(self) -> None:
        """Go on with a membership that began before the simulation did."""
        self._started = True
        self._session.publish()
        self.arm()

    def put(self, item: Item) -> None:
        """Take this item in a moment, behind those that were put before it."""
        world = self._member.world
        self.waiting += 1
        self._last_ms = max(self._last_ms, world.now_ms + world.network.hop())
        world.at(self._last_ms, self._member.when_awake(lambda: self._arrived(item)))

    def rest(self, ms: int) -> None:
        """Take what is put from now on not before so long."""
        world = self._member.world
        self._last_ms = max(self._last_ms, world.now_ms + ms)
        world.slow_until_ms = max(world.slow_until_ms, self._last_ms)

    def _arrived(self, item: Item) -> None:
        self.waiting -= 1
        assert item is not None, "nothing here closes a session"
        self._take(item)

    def _take(self, item: Event | StreamletError) -> None:
        if self.running:
            self._session.take(item)
            self._session.machine.check_invariants()
            self.arm()

    def arm(self) -> None:
        """Come round when the membership wants to be woken."""
        at_ms = self._session.wake_at_ms
        if at_ms is not None and (self._alarm_ms is None or at_ms < self._alarm_ms):
            self._alarm_ms = at_ms
            self._member.world.at(at_ms, self._member.when_awake(lambda: self._woken(at_ms)))

    def _woken(self, alarm_ms: int) -> None:
        if alarm_ms != self._alarm_ms:
            return  # an earlier alarm has taken its place
        self._alarm_ms = None
        wake_at_ms = self._session.wake_at_ms
        if wake_at_ms is None or wake_at_ms > self._member.world.now_ms:
            self.arm()
        else:
            self._session.progressed = True  # a worker's loop never rests as a simulated one does
            self._take(Tick())


class SimTransport:
    """A member's connections to the simulated coordinator."""

    def __init__(self, member: SimMember) -> None:
        self._member = member
        self._number = 0

    def find_coordinator(self, group: str, timeout_ms: int) -> Future[str]:
        """Find it after the time a message takes."""
        found: Future[str] = Future()
        self._member.world.network.travel(lambda: found.set_result("coordinator"))
        return found

    def send(self, request: Request, connection: Connection, timeout_ms: int) -> Future[Answer]:
        """Send; timeouts are left to the membership."""
        self._number += 1
        answer: Future[Answer] = Future()
        send = Send(self._number, request, connection, timeout_ms)
        self._member.world.network.send(self._member, send, answer)
        return answer

    def hang_up(self, connection: Connection) -> None:
        """Cut a connection; the coordinator does not notice."""
        self._member.world.network.hang_up(self._member, connection)

    def close(self) -> None:
        """Close nothing."""


class SimSession(GroupSession):
    """The session of a member; it notes what the rules are checked by."""

    def __init__(
        self,
        member: SimMember,
        protocol: TasksProtocol,
        on_event: Callable[[SessionEvent], None],
        describe: Callable[[], Mapping[TaskId, Copy]],
    ) -> None:
        self._member = member
        super().__init__(
            member.config,
            protocol,
            SimTransport(member),
            member.world.clock,
            on_event,
            describe=describe,
        )
        self.thread = SimControl(member, self)
        #: Generation of the order of each unit, by token.
        self.orders: dict[int, int] = {}

    @property
    def running(self) -> bool:
        """True if it was started and did not end."""
        return self.thread.running

    def start(self) -> None:
        """Begin to join."""
        self.thread.start()

    def put(self, item: Item) -> None:
        """Queue an item."""
        self.thread.put(item)

    def leave(self, reason: str, timeout_ms: int, *, quietly: bool | None = None) -> bool:
        """Begin to leave; time passes before that is over."""
        return super().leave(reason, 0, quietly=quietly)

    def heartbeat_now(self, timeout_ms: int) -> bool:
        """False: a worker that has to wait for a heartbeat waits before it begins a commit."""
        self.prompt()
        return False

    def prompt(self) -> None:
        """Send a heartbeat now."""
        self.put(HeartbeatWanted())

    def want(self, request: WorkerRequest) -> None:
        """Pass a request to the control thread."""
        if isinstance(request, Rejoin) and "does not proceed" in request.reason:
            self._member.world.protocol.late(self._member, request.reason)
        if isinstance(request, BlockJoin):
            self.orders[request.token] = request.generation
        super().want(request)

    def commit(
        self,
        token: int,
        offsets: Mapping[TopicPartition, tuple[int, str]],
        hold: int | None = None,
    ) -> None:
        """Commit positions."""
        self._member.commits[token] = frozenset(map(task_of, offsets)), hold is not None
        super().commit(token, offsets, hold)

    def wake_at(self, at_ms: int) -> None:
        """Be woken then."""
        self.wake_at_ms = at_ms


class SimEvents(RebalanceEvents):
    """The events of a member, whose worker waits for none: time passes between two rounds."""

    def __init__(self, member: SimMember) -> None:
        super().__init__(member.manager, member.world.clock)
        self._member = member

    def wake(self) -> None:
        """Schedule a step of the worker, because its copies have news."""
        super().wake()
        self._member.worker.unheard = True
        self._member.wake_worker()

    def wait(self, timeout_ms: int) -> None:
        """Wait for nothing."""


class WatchedProtocol(TasksProtocol):
    """The tasks protocol of a member, watched where it reads an assignment."""

    member: SimMember

    def decode(self, assignment: bytes) -> Assignment:
        """Read our assignment without release delays, which are shorter than a step."""
        member = self.member
        orders = super().decode(assignment)
        nonce = None if self._described is None else self._described.nonce
        member.world.protocol.delivered(member, orders, nonce)
        member.deferral_ms = orders.deferral_deadline_ms
        migration = orders.migration
        if migration is not None and migration.protocol_type != self.protocol_type:
            member.world.protocol.ordered_over(member, member.machine.view.generation)
        return attrs.evolve(orders, release_delay_ms=0)
