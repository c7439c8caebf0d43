"""Takes members out of the group whose processes are dead, so that no session must time out.

Only for a caller that has seen the end of such a process: it can write nothing any more, so no task
runs twice. Each member is taken out in a thread of its own: the caller waits for no broker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from streamlet.admin.window import GroupWindow
from streamlet.coordinator.codes import name_of
from streamlet.coordinator.messages import LeaveGroup, LeaveGroupAnswer
from streamlet.errors import BrokerError
from streamlet.logs import get_logger

log = get_logger(__name__)

#: How long the coordinator is asked, ms; a session that short would be over by itself.
TIMEOUT_MS = 6_000

#: The coordinator's code for a member that is out of the group already.
_UNKNOWN_MEMBER_ID = 25


class DeadMembers:
    """Removes dead members of one group.

    Args:
        open_window: opens a window onto the application, which is closed again.
        at_once: asked when a process died that a new one replaces at once: whether its tasks are
            better with others meanwhile. If not, the member is removed when its successor has a
            member id, and so has sent its JoinGroup: before, others would be given the tasks.
    """

    def __init__(self, open_window: Callable[[], GroupWindow], at_once: Callable[[], bool]) -> None:
        self._open_window = open_window
        self._at_once = at_once
        #: Members that are removed when their successors join, by the number of the worker.
        self._waiting: dict[int, str] = {}
        self._threads: list[threading.Thread] = []

    def died(self, worker: int, member_id: str, *, replaced_at_once: bool) -> None:
        """Remove the member of a worker whose process has ended and was reaped."""
        self.succeeded(worker)
        if replaced_at_once and not self._at_once():
            self._waiting[worker] = member_id
        else:
            self._begin(member_id)

    def succeeded(self, worker: int) -> None:
        """Remove what waits for this worker's new process: it has joined, or has died as well."""
        member_id = self._waiting.pop(worker, None)
        if member_id is not None:
            self._begin(member_id)

    def close(self, timeout_s: float) -> None:
        """Remove what still waits, and wait for removals under way."""
        for worker in list(self._waiting):
            self.succeeded(worker)
        for thread in self._threads:
            thread.join(timeout_s)

    def _begin(self, member_id: str) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(
            target=self._remove, args=(member_id,), name="streamlet-dead-member", daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def _remove(self, member_id: str) -> None:
        window = self._open_window()
        try:
            code = _leave(window, member_id)
        except BrokerError as error:
            problem = str(error)
        else:
            problem = "" if code in (0, _UNKNOWN_MEMBER_ID) else name_of(code)
        finally:
            window.close()
        if problem:
            log.warning(
                "the dead member %s stays in group %s until its session.timeout.ms is over: %s",
                member_id,
                window.name,
                problem,
            )
        else:
            log.info("removed the dead member %s from group %s", member_id, window.name)


def _leave(window: GroupWindow, member_id: str) -> int:
    """Send LeaveGroup in the member's name; Kafka's code, 0 where it is out of the group."""
    request = LeaveGroup(window.name, member_id, None, "its process is dead")
    answer = window.transport.ask(request, TIMEOUT_MS).result()
    assert isinstance(answer, LeaveGroupAnswer)
    return answer.error
