"""The real activation of a simulated worker, watched where it is asked and where it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamlet.coordinator.commit_metadata import Positions
from streamlet.tasks.activation import Activation
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.state_updater import CopyFailed, Promoted
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
        copy = member.worker.copies.kept.get(task)
        if positions is not None and copy is not None and copy.opened is not None:
            self._warm.add(task)
        super().want(task, positions)

    def cancel(self, task: TaskId) -> None:
        """Bring it up no more."""
        self._warm.discard(task)
        super().cancel(task)

    def promoted(self, event: Promoted | CopyFailed) -> ActiveTask | None:
        """Take what became of a promotion."""
        self._warm.discard(event.opened.task if isinstance(event, Promoted) else event.task)
        return super().promoted(event)

    def opened_here(self, task: TaskId) -> None:
        """A task is ready that was not promoted."""
        if task in self._warm:
            self._warm.discard(task)
            self._member.world.protocol.began(self._member, task)
