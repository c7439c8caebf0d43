"""The real activation of a simulated worker, watched where it is asked and where it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamlet.coordinator.commit_metadata import Positions
from streamlet.tasks.activation import Activation
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.task_events import CopyFailed, Restored
from streamlet.tasks.task_record import OpeningStage
from streamlet.types import TaskId

if TYPE_CHECKING:
    from streamlet.testing.simulation.member import SimMember


class WatchedActivation(Activation):
    """Tasks on their way up: with a marker seen, a copy that is open here has to be promoted."""

    def __init__(self, member: SimMember, *parts: Any, **more: Any) -> None:
        super().__init__(*parts, **more)
        self._member = member
        self._warm: set[TaskId] = set()

    def want(self, task: TaskId, positions: Positions | None = None) -> None:
        """Bring this task up."""
        member = self._member
        member.world.protocol.wanted(member, task, positions)
        copy = member.worker.updater.kept.get(task)
        if positions is not None and copy is not None:
            self._warm.add(task)
        super().want(task, positions)

    def cancel(self, task: TaskId) -> None:
        """Bring it up no more."""
        self._warm.discard(task)
        super().cancel(task)

    def step(self) -> list[ActiveTask]:
        """Go on; a folder that this worker has yet to close is not waited for."""
        opening = {one.task for one in self._at(OpeningStage.UNLOCKING)}
        for task in sorted(opening & self._member.worker.closer.paused):
            self._member.world.protocol.waits_for_itself(self._member, task)
        return super().step()

    def restored(self, event: Restored) -> ActiveTask | None:
        """Take stores that were restored or promoted."""
        coming = self._coming.get(event.opened.task)
        promoted = coming is not None and coming.opening is OpeningStage.PROMOTING
        active = super().restored(event)
        if promoted:
            self._warm.discard(event.opened.task)
        elif active is not None:
            self._opened_here(active.task)
        return active

    def copy_failed(self, event: CopyFailed) -> None:
        """Go on without a copy that could not be promoted."""
        self._warm.discard(event.task)
        super().copy_failed(event)

    def _opened_here(self, task: TaskId) -> None:
        """A task is ready that was not promoted."""
        if task in self._warm:
            self._warm.discard(task)
            self._member.world.protocol.began(self._member, task)
