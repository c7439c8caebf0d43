"""The event queue of a plain consumer: from its control thread to the thread that reads.

The session's events in order, but for two things. After a loss nothing that came before it counts:
it speaks of partitions that are gone. And the outcome of a commit goes to the future that was made
for it, because the reading thread may wait for it in the middle of an order.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from typing import TypeAlias

import attrs

from streamlet.coordinator import events as ev
from streamlet.partitions.protocol import PartitionsProtocol
from streamlet.partitions.wire import PartitionsAssignment


@attrs.frozen
class Ordered:
    """An assignment to carry out; ``leads`` if this member planned it."""

    received: PartitionsAssignment
    leads: bool


Order: TypeAlias = (
    Ordered | ev.Lost | ev.FetchDone | ev.JoinBlocked | ev.JoinSoon | ev.Failed | ev.Left
)


class PartitionEvents:
    """Filled by the control thread, emptied by the reader; ``protocol`` is set before the first."""

    def __init__(self) -> None:
        self.protocol: PartitionsProtocol | None = None
        self._orders: deque[Order] = deque()
        self._lock = threading.Lock()
        self._commits: dict[int, Future[ev.CommitDone]] = {}
        self._tokens = 0
        self._over = False

    def offer(self, event: ev.SessionEvent) -> None:
        """Leave an event; called by the control thread."""
        assert self.protocol is not None
        match event:
            case ev.CommitDone(token):
                with self._lock:
                    future = self._commits.pop(token, None)
                if future is not None:
                    future.set_result(event)
            case ev.Assigned(leader=leads):
                self._leave(Ordered(self.protocol.received, leads))
            case ev.Lost():
                self.protocol.lost()
                self._leave(event)
            case ev.Failed() | ev.Left():
                self._leave(event)
                self._end()
            case _:
                self._leave(event)

    def overtaken(self, reason: str) -> None:
        """The group went on without waiting for us: what we have counts as lost."""
        self._leave(ev.Lost(reason))

    def _leave(self, order: Order) -> None:
        with self._lock:
            self._orders.append(order)

    def _end(self) -> None:
        """Fail a commit that will get no answer."""
        with self._lock:
            self._over = True
            open_commits, self._commits = self._commits, {}
        for token, future in open_commits.items():
            future.set_result(ev.CommitDone(token, ev.CommitOutcome.LOST))

    def expect_commit(self) -> tuple[int, Future[ev.CommitDone]]:
        """A token for a commit about to be sent, and its outcome to come."""
        future: Future[ev.CommitDone] = Future()
        with self._lock:
            self._tokens += 1
            token, over = self._tokens, self._over
            if not over:
                self._commits[token] = future
        if over:
            future.set_result(ev.CommitDone(token, ev.CommitOutcome.LOST))
        return token, future

    def next(self) -> Order | None:
        """The oldest order that still counts, None if there is none."""
        with self._lock:
            losses = [n for n, order in enumerate(self._orders) if isinstance(order, ev.Lost)]
            for _ in range(losses[-1] if losses else 0):
                self._orders.popleft()
            return self._orders.popleft() if self._orders else None
