"""The stages in the life of a task on one member, and the moves between them.

::

    CREATED ──▶ ASKING ──▶ OPENING ──▶ RESTORING ──▶ READY ──▶ RUNNING ◀──▶ STOPPED
       │           │        ▲   │          │           ▲
       │           │        │   ▼          ▼           │
       │           │      DECIDING ◀───────┘           │
       └───────────┴──▶ PROMOTING ─────────────────────┘

Each stage also leads to CLOSED. ASKING, DECIDING, OPENING and RESTORING lead back to CREATED, where
no broker answers or all is to be read once more; RESTORING back to OPENING, where stores fail; and
PROMOTING to ASKING or OPENING, where the copy cannot be had. Until READY a task belongs to
``tasks.activation``, from there on to ``tasks.task_registry``. Whether the member may run it at
all is for the claims to say (``tasks.task_record.ClaimStage``).
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import attrs

from streamlet.types import TaskId

if TYPE_CHECKING:
    from streamlet.coordinator.commit_metadata import Positions
    from streamlet.tasks.mismatch import MismatchKind
    from streamlet.tasks.opening import OpenTask
    from streamlet.tasks.targets import Target, TargetAnswer


class TaskStage(enum.StrEnum):
    """The stages in the life of a task."""

    CREATED = "created"  # wanted; nothing was asked yet, or all is to be asked again
    ASKING = "asking"  # brokers are asked for its committed positions and the ends of its logs
    DECIDING = "deciding"  # these and its state disagree, or more of the logs is to be read
    OPENING = (
        "opening"  # its folder is to be opened: once no other process has it, or after a pause
    )
    RESTORING = "restoring"  # its stores are open, and read on from changelogs
    PROMOTING = "promoting"  # the state updater brings its copy to exactly the commit
    READY = "ready"  # its stores are as of the committed positions
    RUNNING = "running"  # it processes; until its claim is accepted it writes to no changelog
    STOPPED = "stopped"  # it processes nothing, and its last commit is under way
    CLOSED = "closed"  # gone; its folder stays as a dormant copy


_ON_WAY = frozenset({TaskStage.CREATED, TaskStage.CLOSED})

#: Legal moves.
MOVES: dict[TaskStage, frozenset[TaskStage]] = {
    TaskStage.CREATED: frozenset(
        {TaskStage.ASKING, TaskStage.OPENING, TaskStage.PROMOTING, TaskStage.CLOSED}
    ),
    TaskStage.ASKING: _ON_WAY | {TaskStage.OPENING, TaskStage.PROMOTING},
    TaskStage.DECIDING: _ON_WAY | {TaskStage.OPENING},
    TaskStage.OPENING: _ON_WAY | {TaskStage.RESTORING, TaskStage.DECIDING},
    TaskStage.RESTORING: _ON_WAY | {TaskStage.READY, TaskStage.OPENING, TaskStage.DECIDING},
    TaskStage.PROMOTING: frozenset(
        {TaskStage.READY, TaskStage.OPENING, TaskStage.ASKING, TaskStage.CLOSED}
    ),
    TaskStage.READY: frozenset({TaskStage.RUNNING, TaskStage.CLOSED}),
    TaskStage.RUNNING: frozenset({TaskStage.STOPPED, TaskStage.CLOSED}),
    TaskStage.STOPPED: frozenset({TaskStage.RUNNING, TaskStage.CLOSED}),
    TaskStage.CLOSED: frozenset(),
}


def moved(task: object, before: TaskStage, after: TaskStage) -> TaskStage:
    """The stage after a move of this task; AssertionError if it is not a legal one."""
    assert after in MOVES[before], f"{task}: {before} -> {after}"
    return after


@attrs.define
class TaskTroubles:
    """The troubles of a task on its way up, kept from one attempt to the next.

    Attributes:
        problem: the reason why its stores could not be opened; None: they could.
        again_ms: when they are tried again.
        found: what was found to disagree, to be confirmed when it is found again.
        offers: how often the task was given back to the group for that.
        careful: whether it had something too large for a changelog once.
    """

    problem: str | None = None
    again_ms: int = 0
    found: MismatchKind | None = None
    offers: int = 0
    careful: bool = False


@attrs.define(eq=False)
class ActivatingTask:
    """A task from the order to run it until it may process.

    Attributes:
        stage: from CREATED to READY, or CLOSED where it was cancelled.
        mark: the committed positions that the owner before left with its mark, where there is one.
        target: what the task begins with, as far as it is known.
        answer: while ASKING and DECIDING: what brokers will say of the target, by task.
        offer: while DECIDING: when it is given back to the group instead, ms, and the reason.
        opened: while it is open: its stores.
    """

    task: TaskId
    mark: Positions | None = None
    stage: TaskStage = TaskStage.CREATED
    target: Target | None = None
    answer: TargetAnswer | None = None
    offer: tuple[int, str] | None = None
    opened: OpenTask | None = None

    def move_to(self, stage: TaskStage) -> None:
        """Enter another stage."""
        self.stage = moved(self.task, self.stage, stage)

    def begin_anew(self) -> None:
        """Have everything read once more, the mark's positions too."""
        self.mark = self.target = None
        self.move_to(TaskStage.CREATED)

    def wait_for(self, answer: TargetAnswer, stage: TaskStage) -> None:
        """Wait for brokers to say what it begins with, or what is missing of that."""
        self.answer = answer
        self.move_to(stage)

    def answered(self) -> Target:
        """Take the brokers' answer: the target.

        Raises:
            StreamletError: they could not; it is CREATED again, as before the question, and reads
                everything once more if that was to decide about it.
        """
        answer, self.answer = self.answer, None
        assert answer is not None, self.task
        try:
            return answer.result()[self.task]
        except BaseException:
            if self.stage is TaskStage.DECIDING:
                self.mark = self.target = None
            self.move_to(TaskStage.CREATED)
            raise

    def known(self) -> Target:
        """The target of a task that is further than the question for it."""
        assert self.target is not None, self.task
        return self.target

    def take_opened(self) -> OpenTask:
        """Its open stores, the caller's from now on."""
        opened, self.opened = self.opened, None
        assert opened is not None, self.task
        return opened

    def close(self) -> None:
        """Close what is open of it, as far as it was written."""
        self.move_to(TaskStage.CLOSED)
        if self.opened is not None:
            self.take_opened().close()

    def check_invariants(self) -> None:
        """Raise AssertionError where the stage and what is known contradict each other."""
        asks = self.answer is not None or self.offer is not None
        assert (self.stage in (TaskStage.ASKING, TaskStage.DECIDING)) == asks, self
        assert self.offer is None or self.stage is TaskStage.DECIDING, self
        assert (self.stage is TaskStage.RESTORING) == (self.opened is not None), self
        unknown = self.stage in (TaskStage.CREATED, TaskStage.ASKING)
        assert unknown or self.target is not None, self
        assert self.stage not in (TaskStage.READY, TaskStage.CLOSED), self
