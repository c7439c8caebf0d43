"""A task on its way up, as ``tasks.activation`` keeps it; stages: ``tasks.task_record``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from streamlet.logs import get_logger
from streamlet.tasks.task_record import OpeningStage, moved
from streamlet.types import TaskId

if TYPE_CHECKING:
    from streamlet.coordinator.commit_metadata import Positions
    from streamlet.tasks.mismatch import MismatchKind
    from streamlet.tasks.opening import OpenTask
    from streamlet.tasks.target import Target
    from streamlet.tasks.targets import TargetAnswer

log = get_logger(__name__)

#: Pause before a task whose stores failed is opened again: a full disk stays full for a while.
REOPEN_MS = 5_000
_STANDS_STILL = "task %s stands still, and is tried again every %d s: %s"


@attrs.define
class TaskTroubles:
    """The troubles of a task on its way up, kept from one attempt to the next.

    Attributes:
        problem: the reason why its stores could not be opened; None: they could.
        again_ms: when they are tried again.
        since_ms: since when its stores cannot be used, if there is a problem.
        found: what was found to disagree, to be confirmed when it is found again.
        offers: how often the task was given back to the group for that.
        careful: whether it had something too large for a changelog once.
    """

    problem: str | None = None
    again_ms: int = 0
    found: MismatchKind | None = None
    offers: int = 0
    careful: bool = False
    since_ms: int = 0

    def put_off(self, task: TaskId, reason: str, now_ms: int) -> None:
        """Note that its stores failed; they are tried again after a pause."""
        if self.problem != reason:
            log.error(_STANDS_STILL, task, REOPEN_MS // 1000, reason)
        if self.problem is None:
            self.since_ms = now_ms
        self.problem, self.again_ms = reason, now_ms + REOPEN_MS

    def lasting(self, since_ms: int) -> str | None:
        """The reason why its stores cannot be used, if they cannot since then or longer."""
        return self.problem if self.since_ms <= since_ms else None

    def settle(self) -> None:
        """Forget what was in the way, which counts no more."""
        self.problem, self.found, self.again_ms = None, None, 0


@attrs.define(eq=False)
class ActivatingTask:
    """A task from the order to run it until it may process.

    Attributes:
        stage: from CREATED, or SETTLING, to READY, or CANCELLED.
        mark: the committed positions that the owner before left with its mark, where there is one.
        target: what the task begins with, as far as it is known.
        answer: while ASKING and DECIDING: what brokers will say of the target, by task.
        offer: while DECIDING: when it is given back to the group instead, ms, and the reason.
        opened: while RESTORING: its stores, which are the state updater's.
    """

    task: TaskId
    mark: Positions | None = None
    stage: OpeningStage = OpeningStage.CREATED
    target: Target | None = None
    answer: TargetAnswer | None = None
    offer: tuple[int, str] | None = None
    opened: OpenTask | None = None

    def move_to(self, stage: OpeningStage) -> None:
        """Enter another stage."""
        self.stage = moved(self.task, self.stage, stage)

    def begin_anew(self) -> None:
        """Have everything read once more, the mark's positions too."""
        self.mark = self.target = None
        self.move_to(OpeningStage.CREATED)

    def wait_for(self, answer: TargetAnswer, stage: OpeningStage) -> None:
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
            if self.stage is OpeningStage.DECIDING:
                self.mark = self.target = None
            self.move_to(OpeningStage.CREATED)
            raise

    def known(self) -> Target:
        """The target of a task that is further than the question for it."""
        assert self.target is not None, self.task
        return self.target

    def waits_for(self, opened: OpenTask) -> bool:
        """True if these stores are those that the state updater is to hand over."""
        return opened is self.opened or self.stage is OpeningStage.PROMOTING

    def check_invariants(self) -> None:
        """Raise AssertionError where the stage and what is known contradict each other."""
        asks = self.answer is not None or self.offer is not None
        assert (self.stage in (OpeningStage.ASKING, OpeningStage.DECIDING)) == asks, self
        assert (self.stage is OpeningStage.RESTORING) == (self.opened is not None), self
        assert self.offer is None or self.stage is OpeningStage.DECIDING, self
        unknown = OpeningStage.SETTLING, OpeningStage.CREATED, OpeningStage.ASKING
        assert self.stage in unknown or self.target is not None, self
        assert self.stage not in (OpeningStage.READY, OpeningStage.CANCELLED), self
