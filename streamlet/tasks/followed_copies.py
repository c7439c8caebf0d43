"""The copies that a member is to follow, how far each is, and when the group is to hear of it."""

from __future__ import annotations

from collections.abc import Collection

import attrs

from streamlet.assignor.values import Role
from streamlet.rebalance.values import Assignment
from streamlet.tasks.task_events import HandoverRules, SetCopies
from streamlet.tasks.task_record import CopyProgress, TaskRecord, TaskStage
from streamlet.types import TaskId


class FollowedCopies:
    """The copies an assignment names, how far each is, and when to report those that are ready.

    Args:
        rules: the member's settings.
        records: the member's tasks, the copies among them.
    """

    def __init__(self, rules: HandoverRules, records: dict[TaskId, TaskRecord]) -> None:
        self._rules = rules
        self._records = records
        #: Those that are read: what was decided last.
        self.read = SetCopies(frozenset(), frozenset())
        self._report_at_ms: int | None = None

    def follow(self, orders: Assignment, now_ms: int) -> None:
        """Follow what is to be copied from now on; what is known of a copy stays known."""
        wanted = dict.fromkeys(orders.standby, Role.STANDBY)
        wanted |= dict.fromkeys(orders.learner | orders.pending.keys(), Role.LEARNER)
        for task in self.copies.keys() - wanted.keys():
            self.drop(task)
        for task, role in wanted.items():
            record = self._records.setdefault(task, TaskRecord())
            known = record.copy or CopyProgress(role)
            record.copy = attrs.evolve(known, role=role, awaited=task in orders.awaited)
        if any(copy.awaited and copy.is_news for copy in self.copies.values()):
            self._report_soon(now_ms)  # it was ready before the group began to wait for it

    def drop(self, task: TaskId) -> None:
        """Forget a copy."""
        record = self._records[task]
        record.copy = None
        if record.stage is TaskStage.COPIED:
            record.move_to(TaskStage.CLOSED)
            del self._records[task]

    def read_beside(self, ours: Collection[TaskId]) -> SetCopies | None:
        """The copies to read while those tasks are ours; None while they stay as they were."""
        read = [(task, copy.role) for task, copy in self.copies.items() if task not in ours]
        learner = frozenset(task for task, role in read if role is Role.LEARNER)
        wanted = SetCopies(learner, frozenset(task for task, _ in read) - learner)
        if wanted == self.read:
            return None
        self.read = wanted
        return wanted

    @property
    def copies(self) -> dict[TaskId, CopyProgress]:
        """Copies that read on; of a task of ours too, which is not among those that are read."""
        return {task: one.copy for task, one in self._records.items() if one.copy is not None}

    # -- reporting of copies ---------------------------------------------------------------------

    @property
    def report_at_ms(self) -> int | None:
        """The time to report: later while those to report have more than a little left to read."""
        if self._report_at_ms is None:
            return None
        return self._report_at_ms + (0 if self._settled() else self._rules.settle_ms)

    def progress(self, task: TaskId, lag: int, now_ms: int) -> bool:
        """Note the records a copy has still to read; True if there is news to report."""
        record = self._records.get(task)
        copy = None if record is None else record.copy
        if copy is None:
            return False
        copy.lag, copy.ready = lag, lag <= self._rules.acceptable_lag
        if not copy.ready:
            copy.reported = False
        return copy.is_news and self._report_soon(now_ms)

    def _report_soon(self, now_ms: int) -> bool:
        """Report news after a short while; True if it is to be reported yet."""
        enough = self._enough_ready()
        if enough and self._report_at_ms is None:
            self._report_at_ms = now_ms + self._rules.linger_ms
        return enough

    def put_off(self, now_ms: int) -> None:
        """Delay the next report a while."""
        if self._report_at_ms is not None:
            self._report_at_ms = max(self._report_at_ms, now_ms + self._rules.linger_ms)

    def report(self) -> str | None:
        """Take the reason to report now; None if no copy is ready any more."""
        self._report_at_ms = None
        news = {copy.role for copy in self.copies.values() if copy.is_news}
        if Role.LEARNER in news:
            return "a learner is ready"
        return "a standby that another makes way for is ready" if news else None

    def reported(self) -> None:
        """Note that the group knows how far each copy is."""
        for copy in self.copies.values():
            copy.reported = copy.ready
        self._report_at_ms = None

    def _enough_ready(self) -> bool:
        waited_for = (copy for copy in self.copies.values() if copy.is_waited_for)
        return self._rules.partial or all(copy.ready for copy in waited_for)

    def _settled(self) -> bool:
        """True if the copies to be reported have next to nothing left to read."""
        lags = (copy.lag for copy in self.copies.values() if copy.is_news)
        return all(lag is None or lag <= self._rules.settled_lag for lag in lags)
