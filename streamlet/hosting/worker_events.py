"""Events that tell a supervisor what its workers do, as JSON takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from streamlet.assignor.values import Leaving
    from streamlet.processing.policy import UncaughtAnswer
    from streamlet.processing.record_failures import RecordCounters
    from streamlet.tasks.restore_job import RestoreProgress


def ended_event(
    counters: RecordCounters, drained: bool, answer: UncaughtAnswer | None
) -> dict[str, Any]:
    """The event that tells a supervisor what a worker did until it ended, well or not.

    ``answer`` is that of ``uncaught_handler`` to the error that ended it, if it was asked.
    """
    return {"event": "ended", "drained": drained, "answer": answer, **attrs.asdict(counters)}


def leaving_event(leaving: Leaving | None) -> dict[str, Any]:
    """The event that tells a supervisor that the instance is to leave, or is not any more."""
    if leaving is None:
        return {"event": "staying"}
    return {"event": "leaving", **attrs.asdict(leaving)}


def restoring_event(progress: RestoreProgress) -> dict[str, Any]:
    """The event that tells a supervisor of a store being restored."""
    return {
        "event": "restoring",
        "task": str(progress.task),
        "store": progress.store,
        "restored": progress.restored,
        "remaining": progress.remaining,
        "rate": progress.rate,
        "eta_s": progress.eta_s,
    }
