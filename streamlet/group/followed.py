"""Copies that a member reads, and what the group is told of them and of the tasks that are ours.

Part of ``handover``, and pure like it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from streamlet.assignor.values import Copy, Role
from streamlet.group.handover_values import Claim, HandoverRules, SetCopies, Stage
from streamlet.group.values import Assignment
from streamlet.types import TaskId


@attrs.define
class Followed:
    """A copy that reads its changelog. ``said`` is what the group was told of its readiness.

    ``awaited``: a standby whose readiness the group waits for, as for a learner's.
    """

    role: Role  # LEARNER or STANDBY
    lag: int | None = None
    ready: bool = False
    said: bool = False
    awaited: bool = False

    @property
    def is_waited_for(self) -> bool:
        """Whether the group plans again when the copy is ready."""
        return self.role is Role.LEARNER or self.awaited

    @property
    def is_news(self) -> bool:
        """Whether the group waits for the copy and does not know that it is ready."""
        return self.is_waited_for and self.ready and not self.said


class FollowedCopies:
    """The copies an assignment names, how far each is, and when to tell of those that are ready.

    Args:
        rules: the member's settings.
    """

    def __init__(self, rules: HandoverRules) -> None:
        self._rules = rules
        self.copies: dict[TaskId, Followed] = {}
        #: Those that are read: what was decided last.
        self.read = SetCopies(frozenset(), frozenset())
        self._speak_at_ms: int | None = None

    def follow(self, orders: Assignment, now_ms: int) -> None:
        """Follow what is to be copied from now on; what is known of a copy stays known."""
        wanted = dict.fromkeys(orders.standby, Role.STANDBY)
        wanted |= dict.fromkeys(orders.learner | orders.pending.keys(), Role.LEARNER)
        before = self.copies
        self.copies = {
            task: attrs.evolve(
                before.get(task, Followed(role)), role=role, awaited=task in orders.awaited
            )
            for task, role in sorted(wanted.items())
        }
        if any(copy.awaited and copy.is_news for copy in self.copies.values()):
            self._tell_soon(now_ms)  # it was ready before the group began to wait for it

    def drop(self, task: TaskId) -> None:
        """It is no copy any more, if it was one."""
        self.copies.pop(task, None)

    def read_beside(self, ours: Collection[TaskId]) -> SetCopies | None:
        """Which copies to read while those tasks are ours; None while that stays as it was."""
        read = {task: copy.role for task, copy in self.copies.items() if task not in ours}
        wanted = SetCopies(*(_of_role(read, role) for role in (Role.LEARNER, Role.STANDBY)))
        if wanted == self.read:
            return None
        self.read = wanted
        return wanted

    # -- telling of copies ---------------------------------------------------------------------

    @property
    def to_be_told(self) -> bool:
        """Whether the group is to hear of a copy in a moment."""
        return self._speak_at_ms is not None

    @property
    def speak_at_ms(self) -> int | None:
        """When to tell: later while those to be told of have more than a little left to read."""
        if self._speak_at_ms is None:
            return None
        return self._speak_at_ms + (0 if self._settled() else self._rules.settle_ms)

    def progress(self, task: TaskId, lag: int, now_ms: int) -> bool:
        """How many changelog records a copy has still to read; whether there is news to tell."""
        copy = self.copies.get(task)
        if copy is None:
            return False
        copy.lag, copy.ready = lag, lag <= self._rules.acceptable_lag
        if not copy.ready:
            copy.said = False
        return copy.is_news and self._tell_soon(now_ms)

    def _tell_soon(self, now_ms: int) -> bool:
        """Tell of what is news after a short while; whether it is to be told yet."""
        enough = self._enough_ready()
        if enough and self._speak_at_ms is None:
            self._speak_at_ms = now_ms + self._rules.linger_ms
        return enough

    def put_off(self, now_ms: int) -> None:
        """Not now: the next moment to tell of anything is a while away."""
        if self._speak_at_ms is not None:
            self._speak_at_ms = max(self._speak_at_ms, now_ms + self._rules.linger_ms)

    def speak(self) -> str | None:
        """The time to tell has come: what of, unless none is ready any more."""
        self._speak_at_ms = None
        news = {copy.role for copy in self.copies.values() if copy.is_news}
        if Role.LEARNER in news:
            return "a learner is ready"
        return "a standby that another makes way for is ready" if news else None

    def told(self) -> None:
        """The group knows how far each is."""
        for copy in self.copies.values():
            copy.said = copy.ready
        self._speak_at_ms = None

    def _enough_ready(self) -> bool:
        waited_for = (copy for copy in self.copies.values() if copy.is_waited_for)
        return self._rules.partial or all(copy.ready for copy in waited_for)

    def _settled(self) -> bool:
        """Whether the copies to be told of have next to nothing left to read."""
        lags = (copy.lag for copy in self.copies.values() if copy.is_news)
        return all(lag is None or lag <= self._rules.settled_lag for lag in lags)


def said_of(
    claims: Mapping[TaskId, Claim],
    copies: Mapping[TaskId, Followed],
    dormant: Mapping[TaskId, int | None],
) -> dict[TaskId, Copy]:
    """What a member says of its tasks.

    Args:
        claims: tasks that are its own, or will be, or were until it gave them up.
        copies: what it reads.
        dormant: state on disk that nobody reads, with its lag.
    """
    said = {task: Copy(Role.DORMANT, lag=lag) for task, lag in dormant.items()}
    for task, copy in copies.items():
        said[task] = Copy(copy.role, ready=copy.ready, lag=copy.lag)
    for task, claim in claims.items():
        copy = copies.get(task, Followed(Role.LEARNER))
        match claim.stage:
            case Stage.WAITING:
                role = Role.PENDING
                said[task] = Copy(role, claim.generation, ready=copy.ready, lag=copy.lag)
            case Stage.RELEASED if claim.heir:  # which may have taken it over and gone on since
                said[task] = Copy(Role.RELEASED, ready=copy.ready, lag=copy.lag)
            case Stage.RELEASED:
                said[task] = Copy(Role.RELEASED, ready=True, lag=0)
            case _:
                said[task] = Copy(Role.ACTIVE, claim.generation)
    return dict(sorted(said.items()))


def _of_role(read: Mapping[TaskId, Role], role: Role) -> frozenset[TaskId]:
    return frozenset(task for task, its in read.items() if its is role)
