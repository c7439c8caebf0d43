"""The life of a task on one member: its stages, the moves between them, and what is known of it.

::

    COPIED ──▶ WAITING ── mark seen ──▶ OPENING ──▶ RUNNING ◀──▶ STOPPED ──▶ RELEASED
       │                                 ▲   ▲                      │
       └───────── given outright ────────┘   └──────── HELD ◀───────┘

OPENING leads to RELEASED as well, since a task that never ran has nothing to commit; and each stage
to CLOSED: a copy of the task that is read on begins another life then, as COPIED. What was HELD
stays open while OPENING, and ``reclaims``: its last commit is looked up before it may go on (F4).
A ``TaskRecord`` makes these moves as they are decided, by the task manager under its lock; the open
task (``tasks.active``) makes those from OPENING to STOPPED as they are carried out, on the stream
thread. These are two facts, so there are two stages, but one table: the control thread may lose a
task (M1) while the stream thread is in a user function. ``CARRIED_OUT`` tells which belong together
once the stream thread has come round.

Within one stage, only the thread that does the work has a use for more; a move of its own needs no
lock. On the stream thread, from the order to run a task until it may (``tasks.activation``)::

    OPENING:  CREATED ──▶ ASKING ──▶ UNLOCKING ──▶ RESTORING ──▶ READY
               ▲ │           │        ▲   │           │            ▲
               │ │           │        │   ▼           ▼            │
        SETTLING │           │      DECIDING ◀────────┘            │
                 └───────────┴──▶ PROMOTING ───────────────────────┘

Each of these but READY may be cancelled. A task that is closed and opened again is SETTLING until
no commit is on its way. ASKING, DECIDING, UNLOCKING and RESTORING lead back to CREATED, where no
broker answers or all is to be read once more; RESTORING back to UNLOCKING, where stores fail; and
PROMOTING to ASKING or UNLOCKING, where the copy cannot be had. A task's open stores are one object
(``tasks.open_task``); on the state updater's thread::

    COPIED, WAITING:  OPEN ──▶ FOLLOWED
                       │          └──▶ PROMOTING ─┐
    OPENING:           └──▶ RESTORING ────────────┴──▶ the active task has them

A copy whose stores fail is closed, and opened again later. Tasks that are stopped together are a
``Unit``, carried out on the stream thread. One that a join waits for is STOPPED at once::

    ORDERED ──▶ ASKED ──▶ STOPPED ──▶ COMMITTING
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

import attrs

from streamlet.assignor.values import Copy, Role
from streamlet.coordinator.commit_metadata import Positions
from streamlet.tasks.task_events import HandoverRules
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
#: How soon behind a commit of the owner its last one, which bears the mark, usually is seen, ms.
_MARK_MS = 80


class TaskStage(enum.StrEnum):
    """The stages in the life of a task."""

    COPIED = "copied"  # not ours; read as a learner or a standby
    WAITING = "waiting"  # pending: learns on and polls for the mark
    OPENING = "opening"  # ours; positions are read and state is restored
    RUNNING = "running"  # it processes; until its claim is accepted it writes to no changelog
    STOPPED = "stopped"  # it processes nothing, and its last commit is under way
    RELEASED = "released"  # given up, until an assignment says otherwise
    HELD = "held"  # stopped and committed, kept open until we are in a group of the other type
    CLOSED = "closed"  # gone; its folder stays as a dormant copy


class OpeningStage(enum.Enum):
    """The stages of a task that is OPENING."""

    SETTLING = "settling"  # it was closed, and a commit of it may still be on its way
    CREATED = "created"  # wanted; nothing was asked yet, or all is to be asked again
    ASKING = "asking"  # brokers are asked for its committed positions and the ends of its logs
    DECIDING = "deciding"  # these and its state disagree, or more of the logs is to be read
    UNLOCKING = "unlocking"  # its folder is to be opened: once it is free, or after a pause
    RESTORING = "restoring"  # the state updater brings its open stores to exactly the commit
    PROMOTING = "promoting"  # the same of its copy
    READY = "ready"  # its stores are as of the committed positions
    CANCELLED = "cancelled"


class ReadStage(enum.Enum):
    """The stages of open stores that their changelogs are read into."""

    OPEN = "open"  # nothing is read
    FOLLOWED = "followed"  # a copy: its changelogs are read on
    PROMOTING = "promoting"  # read to the ends of its owner's last commit, then the active task's
    RESTORING = "restoring"  # the same for an active task that no copy is at hand of


class UnitStage(enum.Enum):
    """The stages of a unit of tasks that are given up, as they are carried out."""

    ORDERED = "ordered"  # its tasks go on, and commit what they can before they are stopped
    ASKED = "asked"  # whether joins wait for it
    STOPPED = "stopped"  # its tasks are, and wait for their last commit
    COMMITTING = "committing"  # that commit was begun


#: Stages in which the task is ours to run.
OURS = frozenset({TaskStage.OPENING, TaskStage.RUNNING, TaskStage.STOPPED})

_Stage = TypeVar("_Stage", TaskStage, OpeningStage, ReadStage, UnitStage)
_ON_WAY = OpeningStage.CREATED, OpeningStage.CANCELLED

#: Legal moves.
MOVES: Mapping[enum.Enum, Collection[enum.Enum]] = {
    TaskStage.COPIED: {TaskStage.WAITING, TaskStage.OPENING, TaskStage.CLOSED},
    TaskStage.WAITING: {TaskStage.OPENING, TaskStage.CLOSED},
    TaskStage.OPENING: {TaskStage.RUNNING, TaskStage.RELEASED, TaskStage.CLOSED},
    TaskStage.RUNNING: {TaskStage.STOPPED, TaskStage.CLOSED},
    TaskStage.STOPPED: {TaskStage.RUNNING, TaskStage.RELEASED, TaskStage.HELD, TaskStage.CLOSED},
    TaskStage.RELEASED: {TaskStage.CLOSED},
    TaskStage.HELD: {TaskStage.OPENING, TaskStage.CLOSED},
    TaskStage.CLOSED: (),
    OpeningStage.SETTLING: _ON_WAY,
    OpeningStage.CREATED: {
        *_ON_WAY,
        OpeningStage.ASKING,
        OpeningStage.UNLOCKING,
        OpeningStage.PROMOTING,
    },
    OpeningStage.ASKING: {*_ON_WAY, OpeningStage.UNLOCKING, OpeningStage.PROMOTING},
    OpeningStage.DECIDING: {*_ON_WAY, OpeningStage.UNLOCKING},
    OpeningStage.UNLOCKING: {*_ON_WAY, OpeningStage.RESTORING, OpeningStage.DECIDING},
    OpeningStage.RESTORING: {
        *_ON_WAY,
        OpeningStage.READY,
        OpeningStage.UNLOCKING,
        OpeningStage.DECIDING,
    },
    OpeningStage.PROMOTING: {
        OpeningStage.READY,
        OpeningStage.UNLOCKING,
        OpeningStage.ASKING,
        OpeningStage.CANCELLED,
    },
    OpeningStage.READY: (),
    OpeningStage.CANCELLED: (),
    ReadStage.OPEN: {ReadStage.FOLLOWED, ReadStage.RESTORING},
    ReadStage.FOLLOWED: {ReadStage.PROMOTING},
    ReadStage.PROMOTING: (),
    ReadStage.RESTORING: (),
    UnitStage.ORDERED: {UnitStage.ASKED, UnitStage.STOPPED},
    UnitStage.ASKED: {UnitStage.STOPPED},
    UnitStage.STOPPED: {UnitStage.COMMITTING},
    UnitStage.COMMITTING: (),
}

#: The stages that the open task of a record may have once all is carried out, None: it has none.
CARRIED_OUT: Mapping[TaskStage, Collection[TaskStage | None]] = {
    TaskStage.COPIED: {None},
    TaskStage.WAITING: {None},
    TaskStage.OPENING: {None, TaskStage.STOPPED},  # stopped: it was held (F4)
    TaskStage.RUNNING: {TaskStage.RUNNING},
    TaskStage.STOPPED: {TaskStage.STOPPED},
    TaskStage.RELEASED: {None},
    TaskStage.HELD: {TaskStage.STOPPED},
}


def moved(task: object, before: _Stage, after: _Stage) -> _Stage:
    """The stage after a move of this task; AssertionError if it is not a legal one."""
    assert after in MOVES[before], f"{task}: {before.value} -> {after.value}"
    return after


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


@attrs.define
class TaskRecord:
    """A task of a member. ``generation`` is that of the assignment that binds it to us, if any.

    ``copy`` reads on while the task is not ours, and is known of while it is.
    """

    stage: TaskStage = TaskStage.COPIED
    generation: int = -1
    copy: CopyProgress | None = None
    #: The first commit of the active period was accepted (M4).
    claimed: bool = False
    #: Given up because a join was due, not by an order.
    surrendered: bool = False
    #: The member id it was released to, if to one: from then on that may process the task.
    next_owner: str = ""
    #: While OPENING: it was held open, and its last commit is looked up before it goes on (F4).
    reclaims: bool = False
    #: While WAITING: since when. Then, and while it reclaims: when to look for the marker or the
    #: last commit next, whether a look is under way.
    since_ms: int = 0
    poll_at_ms: int = 0
    polling: bool = False
    #: What was found last, and until when the next commit may bring the mark.
    seen: Positions | None = None
    brisk_until_ms: int = 0

    def move_to(self, stage: TaskStage) -> None:
        """Enter another stage; a look for what is awaited in this one is of no use any more."""
        self.stage = moved(self, self.stage, stage)
        self.reclaims = self.polling = False

    def anew(self, stage: TaskStage, generation: int, now_ms: int) -> TaskRecord:
        """The task under another claim, in this stage; nothing of one before counts."""
        stage = moved(self, self.stage, stage)
        return TaskRecord(stage, generation, self.copy, since_ms=now_ms, poll_at_ms=now_ms)

    @property
    def looks(self) -> bool:
        """True if its committed positions are awaited: for the marker, or for whose they are."""
        return self.stage is TaskStage.WAITING or self.reclaims

    @property
    def look_at_ms(self) -> int | None:
        """The time of the next look at them; None while there is no need, or one is under way."""
        return self.poll_at_ms if self.looks and not self.polling else None

    def looked(self, found: Positions | None, now_ms: int, rules: HandoverRules) -> None:
        """Note what a look found, and when to look again."""
        if found is not None and found != self.seen:
            if self.seen is not None:
                self.brisk_until_ms = now_ms + _BRISK_MS
            self.seen = found
        pause_ms = rules.poll_ms
        if now_ms >= self.brisk_until_ms:
            # Its owner runs meanwhile what is waited for; what is reclaimed stands still.
            waited_ms = 0 if self.reclaims else now_ms - self.since_ms
            pause_ms = max(rules.idle_poll_ms, waited_ms // _PATIENCE)
        self.polling, self.poll_at_ms = False, now_ms + min(pause_ms, _POLL_MAX_MS)

    def is_near(self, now_ms: int) -> bool:
        """True if no member runs the task until we do, or soon."""
        waiting = self.stage is TaskStage.WAITING and now_ms < self.brisk_until_ms
        return waiting or self.stage is TaskStage.OPENING

    def described(self) -> Copy:
        """The task as a subscription describes it."""
        copy = self.copy or CopyProgress(Role.LEARNER)
        match self.stage:
            case TaskStage.COPIED:
                return Copy(copy.role, ready=copy.ready, lag=copy.lag)
            case TaskStage.WAITING:
                return Copy(Role.PENDING, self.generation, ready=copy.ready, lag=copy.lag)
            case TaskStage.RELEASED if self.next_owner:  # which may have gone on since
                return Copy(Role.RELEASED, ready=copy.ready, lag=copy.lag)
            case TaskStage.RELEASED:
                return Copy(Role.RELEASED, ready=True, lag=0)
            case _:
                return Copy(Role.ACTIVE, self.generation)

    def check_invariants(self) -> None:
        """Raise AssertionError where the stage and what is known contradict each other."""
        assert self.stage is not TaskStage.CLOSED, self
        assert (self.stage is TaskStage.COPIED) == (self.generation < 0), self
        assert self.stage is not TaskStage.COPIED or self.copy is not None, self
        assert not self.reclaims or self.stage is TaskStage.OPENING, self
        assert not self.polling or self.looks, self
        assert not self.claimed or self.stage not in (TaskStage.COPIED, TaskStage.WAITING), self
        given_up = bool(self.surrendered or self.next_owner)
        assert not given_up or self.stage is TaskStage.RELEASED, self


def mark_until_ms(records: Iterable[TaskRecord]) -> int:
    """The time until which the mark of one of them that waits for it is about to come."""
    waiting = (one for one in records if one.stage is TaskStage.WAITING)
    return max((one.brisk_until_ms - _BRISK_MS + _MARK_MS for one in waiting), default=0)


@attrs.define
class Unit:
    """Tasks that are stopped and committed as one, before the next JoinGroup (M2, M5).

    The manager makes it and says when it is ``over``; the worker, whose stage it has, carries it
    out: it is this object that commits are made for.

    Attributes:
        token: names it to the membership.
        generation: that of the order.
        marks: the members that tasks of it are released to.
        for_join: its tasks are given up because a join is due.
        for_migration: what was committed is not given up but held.
        over: nothing is to be done for it any more, once what followed from that is carried out.
    """

    token: int
    generation: int
    tasks: tuple[TaskId, ...]
    marks: Mapping[TaskId, str] = attrs.field(factory=dict)
    for_join: bool = False
    for_migration: bool = False
    over: bool = attrs.field(default=False, eq=False)
    stage: UnitStage = attrs.field(default=UnitStage.ORDERED, eq=False)

    def move_to(self, stage: UnitStage) -> None:
        """Enter another stage."""
        self.stage = moved(self, self.stage, stage)


@attrs.define
class UnitUnderWay:
    """The unit that a worker carries out, until it is over and all that follows is done."""

    one: Unit | None = None

    @property
    def ordered(self) -> Unit | None:
        """The unit, if its tasks are to be stopped once what is dirty was committed."""
        one = self.one
        return one if one and one.stage is UnitStage.ORDERED and not one.over else None

    @property
    def stopped(self) -> Unit | None:
        """The unit, if its tasks wait for their last commit; nothing is polled before."""
        return one if (one := self.one) and one.stage is UnitStage.STOPPED else None

    @property
    def waiting(self) -> bool:
        """True while tasks are to be given up, or wait stopped for their last commit."""
        return self.ordered is not None or self.stopped is not None

    @property
    def over(self) -> bool:
        """True if nothing is to be done for it, once the actions there are were performed."""
        return self.one is not None and self.one.over
