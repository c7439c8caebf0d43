"""Events that tell a host what its workers do, as JSON takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

if TYPE_CHECKING:
    from streamlet.assignor.values import Leaving
    from streamlet.processing.outputs import Output
    from streamlet.runtime.metrics.values import Snapshot
    from streamlet.runtime.stream_thread import StreamThread
    from streamlet.tasks.open_task import RestoreProgress
    from streamlet.types import TaskId

Event: TypeAlias = dict[str, Any]


def _ignored(seen: object) -> None:
    """Ignore outputs, which readers of the topics see."""


@attrs.frozen
class WorkerEvents:
    """Reports the events of one worker, as its observer.

    Args:
        tell: takes an event, on any of the worker's threads.
        produced: takes outputs that were handed to the producer.
        settled: as of ``Observer``.
    """

    tell: Callable[[Event], None]
    produced: Callable[[list[Output]], None] = _ignored
    settled: Callable[[bool], None] = _ignored
    #: The progress of copies is in what members report, not among the events.
    copying: Callable[[RestoreProgress], None] | None = None

    def state_changed(self, state: str, tasks: tuple[TaskId, ...]) -> None:
        """The worker's state or tasks changed."""
        self.tell({"event": "state", "state": state, "tasks": [str(task) for task in tasks]})

    def restoring(self, progress: RestoreProgress) -> None:
        """A store is being restored."""
        self.tell(
            {
                "event": "restoring",
                "task": str(progress.task),
                "store": progress.store,
                "restored": progress.restored,
                "remaining": progress.remaining,
                "rate": progress.rate,
                "eta_s": progress.eta_s,
            }
        )

    def member_changed(self, member_id: str) -> None:
        """The group knows the worker by this member id from now on; empty: by none."""
        self.tell({"event": "member", "member_id": member_id})

    def leaving(self, leaving: Leaving | None) -> None:
        """The instance is to leave, or is not any more."""
        if leaving is None:
            self.tell({"event": "staying"})
        else:
            self.tell({"event": "leaving", **attrs.asdict(leaving)})

    def measured(self, snapshot: Snapshot) -> None:
        """This is what the worker is like now."""
        self.tell(snapshot.to_event())

    def ended(self, worker: StreamThread) -> None:
        """The worker ended, well or not, with what it did until then.

        ``answer`` is that of ``uncaught_handler`` to the error that ended it, if it was asked.
        """
        answer, counters = worker.uncaught.answer, attrs.asdict(worker.counters)
        self.tell({"event": "ended", "drained": worker.drained, "answer": answer, **counters})
