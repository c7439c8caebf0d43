"""Requests to a running instance, from signals, its supervisor or the user's program."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from streamlet.clock import Clock
    from streamlet.runtime.stream_thread import StreamThread


@attrs.define(eq=False)
class HostRequests:
    """Asks an instance to stop, or to leave; by any thread. Its own thread obeys."""

    asked: threading.Event = attrs.field(factory=threading.Event)
    #: Cleared by the thread that obeys.
    drain: threading.Event = attrs.field(factory=threading.Event)
    #: Since when it is to leave, wall-clock ms; None: since it obeys.
    since_ms: int | None = None

    def end_a_start(self) -> bool:
        """True if the start is to end before there is a worker: there is nothing to hand over."""
        return self.asked.is_set() or self.drain.is_set()

    def obey(self, worker: StreamThread, clock: Clock) -> bool:
        """Pass a request to leave on to a worker; True unless it is to stop."""
        if self.drain.is_set():
            self.drain.clear()
            worker.drain(clock.wall_ms() if self.since_ms is None else self.since_ms)
        return not self.asked.is_set()
