"""The claims of a member on tasks, and the copies it follows; pure."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping

import attrs

from streamlet.assignor.values import Copy, Role
from streamlet.coordinator.commit_metadata import Positions
from streamlet.rebalance.values import Assignment
from streamlet.tasks.handover_values import HandoverRules, SetCopies
from streamlet.types import TaskId

#: The longer a mark has not come, the less often it is looked for: 1/64 of the time waited.
_PATIENCE = 64
_POLL_MAX_MS = 250
#: How long after a commit of the owner the next may be its last: no pause between those that it
#: makes before it stops is longer (``tasks/commit_loop``). Only for so long the learner hurries:
#: all eight members of a scale-down, in a hurry while any of them waited for its turn, kept each
#: other from the processors. So the owner's last commit is never its first since the order, unless
#: that brought nothing (``LITTLE_ENTRIES``).
_BRISK_MS = 300


class ClaimStage(enum.StrEnum):
    """The stages in the life of a claim.

    ::

        WAITING ── mark seen ──▶ OPENING ──▶ RUNNING ──▶ STOPPED ──▶ RELEASED
           │                        ▲           ▲           │
           └── given outright ──────┘           ├───────────┘ order withdrawn
                                    HELD ◀──────┘ the group changes its type; ──▶ OPENING
    """

    WAITING = "waiting"  # pending: learns on and polls for the mark
    OPENING = "opening"  # ours; positions are read and state is restored
    RUNNING = "running"
    STOPPED = "stopped"  # processes nothing; its last commit is under way
    RELEASED = "released"  # given up, until an assignment says otherwise
    HELD = "held"  # stopped and committed, kept open until we are in a group of the other type


#: Stages in which the task is ours to run.
OURS = frozenset({ClaimStage.OPENING, ClaimStage.RUNNING, ClaimStage.STOPPED})


@attrs.define
class Claim:
    """A task that is bound to us. ``generation`` is that of the assignment it comes from."""

    stage: ClaimStage
    generation: int
    #: The first commit of the active period was accepted (M4).
    claimed: bool = False
    #: Given up because a join was due, not by an order.
    surrendered: bool = False
    #: The member id it was released to, if to one: from then on that may process the task.
    next_owner: str = ""
    #: While WAITING: since when, when to look for the marker next, whether a look is under way.
    since_ms: int = 0
    poll_at_ms: int = 0
    polling: bool = False
    #: What was found last, and until when the next commit may bring the mark.
    seen: Positions | None = None
    brisk_until_ms: int = 0

    def looked(self, found: Positions | None, now_ms: int, rules: HandoverRules) -> None:
        """Note what a look for the marker found, and when to look again."""
        if found is not None and found != self.seen:
            if self.seen is not None:
                self.brisk_until_ms = now_ms + _BRISK_MS
            self.seen = found
        pause_ms = rules.poll_ms
        if now_ms >= self.brisk_until_ms:
            pause_ms = max(rules.idle_poll_ms, (now_ms - self.since_ms) // _PATIENCE)
        self.polling, self.poll_at_ms = False, now_ms + min(pause_ms, _POLL_MAX_MS)

    def is_near(self, now_ms: int) -> bool:
        """True if no member runs the task until we do, or soon."""
        waiting = self.stage is ClaimStage.WAITING and now_ms < self.brisk_until_ms
        return waiting or self.stage is ClaimStage.OPENING


@attrs.define
class Unit:
    """Tasks that are stopped and committed as one, under the hold of the same token.

    ``for_flip``: what was committed is not given up but held.
    """

    token: int
    tasks: tuple[TaskId, ...]
    for_join: bool = False
    for_flip: bool = False


# -- copies ----------------------------------------------------------------------------------------


@attrs.define
class CopyProgress:
    """A copy that reads its changelog. ``reported``: the group knows that it is ready.

    ``awaited``: a standby whose readiness the group waits for, as for a learner's.
    """

    role: Role  # LEARNER or STANDBY
    lag: int | None = None
    ready: bool = False

    reported: bool = False
    awaited: bool = False

    @property
    def is_waited_for(self) -> bool:
        """True if the group plans again when the copy is ready."""
        return self.role is Role.LEARNER or self.awaited

    @property
    def is_news(self) -> bool:
        """True if the group waits for the copy and does not know that it is ready."""
        return self.is_waited_for and self.ready and not self.reported


class FollowedCopies:
    """The copies an assignment names, how far each is, and when to report those that are ready.

    Args:
        rules: the member's settings.
    """

    def __init__(self, rules: HandoverRules) -> None:
        self._rules = rules
        self.copies: dict[TaskId, CopyProgress] = {}
        #: Those that are read: what was decided last.
        self.read = SetCopies(frozenset(), frozenset())
        self._report_at_ms: int | None = None

    def follow(self, orders: Assignment, now_ms: int) -> None:
        """Follow what is to be copied from now on; what is known of a copy stays known."""
        wanted = dict.fromkeys(orders.standby, Role.STANDBY)
        wanted |= dict.fromkeys(orders.learner | orders.pending.keys(), Role.LEARNER)
        before = self.copies
        self.copies = {
            task: attrs.evolve(
                before.get(task, CopyProgress(role)), role=role, awaited=task in orders.awaited
            )
            for task, role in sorted(wanted.items())
        }
        if any(copy.awaited and copy.is_news for copy in self.copies.values()):
            self._report_soon(now_ms)  # it was ready before the group began to wait for it

    def drop(self, task: TaskId) -> None:
        """Forget a copy, if it was one."""
        self.copies.pop(task, None)

    def read_beside(self, ours: Collection[TaskId]) -> SetCopies | None:
        """The copies to read while those tasks are ours; None while they stay as they were."""
        read = {task: copy.role for task, copy in self.copies.items() if task not in ours}
        wanted = SetCopies(*(_of_role(read, role) for role in (Role.LEARNER, Role.STANDBY)))
        if wanted == self.read:
            return None
        self.read = wanted
        return wanted

    # -- reporting of copies ---------------------------------------------------------------------

    @property
    def report_due(self) -> bool:
        """True if the readiness of a copy is about to be reported."""
        return self._report_at_ms is not None

    @property
    def report_at_ms(self) -> int | None:
        """The time to report: later while those to report have more than a little left to read."""
        if self._report_at_ms is None:
            return None
        return self._report_at_ms + (0 if self._settled() else self._rules.settle_ms)

    def progress(self, task: TaskId, lag: int, now_ms: int) -> bool:
        """Note the records a copy has still to read; True if there is news to report."""
        copy = self.copies.get(task)
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


def copies_of(
    claims: Mapping[TaskId, Claim],
    copies: Mapping[TaskId, CopyProgress],
    dormant: Mapping[TaskId, int | None],
) -> dict[TaskId, Copy]:
    """Describe the tasks of a member for its subscription.

    Args:
        claims: tasks that are its own, or will be, or were until it gave them up.
        copies: what it reads.
        dormant: state on disk that no thread reads, with its lag.
    """
    said = {task: Copy(Role.DORMANT, lag=lag) for task, lag in dormant.items()}
    for task, copy in copies.items():
        said[task] = Copy(copy.role, ready=copy.ready, lag=copy.lag)
    for task, claim in claims.items():
        copy = copies.get(task, CopyProgress(Role.LEARNER))
        match claim.stage:
            case ClaimStage.WAITING:
                role = Role.PENDING
                said[task] = Copy(role, claim.generation, ready=copy.ready, lag=copy.lag)
            case ClaimStage.RELEASED if (
                claim.next_owner
            ):  # which may have taken it over and gone on since
                said[task] = Copy(Role.RELEASED, ready=copy.ready, lag=copy.lag)
            case ClaimStage.RELEASED:
                said[task] = Copy(Role.RELEASED, ready=True, lag=0)
            case _:
                said[task] = Copy(Role.ACTIVE, claim.generation)
    return dict(sorted(said.items()))


def _of_role(read: Mapping[TaskId, Role], role: Role) -> frozenset[TaskId]:
    return frozenset(task for task, its in read.items() if its is role)
