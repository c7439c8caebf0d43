"""Has tasks stand still whose application or subtopology is paused in the control topic.

A paused task reads and processes nothing, and no timer of it fires. It stays with its member,
commits what it has done, and can be handed over; copies of it are read on.
"""

from __future__ import annotations

import attrs

from streamlet.runtime.control_link import ControlLink
from streamlet.tasks.task_record import TaskStage
from streamlet.tasks.task_registry import TaskRegistry


@attrs.define(eq=False)
class Pauses:
    """Compares running tasks with the control topic, before each poll.

    Args:
        registry: the tasks.
        link: follows the control topic; None: nothing is ever paused.
    """

    _registry: TaskRegistry
    _link: ControlLink | None
    #: Whether something was paused at the last look.
    _any: bool = attrs.field(default=False, init=False)

    def look(self) -> None:
        """Pause and resume what the control topic says by now."""
        if self._link is None:
            return
        view = self._link.view
        if not view.pauses and not self._any:
            return
        self._any = bool(view.pauses)
        for active in self._registry.of_stage(TaskStage.RUNNING):
            paused = view.is_paused(active.task.subtopology)
            if paused != active.paused:
                self._registry.set_paused(active, paused)
