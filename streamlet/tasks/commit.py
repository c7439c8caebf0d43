"""Commits under at-least-once: nothing lost, a task's state exact with its committed positions.

The order is the whole point, and it is the order of ``CommitPhase``. First everything written so
far is delivered: outputs, and the stores' dirty entries as changelog records that bear the commit's
number. Then the input positions are committed through our membership, so that a process that lost
its tasks is refused. Only when that is accepted are the entries written to the local store. A crash
at any point leaves a store that is never ahead of the commit, and changelog records that the next
owner knows not to count.

One commit is under way at most. While the coordinator answers, processing goes on; the entries of
the commit stay readable in the cache. After an unknown outcome the same offsets and changelog
records are committed again, without marks and in a new generation, before the next one begins.

What takes long is done task by task, a few milliseconds a call, with batches processed in between:
encoding what is dirty before the commit, writing it to the local stores after it.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

import attrs

from streamlet.clock import Clock
from streamlet.coordinator.commit_texts import TextRules
from streamlet.coordinator.events import CommitOutcome
from streamlet.coordinator.session import GroupSession
from streamlet.errors import StateError, TaskMigratedError
from streamlet.logs import get_logger
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.commit_delivery import ChangelogDelivery, DeliveryStage
from streamlet.tasks.commit_share import Settled, TaskCommit, refusal
from streamlet.tasks.task_record import TaskStage, Unit, UnitStage
from streamlet.types import TopicPartition

log = get_logger(__name__)

#: How often the changelogs of a task that has nothing to write are looked at all the same, ms: well
#: within the time for which they are not compacted (``topology.internal_topics``). That finds what
#: a late member wrote before compaction may run, and notes the age of the stores. So do not set
#: ``min.compaction.lag.ms`` below a quarter of an hour.
LOOK_MS = 300_000
#: How long one call may go on with the next task; one task is never cut in pieces.
STEP_NS = 4_000_000
#: How long one call waits for deliveries, ms: while more is to be processed, and else.
SOON_MS, DELIVER_MS = 4, 1_000


class CommitPhase(enum.StrEnum):
    """The phases of a commit."""

    NONE = "none"  # there is none
    PREPARING = "preparing"  # shares of tasks are still to be taken and sent to changelogs
    PREPARED = "prepared"  # not all of that is known to be delivered
    DELIVERED = "delivered"  # to be sent to the coordinator, perhaps once more
    SENT = "sent"  # the coordinator has not answered
    ACCEPTED = "accepted"  # not all of it is written to the local stores


#: The phases that may follow each; besides, what is left of it may be dropped at any time.
MOVES: Mapping[CommitPhase, frozenset[CommitPhase]] = {
    CommitPhase.NONE: frozenset(
        (CommitPhase.PREPARING, CommitPhase.PREPARED, CommitPhase.DELIVERED)
    ),
    CommitPhase.PREPARING: frozenset((CommitPhase.PREPARED,)),
    CommitPhase.PREPARED: frozenset((CommitPhase.DELIVERED,)),
    CommitPhase.DELIVERED: frozenset((CommitPhase.SENT,)),
    CommitPhase.SENT: frozenset((CommitPhase.DELIVERED, CommitPhase.ACCEPTED)),
    CommitPhase.ACCEPTED: frozenset(),
}


@attrs.define(eq=False)
class _CommitUnderWay:
    """The one commit under way.

    Attributes:
        unprepared: tasks that it is to cover too.
        parts: the shares it has; once it is accepted, those that are still to be written.
        unit: that which it belongs to, if any.
        by: member id that it was sent under.
        slow: whether delivery takes longer than one call waits for it.
        asked: whether the answer of brokers does, that all was delivered.
    """

    phase: CommitPhase = CommitPhase.NONE
    unprepared: deque[ActiveTask] = attrs.field(factory=deque)
    parts: list[TaskCommit] = attrs.field(factory=list)
    unit: Unit | None = None
    by: str = ""
    slow: bool = False
    asked: bool = False

    def move_to(self, phase: CommitPhase) -> None:
        """Enter another phase."""
        assert phase in MOVES[self.phase], f"a commit: {self.phase} -> {phase}"
        self.phase = phase

    @property
    def empty(self) -> bool:
        """True if nothing is left to be done of it; the answer to what was sent always is."""
        return self.phase is not CommitPhase.SENT and not (self.parts or self.unprepared)


@attrs.define(eq=False)
class AtLeastOnceCommit:
    """Commits by way of the group's offsets: outputs behind the last commit may repeat.

    ``transactional_commit.TransactionalCommit`` is the other way. One commit is under way at most.

    Args:
        group: our membership.
        delivery: brings entries to the changelogs.
        clock: for measuring.
        texts: what the texts beside positions may be.
        look_ms: how often a stateful task is committed though it has nothing to say, to find what
            others wrote to its changelogs, and to note the age of its stores.
        settle: ends the batch of a task (``RecordLoop.settle``); what fails there ends the worker.
    """

    #: Whether positions are committed with what was sent.
    _transactional: ClassVar[bool] = False

    _group: GroupSession
    _delivery: ChangelogDelivery
    _clock: Clock
    texts: TextRules = attrs.field(factory=TextRules, kw_only=True)
    _look_ms: int = attrs.field(default=LOOK_MS, kw_only=True)
    settle: Callable[[ActiveTask], None] = attrs.field(default=lambda active: None, kw_only=True)
    #: Commits accepted so far, and nanoseconds that the delivery of what they cover took.
    accepted: int = attrs.field(default=0, init=False)
    flush_ns: int = attrs.field(default=0, init=False)
    _token: int = attrs.field(default=0, init=False)
    _current: _CommitUnderWay = attrs.field(factory=_CommitUnderWay, init=False)

    @property
    def under_way(self) -> bool:
        """True if a commit is not yet accepted, or not yet written to the local stores."""
        return self._current.phase is not CommitPhase.NONE

    @property
    def sent(self) -> bool:
        """True if the coordinator has not answered a commit yet."""
        return self._current.phase is CommitPhase.SENT

    @property
    def delivering(self) -> bool:
        """True while slow deliveries are waited for, unless a join holds that up: queue no more."""
        slow = self._current.phase is CommitPhase.PREPARED and self._current.slow
        return slow and not self._group.gated

    @property
    def sealed(self) -> bool:
        """True while no record may be processed; never here: it belongs to the next commit."""
        return False

    # What the worker wants.

    def begin(
        self, tasks: Iterable[ActiveTask], unit: Unit | None = None, *, at_once: bool = False
    ) -> None:
        """Prepare and send a commit of every task that has something to say, claims included.

        With one under way, go on with that, and send it again if it was turned away: call this
        until it is sent, or with ``at_once`` just once. ``unit`` is one that waits for it: a join
        that is due waits for that unit, so it goes out all the same, and at once.

        Raises:
            TaskMigratedError: our last heartbeat is too old: the group may not know us any more.
            DeliveryError: something was not delivered; nothing was committed.
            BrokerError: the broker does not answer just now; call again.
            StateError: a task's stores fail, which the error names; ``forget`` it and call again.
        """
        most_ns = None if at_once or unit is not None else STEP_NS
        current = self._current
        if current.phase is CommitPhase.ACCEPTED:
            self._write(most_ns)
            return
        if unit is None and current.unit is None and self._group.gated:
            return
        if not self.under_way:
            self._start(list(tasks))
        if current.unit is None and self.under_way:
            current.unit = unit
        if current.phase is CommitPhase.PREPARING:
            self._prepare(most_ns)
        sealed = most_ns is None or self._transactional
        soon_ms = 0 if current.asked else SOON_MS
        self._go_on(DELIVER_MS if sealed else soon_ms)

    def begin_claims(self, unit: Unit, tasks: Sequence[ActiveTask]) -> bool:
        """Claim those stopped tasks of a unit that were not claimed yet; False: there is none.

        What they did can only be committed after that. Raises as ``begin``.
        """
        assert not self.under_way, "two commits under way"
        claims = [TaskCommit.again(active, 0) for active in tasks if not active.claimed]
        if claims:
            self._current = _CommitUnderWay(parts=claims, unit=unit)
            self._current.move_to(CommitPhase.DELIVERED)
            self._go_on()
        return bool(claims)

    def begin_last(self, unit: Unit, tasks: Sequence[ActiveTask]) -> None:
        """Commit the stopped tasks of a unit for the last time; none may be under way.

        Every one of them is committed, also with nothing new to say: the unit's ``marks`` tell whom
        it is released to. Raises as ``begin``.
        """
        assert not self.under_way, "two commits under way"
        unit.move_to(UnitStage.COMMITTING)
        self._check_alive()
        self._current = current = _CommitUnderWay(unit=unit)
        current.move_to(CommitPhase.PREPARED)
        for active in tasks:  # if a record fails, what was taken before is committed all the same
            part = self._share(active)
            part.release_to = unit.marks.get(active.task)
            current.parts.append(part)
        self._drop_if_empty()
        self._go_on()

    def done(
        self,
        token: int,
        outcome: CommitOutcome,
        code: int,
        gone: frozenset[TopicPartition] = frozenset(),
    ) -> Settled | None:
        """Take the coordinator's answer; None if no commit waits for it any more.

        A commit that was turned away, or whose outcome is unknown, stays under way and is sent
        again by ``begin``, without its marks: the order they answered is not held any more.

        Raises:
            BrokerError: the coordinator will never accept it.
        """
        current = self._current
        if token != self._token or not self.sent:
            return None
        settled = Settled(outcome, tuple(current.parts), current.unit, gone)
        current.unit = None
        match outcome:
            case CommitOutcome.ACCEPTED:
                self._accepted(settled.accepted)
            case CommitOutcome.LOST:
                self.abort()
            case _:
                current.move_to(CommitPhase.DELIVERED)
                for part in current.parts:
                    part.release_to = None
                self._drop_if_empty()
        if outcome is CommitOutcome.REFUSED:
            raise refusal(code, settled.parts)
        log.debug("commit %d: %s", token, outcome)
        return settled

    def forget(self, active: ActiveTask) -> None:
        """Leave a task that is about to be closed out of the commit under way.

        What was accepted of it is written: its copy on disk is then as of its last commit.
        """
        current = self._current
        own = [part for part in current.parts if part.active is active]
        current.parts = [part for part in current.parts if part.active is not active]
        current.unprepared = deque(task for task in current.unprepared if task is not active)
        for part in own if current.phase is CommitPhase.ACCEPTED else ():
            try:
                part.write()
            except StateError as error:
                log.warning("the copy of %s stays as of the commit before: %s", active.task, error)
        self._drop_if_empty()

    def abort(self) -> None:
        """Drop the commit under way; what was accepted of it is still written."""
        if self._current.phase is not CommitPhase.ACCEPTED:
            self._current = _CommitUnderWay()

    def forget_queued(self) -> None:
        """Drop all queued records, because the tasks that wrote them are lost."""
        self._delivery.forget_queued()

    def finish(self) -> None:
        """Write all that was accepted to the local stores; ``StateError``: one refuses."""
        if self._current.phase is CommitPhase.ACCEPTED:
            self._write(None)

    # The phases.

    def _start(self, tasks: Sequence[ActiveTask]) -> None:
        """Say what a commit covers: claims, and tasks of which something is to be sent."""
        running = [t for t in tasks if t.stage in (TaskStage.RUNNING, TaskStage.STOPPED)]
        changed = [t for t in running if t.claimed and (t.changed or self._look_due(t))]
        if changed:
            self._check_alive()
        current = self._current
        current.parts = [TaskCommit.again(t, 0) for t in running if not t.claimed]
        current.unprepared = deque(changed)
        if not current.empty:
            current.move_to(CommitPhase.PREPARING if changed else CommitPhase.DELIVERED)

    def _prepare(self, most_ns: int | None) -> None:
        """Send what the next tasks have to say; what is dirty then belongs to the next commit.

        A running task in the middle of a batch has its share in a later commit.
        """
        current, began = self._current, self._clock.now_ns()
        while current.unprepared:
            active = current.unprepared[0]
            if active.stage is TaskStage.STOPPED or active.can_commit():
                current.parts.append(self._share(active))
            current.unprepared.popleft()
            if most_ns is not None and self._clock.now_ns() - began >= most_ns:
                break
        if not current.unprepared:
            current.move_to(CommitPhase.PREPARED)
        self._drop_if_empty()

    def _go_on(self, wait_ms: int = DELIVER_MS) -> None:
        if self._current.phase is CommitPhase.PREPARED:
            self._deliver(wait_ms)
        if self._current.phase is CommitPhase.DELIVERED:
            self._send()

    def _deliver(self, wait_ms: int) -> None:
        """Wait until all of it is delivered, for a while."""
        started = self._clock.now_ns()
        parts = [part for part in self._current.parts if part.drained is not None]
        stage = self._delivery.deliver(parts, wait_ms)
        self._current.slow = stage is DeliveryStage.QUEUED
        self._current.asked = stage is DeliveryStage.ASKED
        if stage is DeliveryStage.DONE:
            self._current.move_to(CommitPhase.DELIVERED)
        taken_ns = self._clock.now_ns() - started
        self.flush_ns += taken_ns
        log.debug("delivered in %d ms", taken_ns // 1_000_000)

    def _send(self) -> None:
        current = self._current
        member_id, generation = self._group.view.member_id, self._group.view.generation
        current.by = member_id
        offsets: dict[TopicPartition, tuple[int, str]] = {}
        for part in current.parts:
            made = {"transaction": self._transactional}
            texts = part.metadata(member_id, generation, self.texts, **made)
            offsets |= {tp: (offset, texts[tp]) for tp, offset in part.offsets.items()}
        self._token += 1
        current.move_to(CommitPhase.SENT)
        self._group.commit(self._token, offsets, self._hold_for(offsets))

    def _hold_for(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> int | None:
        """The token of the hold that these positions, which are about to be sent, belong to."""
        unit = self._current.unit
        return None if unit is None else unit.token

    def _accepted(self, parts: Sequence[TaskCommit]) -> None:
        current = self._current
        for part in parts:
            part.accepted(current.by)
            if part.look or not part.number:
                part.active.looked_ms = self._clock.now_ms()
        current.parts = [part for part in parts if part.drained is not None]
        current.move_to(CommitPhase.ACCEPTED)
        self.accepted += 1
        self._drop_if_empty()

    def _write(self, most_ns: int | None) -> None:
        """Write what was accepted of the next tasks to their stores."""
        current, began = self._current, self._clock.now_ns()
        while current.parts:
            current.parts[0].write()
            current.parts.pop(0)
            if most_ns is not None and self._clock.now_ns() - began >= most_ns:
                break
        self._drop_if_empty()

    def _drop_if_empty(self) -> None:
        if self._current.empty:
            self._current = _CommitUnderWay()

    # Shares of tasks.

    def _share(self, active: ActiveTask) -> TaskCommit:
        """Take a task's share; its dirty entries go to its changelogs."""
        self.settle(active)
        if active.processor.calling:
            log.info("task %s: its next owner repeats what its calls are made for", active.task)
            return TaskCommit.again(active, active.number)
        look = self._look_due(active)
        return self._delivery.flush(active, look=look, compact=self.texts.compact)

    def _look_due(self, active: ActiveTask) -> bool:
        due = self._clock.now_ms() - active.looked_ms >= self._look_ms
        return due and active.subtopology.stateful

    def _check_alive(self) -> None:
        if not self._group.alive():
            raise TaskMigratedError("no heartbeat was answered for a session timeout")
