"""The control thread of a session: feeds the membership machine and does what it says.

The machine's commands go to the transport, to the protocol (which runs here, on this thread, the
leader's assignor too) and, as events, to the worker. What comes back goes through one queue.

``Control`` takes one item of that queue at a time, without a thread and without waiting:
``ControlThread`` gives it the items, and the simulator does.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Protocol, TypeAlias, assert_never

import attrs

from streamlet.assignor.values import Copy
from streamlet.clock import Clock
from streamlet.errors import FatalGroupError, StreamletError
from streamlet.group import events as ev
from streamlet.group.coordinator_connection import (
    CoordinatorRefused,
    GroupTransport,
    TransportError,
)
from streamlet.group.member_config import MembershipConfig
from streamlet.group.membership import Membership
from streamlet.group.messages import Answer
from streamlet.group.states import MembershipState, MembershipView
from streamlet.group.values import Assignment
from streamlet.types import TaskId

log = logging.getLogger(__name__)


#: An event for the machine, an error that ends everything, or None: close.
Item: TypeAlias = ev.Event | StreamletError | None


class GroupProtocol(Protocol):
    """The content of the group's messages; called on the control thread.

    An error raised by ``subscribe`` or ``decode`` ends the membership. ``assign`` may raise a
    ``StreamletError`` when it has no plan just now (topics unknown, broker away): it is run again.
    """

    protocol_type: str

    def subscribe(
        self, need: ev.NeedMetadata, copies: Mapping[TaskId, Copy]
    ) -> tuple[tuple[str, bytes], ...]:
        """The protocols to join with: (name, metadata), best first; the nonce must be in it."""
        ...

    def assign(self, run: ev.RunAssignor) -> Mapping[str, bytes]:
        """Make all assignments, as the leader; by member id."""
        ...

    def decode(self, assignment: bytes) -> Assignment:
        """Read our own assignment."""
        ...


class ControlRunner(Protocol):
    """Calls ``Control.begin``, then ``Control.take`` with each item and at ``Control.wake_at_ms``.

    Until an item is None, or the membership is over; always one call after the other.
    """

    @property
    def running(self) -> bool:
        """True if it was started and did not end."""
        ...

    def start(self) -> None:
        """Begin."""
        ...

    def put(self, item: Item) -> None:
        """Queue an item; from any thread."""
        ...

    def join(self) -> None:
        """Wait until it has ended."""
        ...


class ControlThread:
    """The control thread.

    Args:
        control: what it runs.
        clock: the time.
    """

    def __init__(self, control: Control, clock: Clock) -> None:
        self._control, self._clock = control, clock
        self._queue: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="streamlet-group", daemon=True)

    @property
    def running(self) -> bool:
        """True if it was started and did not end."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def put(self, item: Item) -> None:
        """Queue an item; from any thread."""
        self._queue.put(item)

    def join(self) -> None:
        """Wait until it has ended."""
        if self.running and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            self._control.begin()
            while not self._control.ended.is_set() and (item := self._await()) is not None:
                self._control.take(item)
        except Exception as error:  # a bug of ours or of the protocol: the worker must learn of it
            self._control.broke(error)
        finally:
            self._control.end()

    def _await(self) -> Item:
        """Wait for the next event; a Tick when it is time for one."""
        at_ms = self._control.wake_at_ms
        wait_s = None if at_ms is None else max(at_ms - self._clock.now_ms(), 0) / 1000
        try:
            return self._queue.get(timeout=wait_s)
        except queue.Empty:
            return ev.Tick()


