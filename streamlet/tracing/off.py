"""The parts of a worker whose application is not traced: there is nothing of tracing in them."""

from __future__ import annotations

from collections.abc import Callable

from streamlet.clock import Clock
from streamlet.closing import Closing
from streamlet.processing.task import Task
from streamlet.runtime.listeners import Observer
from streamlet.state.row_headers import KeptHeaders
from streamlet.tasks.meters import Meters


class NoTracing(Closing):
    """Makes the parts of a worker that may have spans, without any; closed with the worker."""

    #: Makes the tasks.
    new_task: Callable[..., Task] = Task
    #: What stores keep of the headers of records that change rows.
    kept: KeptHeaders | None = None

    def meters(self, clock: Clock) -> Meters:
        """The counters of the worker, by a clock."""
        return Meters(clock)

    def observed(self, observer: Observer) -> Observer:
        """The observer that is called with the states of the worker: the one given."""
        return observer

    def close(self) -> None:
        """Do nothing."""
