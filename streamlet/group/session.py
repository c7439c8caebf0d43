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

import threading
from collections.abc import Callable, Mapping, Sequence

from streamlet.assignor.values import Copy
from streamlet.clock import Clock
from streamlet.errors import BrokerError, TimedOutError
from streamlet.group import events as ev
from streamlet.group.codes import Remedy, RequestKind, judge
from streamlet.group.control import Control, ControlRunner, ControlThread, GroupProtocol
from streamlet.group.coordinator_connection import GroupTransport, TransportError
from streamlet.group.member_config import MembershipConfig
from streamlet.group.messages import Committed, OffsetFetch, OffsetFetchAnswer
from streamlet.group.states import BETWEEN, MembershipState, MembershipView
from streamlet.types import TaskId, TopicPartition


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
        runner: makes what runs the membership.
    """

    def __init__(
        self,
        config: MembershipConfig,
        protocol: GroupProtocol,
        transport: GroupTransport,
        clock: Clock,
        on_event: Callable[[ev.SessionEvent], None],
        *,
        describe: Callable[[], Mapping[TaskId, Copy]] = dict,
        on_member_id: Callable[[str], None] = lambda member_id: None,
        start_timeout_ms: int = 30_000,
        runner: Callable[[Control, Clock], ControlRunner] = ControlThread,
    ) -> None:
        self._config = config
        self._transport = transport
        self._clock = clock
        self._closing = threading.Event()
        self._control = Control(
            config,
            protocol,
            transport,
            clock,
            on_event,
            describe,
            on_member_id,
            start_timeout_ms,
            runner,
        )

    # -- what others may ask -------------------------------------------------------------------

    @property
    def view(self) -> MembershipView:
        """The membership as it was after the last event."""
        return self._control.view

    @property
    def gated(self) -> bool:
        """True if a commit would be turned away: a join is under way, or the tasks were lost."""
        if self._control.loss_unseen:
            return True
        view, after_ms = self.view, self._config.parked_commit_after_ms
        if view.join_sent_ms is not None and after_ms is not None:
            return self._clock.now_ms() - view.join_sent_ms < after_ms
        due = (MembershipState.PREPARING, MembershipState.FLIPPING)
        return view.state in BETWEEN or view.state in due

    def alive(self) -> bool:
        """True if the group has heard of us within the session timeout; if not, we try once more.

        False too after a loss that the worker has not seen: the group may know us by a new id, but
        not as the owner of what the worker has. Blocks for at most half a session timeout, and only
        if the last sign of life is too old.
        """
        if self._control.loss_unseen:
            return False
        timeout_ms = self._config.session_timeout_ms
        if self._clock.now_ms() - self.view.last_heartbeat_ms < timeout_ms:
            return self.view.generation >= 0
        return self.heartbeat_now(timeout_ms // 2)

    def heartbeat_now(self, timeout_ms: int) -> bool:
        """Wait until a heartbeat sent from now on is answered; False: none was, or tasks are lost.

        Blocks for at most ``timeout_ms``.
        """
        since = self._clock.now_ms()
        self._control.put(ev.Tick())

        def answered() -> bool:
            return self.view.last_heartbeat_ms >= since

        with self._control.changed:
            self._control.changed.wait_for(
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

    # -- what others may want ------------------------------------------------------------------

    def start(self) -> None:
        """Begin to join."""
        self._control.runner.start()

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
        self._control.put(ev.CommitWanted(token, dict(offsets), hold, self._control.losses_seen))

    def want(self, wish: ev.Wish) -> None:
        """Hand a wish of the worker's to the membership; it is answered as ``events`` says."""
        self._control.put(wish)

    def progress(self) -> None:
        """The worker's loop went round and takes now all events up to here, before anything else.

        Without this for ``max.poll.interval.ms`` the member leaves the group by itself.
        """
        self._control.losses_seen = self._control.losses
        self._control.progressed = True
        if self.view.state is MembershipState.STALLED:
            self._control.put(ev.Tick())

    def leave(self, reason: str, timeout_ms: int, *, quietly: bool | None = None) -> bool:
        """End the membership and wait for it; False if it is not over in ``timeout_ms``.

        ``quietly``: without telling the group, so that a successor with our static id goes on with
        our tasks; None: exactly if we have a static id. Blocks.
        """
        if not self._control.runner.running:
            return True
        static = self._config.instance_id is not None
        self._control.put(ev.LeaveWanted(reason, quietly=static if quietly is None else quietly))
        return self._control.ended.wait(timeout_ms / 1000)

    def close(self) -> None:
        """End the thread and the transport, without leaving; no events follow."""
        self._closing.set()
        self._control.put(None)
        self._control.runner.join()
        self._transport.close()


_ATTEMPT_MS = 5_000
#: An open transaction usually ends within a few ms; a coordinator that moves takes longer.
_UNSTABLE_PAUSE_MS = 10
_RETRY_PAUSE_MS = 100


def fetch_committed(
    transport: GroupTransport,
    group: str,
    partitions: Sequence[TopicPartition],
    *,
    timeout_ms: int,
    clock: Clock,
    pause: Callable[[float], bool],
) -> dict[TopicPartition, Committed]:
    """Ask until every partition has an answer that is stable. Blocks.

    Args:
        transport: the way to the coordinator.
        group: whose positions.
        partitions: which.
        timeout_ms: how long to try.
        clock: the time.
        pause: waits for some seconds; True means to give up.

    Raises:
        TimedOutError: no answer, or an unstable one, for ``timeout_ms``.
        BrokerError: the coordinator refuses, or trying again cannot help.
    """
    if not partitions:
        return {}
    deadline = clock.now_ms() + timeout_ms
    request = OffsetFetch(group, tuple(partitions))
    problem = "no answer"
    while (remaining := deadline - clock.now_ms()) > 0:
        wait_ms = _RETRY_PAUSE_MS
        try:
            sent = transport.send(request, ev.Connection.MAIN, min(remaining, _ATTEMPT_MS))
            answer = sent.result()
        except TransportError as error:
            if not error.passing:
                raise
            problem = str(error)
        else:
            assert isinstance(answer, OffsetFetchAnswer), answer
            codes = [answer.committed[p].error for p in partitions if p in answer.committed]
            missing = [] if answer.error or len(codes) == len(partitions) else [-1]
            verdict = judge(RequestKind.FETCH, [answer.error, *codes, *missing])
            if verdict.remedy is Remedy.PROCEED:
                return {p: answer.committed[p] for p in partitions}
            if verdict.remedy in (Remedy.REFUSED, Remedy.FATAL):
                raise BrokerError(f"reading committed offsets of group {group}: {verdict}")
            problem = str(verdict)
            if verdict.remedy is Remedy.UNSTABLE:
                wait_ms = _UNSTABLE_PAUSE_MS
        if pause(wait_ms / 1000):
            raise TransportError(ev.FailureKind.CLOSED, "closed while reading committed offsets")
    raise TimedOutError(f"committed offsets of group {group}: {problem} for {timeout_ms} ms")