class Control:
    """Owns the machine; everything but ``put``, ``view`` and the events is its own thread's."""

    def __init__(
        self,
        config: MembershipConfig,
        protocol: GroupProtocol,
        transport: GroupTransport,
        clock: Clock,
        on_event: Callable[[ev.SessionEvent], None],
        describe: Callable[[], Mapping[TaskId, Copy]],
        on_member_id: Callable[[str], None],
        start_timeout_ms: int,
        runner: Callable[[Control, Clock], ControlRunner] = ControlThread,
    ) -> None:
        self._group = config.group
        self._protocol = protocol
        self._transport = transport
        self._clock = clock
        self._on_event = on_event
        self._describe = describe
        self._on_member_id = on_member_id
        self._start_timeout_ms = start_timeout_ms
        self.changed = threading.Condition()
        #: Written by this thread under ``changed``.
        self.view = MembershipView()
        self.ended = threading.Event()
        #: How often tasks were lost, and how many of these losses the worker has seen: written by
        #: ``GroupSession.progress``.
        self.losses = self.losses_seen = 0
        self.progressed = False
        self.machine = Membership(config)
        self._next: deque[ev.Event] = deque()
        self._sent: dict[int, Future[Answer]] = {}
        #: When ``take`` is to have a Tick, if nothing else comes before.
        self.wake_at_ms: int | None = None
        #: When to give up looking for a coordinator; None once one was found.
        self._give_up_ms: int | None = None
        self._cause: StreamletError = TransportError(ev.FailureKind.TIMEOUT, "no broker answers")
        self.runner = runner(self, clock)

    @property
    def loss_unseen(self) -> bool:
        """True if tasks were lost that the worker still believes to have."""
        return self.losses != self.losses_seen

    def put(self, item: Item) -> None:
        """Queue something, from any thread."""
        self.runner.put(item)

    def begin(self) -> None:
        """Begin to join."""
        self._give_up_ms = self._clock.now_ms() + self._start_timeout_ms
        self.take(ev.StartMembership())

    def take(self, item: ev.Event | StreamletError) -> None:
        """Take an item; an error of ours that it leads to ends the membership."""
        try:
            self._take(item)
        except StreamletError as error:
            self._fail(error)

    def broke(self, error: Exception) -> None:
        """End because of a bug."""
        log.exception("the membership of group %s broke", self._group)
        self._fail(FatalGroupError(f"the membership of group {self._group} broke: {error!r}"))

    def end(self) -> None:
        """Take nothing more."""
        self.ended.set()
        with self.changed:
            self.changed.notify_all()

    def _take(self, item: ev.Event | StreamletError) -> None:
        if isinstance(item, StreamletError):
            raise item
        if isinstance(item, (ev.Answered, ev.RequestFailed)):
            self._sent.pop(item.number, None)
        elif isinstance(item, ev.CoordinatorFound):
            self._give_up_ms = None
        elif (
            isinstance(item, ev.CoordinatorNotFound)
            and self._give_up_ms is not None
            and self._clock.now_ms() >= self._give_up_ms
        ):
            raise self._cause
        self._feed(item)

    def _feed(self, event: ev.Event) -> None:
        """Hand the machine an event and do what it says, and so on until it wants nothing more."""
        if self.progressed and not isinstance(event, ev.StartMembership):
            self.progressed = False
            self._next.append(ev.ProgressMade())
        self._next.append(event)
        while self._next and not self.ended.is_set():
            for command in self.machine.handle(self._next.popleft(), self._clock.now_ms()):
                self._perform(command)
        self.publish()

    def publish(self) -> None:
        """Show other threads how the machine is now."""
        view = self.machine.view
        if view != self.view:
            if view.member_id != self.view.member_id:
                self._on_member_id(view.member_id)
            with self.changed:
                self.view = view
                self.changed.notify_all()

    def _perform(self, command: ev.Command) -> None:
        match command:
            case ev.FindCoordinator(timeout_ms):
                if self._give_up_ms is not None:
                    timeout_ms = min(timeout_ms, self._give_up_ms - self._clock.now_ms())
                found = self._transport.find_coordinator(self._group, max(timeout_ms, 1))
                found.add_done_callback(self._looked_up)
            case ev.Send():
                self._send(command)
            case ev.Abandon(number, connection):
                self._abandon(number, connection)
            case ev.NeedMetadata():
                protocols = self._protocol.subscribe(command, self._describe())
                ready = ev.MetadataReady(command.request, self._protocol.protocol_type, protocols)
                self._next.append(ready)
            case ev.RunAssignor():
                self._assign(command)
            case ev.Assigned():
                self._deliver(command)
            case ev.Lost():
                self.publish()  # who learns of the loss must not read the old generation
                self._on_event(command)
                self.losses += 1  # after the event: see ``GroupSession.progress``
            case ev.CommitDone() | ev.FetchDone() | ev.JoinBlocked() | ev.JoinSoon():
                self._on_event(command)
            case ev.WakeAt(at_ms):
                self.wake_at_ms = at_ms
            case ev.Failed(error):
                self._fail(error)
            case ev.Left():
                self.publish()
                self._on_event(command)
                self.ended.set()
            case _:
                assert_never(command)

    def _send(self, command: ev.Send) -> None:
        number = command.number
        future = self._transport.send(command.request, command.connection, command.timeout_ms)
        self._sent[number] = future
        future.add_done_callback(lambda done: self._answered(number, done))

    def _abandon(self, number: int, connection: ev.Connection) -> None:
        future = self._sent.pop(number, None)
        # A parked JoinGroup blocks its connection for whatever comes next. On the other one nothing
        # is parked for long, and cutting it would leave commits without an answer.
        if connection is ev.Connection.JOIN and future is not None and not future.done():
            self._transport.hang_up(connection)

    def _assign(self, command: ev.RunAssignor) -> None:
        try:
            assignments = dict(self._protocol.assign(command))
        except StreamletError as error:
            log.warning("no plan for generation %d: %s", command.generation, error)
            self._next.append(ev.AssignorFailed(command.generation, str(error)))
        else:
            self._next.append(ev.AssignmentsReady(command.generation, assignments))

    def _deliver(self, command: ev.Assigned[bytes]) -> None:
        assignment = self._protocol.decode(command.assignment)
        self.publish()
        told = (command.generation, command.member_id, assignment)
        self._on_event(ev.Assigned(*told, command.leader, command.restarted))
        flip = assignment.flip
        if flip is not None and flip.protocol_type != self._protocol.protocol_type:
            self._next.append(ev.MigrationOrdered(flip.protocol_type, command.generation))

    def _fail(self, error: StreamletError) -> None:
        """Tell the worker that this is the end; the machine may not know it."""
        if self.machine.view.generation >= 0:
            self._on_event(ev.Lost(str(error)))
        self.losses += 1
        self.view = attrs.evolve(
            self.view, state=MembershipState.FAILED, member_id="", generation=-1
        )
        self._on_event(ev.Failed(error))
        self.ended.set()

    # -- on whatever thread the transport answers ----------------------------------------------

    def _looked_up(self, found: Future[str]) -> None:
        try:
            self.put(ev.CoordinatorFound(found.result()))
        except CoordinatorRefused as error:
            self._cause = error
            self.put(ev.CoordinatorNotFound(error.code))
        except TransportError as error:
            self._cause = error
            self.put(ev.CoordinatorNotFound() if error.passing else error)
        except Exception as error:
            self.put(_broken(error))

    def _answered(self, number: int, done: Future[Answer]) -> None:
        try:
            self.put(ev.Answered(number, done.result()))
        except CoordinatorRefused:
            # A look-up will tell the code.
            self.put(ev.RequestFailed(number, ev.FailureKind.DISCONNECTED))
        except TransportError as error:
            self.put(ev.RequestFailed(number, error.kind) if error.passing else error)
        except Exception as error:
            self.put(_broken(error))


def _broken(error: Exception) -> FatalGroupError:
    broken = FatalGroupError(f"the group's transport broke: {error!r}")
    broken.__cause__ = error
    return broken
