"""Takes back what a worker has queued for tasks that another member may have by now.

Others can have our tasks when the coordinator has heard nothing of us for a session. A process that
was frozen, or cut off, does not know it: so what it wrote and what is not sent yet is taken back a
little before, and first of all when it goes on. The clients' own threads send at once then.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from streamlet.clock import Clock
from streamlet.coordinator.states import MembershipView

#: After such a share of a session without an answered heartbeat nothing more is written for our
#: tasks: what is on its way arrives before others can have them.
WRITING_SHARE = 0.9


@attrs.define(eq=False)
class WriteFence:
    """Takes back what was written, once for each time that the group may count us as dead.

    Args:
        session_timeout_ms: of our membership.
        clock: the time.
        take_back: called on the control thread; delivers nothing more of what is queued.
    """

    _session_timeout_ms: int
    _clock: Clock
    take_back: Callable[[], None] = lambda: None
    _done_ms: int | None = attrs.field(default=None, init=False)

    def due_ms(self, view: MembershipView) -> int | None:
        """The time to take back queued records unless a heartbeat is answered; None once done."""
        if view.generation < 0 or self._done_ms == view.last_heartbeat_ms:
            return None
        return view.last_heartbeat_ms + int(self._session_timeout_ms * WRITING_SHARE)

    def in_time(self, view: MembershipView) -> bool:
        """True while others cannot have our tasks, as far as the last heartbeat tells."""
        heard_ms = self._clock.now_ms() - view.last_heartbeat_ms
        return view.generation < 0 or heard_ms < self._session_timeout_ms * WRITING_SHARE

    def look(self, view: MembershipView) -> None:
        """Take back what was written, if it is time."""
        if not self.in_time(view) and self._done_ms != view.last_heartbeat_ms:
            self._done_ms = view.last_heartbeat_ms
            self.take_back()
