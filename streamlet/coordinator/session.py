"""A membership with a thread of its own, so that joins and heartbeats wait for no other work.

::

    worker ── rejoin, commit, leave ──▶ queue ──▶ control thread ──▶ Membership (sans-IO)
       ▲                                  ▲          │ commands
       │ events (``on_event``)            │          ├──▶ GroupProtocol: describe, assign, decode
       └──────────────────────────────────│──────────┤
                                          │          └──▶ transport ──▶ coordinator
                                          └─ answers ◀──────┘  (its I/O thread only passes them on)

The leader's assignor runs on the control thread: heartbeats wait for it, but neither the worker nor
the network loop does.

Two things are easy to undo by accident. A commit called before the worker saw that its tasks are
lost must not go out under a member id got since: it is refused until the worker went round once
more. And what a worker says of its progress 200 times a second must not wake this thread each time.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeAlias, assert_never

import attrs

from streamlet.assignor.values import Copy
from streamlet.clock import Clock
from streamlet.coordinator import events as ev
from streamlet.coordinator.fence import WriteFence
from streamlet.coordinator.member_config import MembershipConfig
from streamlet.coordinator.membership import Membership
from streamlet.coordinator.messages import Answer, Committed
from streamlet.coordinator.ports import (
    GroupProtocol,
    GroupTransport,
    answered,
    fetch_committed,
    looked_up,
)
from streamlet.coordinator.states import MembershipState, MembershipView
from streamlet.errors import FatalGroupError, StreamletError
from streamlet.logs import get_logger
from streamlet.rebalance.values import NeedMetadata, RunAssignor
from streamlet.types import TaskId, TopicPartition

log = get_logger(__name__)

#: An event for the machine, an error that ends everything, or None: close.
Item: TypeAlias = ev.Event | StreamletError | None


@attrs.define(eq=False, slots=False)
class GroupSession:
    """One member of a group; all methods may be called from any thread.

    Args:
        config: the membership's settings.
        protocol: knows what subscriptions and assignments mean.
        transport: the way to the coordinator; closed with the session.
        clock: the time.
        on_event: takes what happens, on the control thread; must not block.
        describe: what to say of our tasks in a JoinGroup, asked on the control thread when one is
            due; by default we have none.
        on_member_id: called on the control thread when the member id changes, empty for none.
        start_timeout_ms: how long to look for the first coordinator before giving up; later ones
            are looked for as long as it takes.
        take_back: called on the control thread when others may have our tasks: delivers nothing
            more of what is queued.
    """

    _config: MembershipConfig
    _protocol: GroupProtocol
    _transport: GroupTransport
    _clock: Clock
    _on_event: Callable[[ev.SessionEvent], None]
    _describe: Callable[[], Mapping[TaskId, Copy]] = dict
    _on_member_id: Callable[[str], None] = lambda member_id: None
    _start_timeout_ms: int = 30_000
    _take_back: Callable[[], None] = lambda: None

    def __attrs_post_init__(self) -> None:
        self._closing = threading.Event()
        self._changed = threading.Condition()
        #: The membership as it was after the last event; written under ``_changed``.
        self.view = MembershipView()
        #: The membership is over.
        self.ended = threading.Event()
        #: How often tasks were lost, and how many of these losses the worker has seen.
        self._losses = self._losses_seen = 0
        #: The worker made progress that the machine was not told of yet.
        self.progressed = False
        self.machine = Membership(self._config)
        self._next: deque[ev.Event] = deque()
        self._sent: dict[int, Future[Answer]] = {}
        #: When ``take`` is to have a Tick, if nothing else comes before.
        self.wake_at_ms: int | None = None
        #: When to give up looking for a coordinator; None once one was found.
        self._give_up_ms: int | None = None
        self._queue: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self.fence = WriteFence(self._config.session_timeout_ms, self._clock, self._take_back)
        self._thread = threading.Thread(target=self._run, name="streamlet-group", daemon=True)

    # -- for others ----------------------------------------------------------------------------

    @property
    def loss_unseen(self) -> bool:
        """True if tasks were lost that the worker still believes to have."""
        return self._losses != self._losses_seen

    @property
    def gated(self) -> bool:
        """True if a commit would be turned away: see ``commit_gate``; or the tasks were lost."""
        from_ms = self.view.commits_from_ms
        return self.loss_unseen or from_ms is None or self._clock.now_ms() < from_ms

    def alive(self) -> bool:
        """True if the group has heard of us within the session timeout; if not, we try once more.

        False too after a loss that the worker has not seen: the group may know us by a new id, but
        not as the owner of what the worker has. Blocks for at most half a session timeout, and only
        if the last sign of life is too old.
        """
        if self.loss_unseen:
            return False
        timeout_ms = self._config.session_timeout_ms
        if self._clock.now_ms() - self.view.last_heartbeat_ms < timeout_ms:
            return self.view.generation >= 0
        return self.heartbeat_now(timeout_ms // 2)

    def may_write(self) -> bool:
        """True unless another member may have the tasks that the worker believes to have.

        Blocks for at most half a session timeout, and only if the last sign of life is too old.
        """
        if self.loss_unseen:
            return False
        in_time = self.fence.in_time(self.view)
        return in_time or self.heartbeat_now(self._config.session_timeout_ms // 2)

    def heartbeat_now(self, timeout_ms: int) -> bool:
        """Wait until a heartbeat sent from now on is answered; False: none was, or tasks are lost.

        Blocks for at most ``timeout_ms``.
        """
        since = self._clock.now_ms()
        self.put(ev.HeartbeatWanted())

        def answered() -> bool:
            return self.view.last_heartbeat_ms >= since

        with self._changed:
            self._changed.wait_for(
                lambda: answered() or self.view.generation < 0, timeout_ms / 1000
            )
            return answered() and self.view.generation >= 0

    def fetch_committed(
        self, partitions: Sequence[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, Committed]:
        """Read committed positions, waiting for open transactions on them to end. Blocks.

        Raises:
            TimedOutError: no answer, or still unstable, in ``timeout_ms``.
            BrokerError: the coordinator refuses.
        """
        return fetch_committed(
            self._transport,
            self._config.group,
            partitions,
            timeout_ms=timeout_ms,
            clock=self._clock,
            pause=self._closing.wait,
        )

    def start(self) -> None:
        """Begin to join."""
        self._thread.start()

    def rejoin(self, reason: str, descriptions: int | None = None) -> None:
        """Have the group rebalance, with what we then say of ourselves.

        ``descriptions``: how often ``describe`` had been called when this was wanted. If it was
        since, the join that it was called for may be all that is needed.
        """
        self.want(ev.Rejoin(reason, descriptions))

    def commit(
        self, token: int, offsets: Mapping[TopicPartition, tuple[int, str]], hold: int | None = None
    ) -> None:
        """Commit (offset, metadata text) of partitions; one ``CommitDone`` with the token follows.

        ``hold`` is the token of the granted hold this commit belongs to.
        """
        # Whether it still counts is decided where losses happen, not here: between a look and the
        # sending the membership may be lost and had again under another id.
        self.put(ev.CommitWanted(token, dict(offsets), hold, self._losses_seen))

    def want(self, request: ev.WorkerRequest) -> None:
        """Pass a request of the worker to the membership; the answer is as ``events`` says."""
        self.put(request)

    def progress(self) -> None:
        """The worker's loop went round and takes now all events up to here, before anything else.

        Without this for ``max.poll.interval.ms`` the member leaves the group by itself.
        """
        self._losses_seen = self._losses
        self.progressed = True
        if self.view.state is MembershipState.STALLED:
            self.put(ev.Tick())

    def leave(self, reason: str, timeout_ms: int, *, quietly: bool | None = None) -> bool:
        """End the membership and wait for it; False if it is not over in ``timeout_ms``.

        ``quietly``: without telling the group, so that a successor with our static id goes on with
        our tasks; None: exactly if we have a static id. Blocks.
        """
        if not self.running:
            return True
        static = self._config.instance_id is not None
        self.put(ev.LeaveWanted(reason, quietly=static if quietly is None else quietly))
        return self.ended.wait(timeout_ms / 1000)

    def close(self) -> None:
        """End the thread and the transport, without leaving; no events follow."""
        self._closing.set()
        self.put(None)
        if self.running and self._thread is not threading.current_thread():
            self._thread.join()
        self._transport.close()

    def put(self, item: Item) -> None:
        """Queue an item."""
        self._queue.put(item)

    @property
    def running(self) -> bool:
        """True if it was started and did not end."""
        return self._thread.is_alive()

    # -- on the control thread -----------------------------------------------------------------

    def _run(self) -> None:
        try:
            self.begin()
            while not self.ended.is_set() and (item := self._await()) is not None:
                self.take(item)
        except Exception as error:  # a bug of ours or of the protocol: the worker must learn of it
            text = f"the membership of group {self._config.group} broke"
            log.exception(text)
            self._fail(FatalGroupError(f"{text}: {error!r}"))
        finally:
            self.ended.set()
            with self._changed:
                self._changed.notify_all()

    def _await(self) -> Item:
        """Wait for the next item; a Tick when it is time for one."""
        times = (self.wake_at_ms, self.fence.due_ms(self.view))
        at_ms = min((at for at in times if at is not None), default=None)
        wait_s = None if at_ms is None else max(at_ms - self._clock.now_ms(), 0) / 1000
        item: Item = ev.Tick()
        with contextlib.suppress(queue.Empty):
            item = self._queue.get(timeout=wait_s)
        self.fence.look(self.view)
        return item

    def begin(self) -> None:
        """Begin to join."""
        self._give_up_ms = self._clock.now_ms() + self._start_timeout_ms
        self.take(ev.StartMembership())

    def take(self, item: ev.Event | StreamletError) -> None:
        """Take an item; an error of ours that it leads to ends the membership."""
        try:
            if isinstance(item, StreamletError):
                raise item
            if isinstance(item, (ev.Answered, ev.RequestFailed)):
                self._sent.pop(item.number, None)
            elif isinstance(item, ev.CoordinatorFound):
                self._give_up_ms = None
            elif isinstance(item, ev.CoordinatorNotFound) and self._given_up():
                raise item.cause
            self._feed(item)
        except StreamletError as error:
            self._fail(error)

    def _given_up(self) -> bool:
        return self._give_up_ms is not None and self._clock.now_ms() >= self._give_up_ms

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
            with self._changed:
                self.view = view
                self._changed.notify_all()

    def _perform(self, command: ev.Command) -> None:
        match command:
            case ev.FindCoordinator(timeout_ms):
                if self._give_up_ms is not None:
                    timeout_ms = min(timeout_ms, self._give_up_ms - self._clock.now_ms())
                found = self._transport.find_coordinator(self._config.group, max(timeout_ms, 1))
                found.add_done_callback(lambda done: self.put(looked_up(done)))
            case ev.Send():
                self._send(command)
            case ev.Abandon(number, connection):
                self._abandon(number, connection)
            case NeedMetadata():
                protocols = self._protocol.subscribe(command, self._describe())
                ready = ev.MetadataReady(command.request, self._protocol.protocol_type, protocols)
                self._next.append(ready)
            case RunAssignor():
                self._assign(command)
            case ev.Assigned():
                self._deliver(command)
            case ev.Lost():
                self.fence.take_back()
                self.publish()  # who learns of the loss must not read the old generation
                self._on_event(command)
                self._losses += 1  # after the event: see ``progress``
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
        future = self._transport.send(command.request, command.connection, command.timeout_ms)
        self._sent[command.number] = future
        future.add_done_callback(lambda done: self.put(answered(command.number, done)))

    def _abandon(self, number: int, connection: ev.Connection) -> None:
        future = self._sent.pop(number, None)
        # A parked JoinGroup blocks its connection for whatever comes next. On the other one nothing
        # is parked for long, and cutting it would leave commits without an answer.
        if connection is ev.Connection.JOIN and future is not None and not future.done():
            self._transport.hang_up(connection)

    def _assign(self, command: RunAssignor) -> None:
        try:
            assignments = dict(self._protocol.assign(command))
        except StreamletError as error:
            log.warning("no plan for generation %d: %s", command.generation, error)
            self._next.append(ev.AssignorFailed(command.generation, str(error)))
        else:
            self._next.append(ev.AssignmentsReady(command.generation, assignments))

    def _deliver(self, command: ev.Assigned[bytes]) -> None:
        assignment = self._protocol.decode(command.assignment)
        due_ms = assignment.follow_up_ms
        if due_ms is not None:
            now_ms, wall_ms = self._clock.now_ms(), self._clock.wall_ms()
            due_ms = now_ms + max(due_ms - wall_ms, 0)
            assignment = attrs.evolve(assignment, follow_up_ms=due_ms)
        self.publish()
        answer = (command.generation, command.member_id, assignment)
        self._on_event(ev.Assigned(*answer, command.leader, command.restarted))
        migration = assignment.migration
        if migration is not None and migration.protocol_type != self._protocol.protocol_type:
            self._next.append(ev.MigrationOrdered(migration.protocol_type, command.generation))

    def _fail(self, error: StreamletError) -> None:
        """Report a fatal error to the worker, also if the machine does not know of it."""
        if self.machine.view.generation >= 0:
            self._on_event(ev.Lost(str(error)))
        self._losses += 1
        self.view = attrs.evolve(
            self.view, state=MembershipState.FAILED, member_id="", generation=-1
        )
        self._on_event(ev.Failed(error))
        self.ended.set()
