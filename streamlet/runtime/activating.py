"""One task on its way up: how far it is, and what is known and open of it by then."""

from __future__ import annotations

from concurrent.futures import Future

import attrs

from streamlet.group.handover_values import Positions
from streamlet.runtime.opening import OpenTask
from streamlet.runtime.targets import Target
from streamlet.runtime.task_stage import TaskStage, moved
from streamlet.types import TaskId


@attrs.define(eq=False)
class ActivatingTask:
    """A task from the order to run it until it may process.

    Attributes:
        stage: from CREATED to READY, or CLOSED where it was cancelled (``runtime.task_stage``).
        mark: the committed positions that the owner before left with its mark, where there is one.
        target: what the task begins with, as far as it is known.
        answer: while ASKING: what brokers will say of the target, by task.
        opened: while it is open: its stores.
    """

    task: TaskId
    mark: Positions | None = None
    stage: TaskStage = TaskStage.CREATED
    target: Target | None = None
    answer: Future[dict[TaskId, Target]] | None = None
    opened: OpenTask | None = None

    def move_to(self, stage: TaskStage) -> None:
        """Enter another stage."""
        self.stage = moved(self.task, self.stage, stage)

    def begin_anew(self) -> None:
        """Have everything read once more, the mark's positions too."""
        self.mark = self.target = None
        self.move_to(TaskStage.CREATED)

    def ask(self, answer: Future[dict[TaskId, Target]]) -> None:
        """Wait for brokers to say what it begins with, or what is missing of that."""
        self.answer = answer
        self.move_to(TaskStage.ASKING)

    def answered(self) -> Target:
        """The target as the brokers told it.

        Raises:
            StreamletError: they could not; it is CREATED again, as before the question.
        """
        answer, self.answer = self.answer, None
        assert answer is not None, self.task
        try:
            return answer.result()[self.task]
        except BaseException:
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
        assert (self.stage is TaskStage.ASKING) == (self.answer is not None), self
        assert (self.stage is TaskStage.RESTORING) == (self.opened is not None), self
        unknown = self.stage in (TaskStage.CREATED, TaskStage.ASKING)
        assert unknown or self.target is not None, self
        assert self.stage not in (TaskStage.READY, TaskStage.CLOSED), self
