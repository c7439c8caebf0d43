"""Commits by Kafka's transactions: outputs, changelogs and input positions count together.

One transaction has all that a worker's tasks have sent since the last commit, so a commit is one of
all tasks that have anything in it, and no record is processed from when its shares are taken until
it is answered: what came of it would be committed without its position. A new active period needs
no claim, since a member that lost its tasks cannot commit what it wrote.

What does not end by a commit that is known to be accepted counts for nothing. Then all tasks go
back to their last commits, and the producer's next epoch ends what was open (``failed``). So it is
too when a task is closed that has sent something in the open transaction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

import attrs

from streamlet.coordinator import events as ev
from streamlet.coordinator.events import CommitOutcome
from streamlet.errors import UndeliveredError
from streamlet.kafka.ports import TransactionSink
from streamlet.logs import get_logger
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.commit import AtLeastOnceCommit, CommitPhase
from streamlet.tasks.commit_share import Settled, TaskCommit
from streamlet.tasks.task_record import TaskStage, Unit
from streamlet.types import TopicPartition

log = get_logger(__name__)


@attrs.define(eq=False)
class TransactionalCommit(AtLeastOnceCommit):
    """Commits by transactions: each record counts once, in state and in outputs.

    Args:
        sink: the producer of all that tasks send.
        tasks: tells the tasks that a commit may cover.
        settled: called with True once what was sent is committed, with False if it never will be.

    Attributes:
        failed: why what was sent since the last commit can never count; empty: it can.
    """

    _transactional: ClassVar[bool] = True

    _sink: TransactionSink = attrs.field(kw_only=True)
    _tasks: Callable[[], Sequence[ActiveTask]] = attrs.field(kw_only=True)
    _settled: Callable[[bool], None] = attrs.field(default=lambda counts: None, kw_only=True)
    failed: str = attrs.field(default="", init=False)
    #: Whether joins wait for the commit, which belongs to no unit.
    _blocks: bool = attrs.field(default=False, init=False)

    @property
    def under_way(self) -> bool:
        """True if a commit is not over, or the tasks have to go back to the last one."""
        return bool(self.failed) or self._current.phase is not CommitPhase.NONE

    @property
    def sealed(self) -> bool:
        """True while no record may be processed."""
        phase = self._current.phase
        return bool(self.failed) or phase not in (CommitPhase.NONE, CommitPhase.ACCEPTED)

    def begin(
        self, tasks: Iterable[ActiveTask], unit: Unit | None = None, *, at_once: bool = False
    ) -> None:
        """Commit all tasks that have anything to say, or go on with that.

        Raises:
            UndeliveredError: what was sent cannot count any more.
        """
        self._check()
        super().begin(self._tasks(), unit, at_once=at_once)

    def begin_claims(self, unit: Unit, tasks: Sequence[ActiveTask]) -> bool:
        """False: the first transaction of a period claims it."""
        return False

    def begin_last(self, unit: Unit, tasks: Sequence[ActiveTask]) -> None:
        """Commit stopped tasks, and with them what the others have sent."""
        self._check()
        others = [task for task in self._tasks() if task not in tasks and self._speaks(task)]
        super().begin_last(unit, [*tasks, *others])

    def done(
        self,
        token: int,
        outcome: CommitOutcome,
        code: int,
        gone: frozenset[TopicPartition] = frozenset(),
    ) -> Settled | None:
        """Take the answer; only what never left is sent again."""
        if token == self._token and self.sent:
            self._unblock()
        settled = super().done(token, outcome, code, gone)
        if settled is not None and outcome is CommitOutcome.ACCEPTED:
            self._settled(True)
        never_left = outcome is CommitOutcome.GATED and not code
        if settled is not None and outcome is not CommitOutcome.ACCEPTED and not never_left:
            self._give_up(f"a transaction was not committed, or it is not known ({outcome})")
        return settled

    def forget(self, active: ActiveTask) -> None:
        """Leave a task out that is about to be closed; what it has sent can never count."""
        phase, parts = self._current.phase, self._current.parts
        over = phase in (CommitPhase.SENT, CommitPhase.ACCEPTED)
        taken = not over and any(part.active is active for part in parts)
        wrote = active.wrote and phase is not CommitPhase.SENT  # else it is in what ends
        if taken or wrote:
            self._give_up(f"task {active.task} is closed amid a transaction")
        super().forget(active)

    def abort(self) -> None:
        """Drop the commit under way, which no join waits for any more."""
        self._unblock()
        super().abort()

    def forget_queued(self) -> None:
        """Begin another epoch: what was sent since the last commit is aborted."""
        self.abort()
        super().forget_queued()
        self._settled(False)
        self.failed = ""

    def _give_up(self, why: str) -> None:
        """Have all tasks go back to their last commits, if there is anything of later."""
        if self._sink.begun:
            self.failed = why
            self.abort()

    def _check(self) -> None:
        if self.failed:
            raise UndeliveredError(self.failed)

    def _speaks(self, active: ActiveTask) -> bool:
        """True if a task has something in the open transaction, or to commit."""
        if active.stage not in (TaskStage.RUNNING, TaskStage.STOPPED):
            return False
        return not active.claimed or active.wrote or active.changed or self._look_due(active)

    def _start(self, tasks: Sequence[ActiveTask]) -> None:
        """Take all shares, once no task is amid what takes time: calls, or a pause."""
        wanted = [task for task in tasks if self._speaks(task)]
        if not wanted and self._sink.begun:  # what is open would be until its time-out
            wanted = [task for task in tasks if task.stage is TaskStage.RUNNING][:1]
        ready = [self._is_ready(task) for task in wanted]  # each lets its calls come to an end
        if not wanted or not all(ready):
            return
        self._check_alive()
        self._group.want(ev.CommitSoon())
        self._blocks = True
        self._current.unprepared = deque(wanted)
        self._current.move_to(CommitPhase.PREPARING)

    @staticmethod
    def _is_ready(active: ActiveTask) -> bool:
        calls = active.processor.calls
        if active.stage is TaskStage.STOPPED:
            return True
        return not active.retrying and (calls is None or calls.can_commit())

    def _prepare(self, most_ns: int | None) -> None:
        """Take all shares in one go: nothing is processed before the answer."""
        current = self._current
        while current.unprepared:
            current.parts.append(self._share(current.unprepared[0]))
            current.unprepared.popleft()
        current.move_to(CommitPhase.PREPARED)

    def _share(self, active: ActiveTask) -> TaskCommit:
        held = active.held
        if held is not None and not active.number and (held.silent or not active.claimed):
            if not active.wrote:  # its base is to be the commit before the period
                return TaskCommit.again(active, 0)
            if held.silent:  # since members agreed meanwhile that records wait
                self._give_up(f"task {active.task} wrote before its claim")
                self._check()
        part = super()._share(active)
        if active.processor.calling and active.wrote:
            self._give_up(f"task {active.task} stops before its calls have ended")
            self._check()
        return part

    def _hold_for(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> int | None:
        self._sink.seal(offsets)
        if self._current.unit is None and self._blocks:
            return ev.COMMIT_TOKEN
        return super()._hold_for(offsets)

    def _unblock(self) -> None:
        if self._blocks:
            self._blocks = False
            self._group.want(ev.UnblockJoin(ev.COMMIT_TOKEN))
