"""The control thread, which runs a session, and the protocol that is asked on it.

A session takes one item of a queue at a time, without a thread and without waiting:
``ControlThread`` gives it the items, and the simulator does.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

from streamlet.assignor.values import Copy
from streamlet.clock import Clock
from streamlet.errors import StreamletError
from streamlet.group import events as ev
from streamlet.group.values import Assignment
from streamlet.types import TaskId

if TYPE_CHECKING:
    from streamlet.group.session import GroupSession

#: An event for the machine, an error that ends everything, or None: close.
Item: TypeAlias = ev.Event | StreamletError | None


class GroupProtocol(Protocol):
    """The content of the group's messages; called on the control thread.

    An error raised by ``subscribe`` or ``decode`` ends the membership. ``assign`` may raise a
    ``StreamletError`` when it has no plan just now (topics unknown, broker away): it is run again.
    """

    protocol_type: str

    def subscribe(
        self, need: ev.NeedMetadata, copies: Mapping[TaskId, Copy]
    ) -> tuple[tuple[str, bytes], ...]:
        """The protocols to join with: (name, metadata), best first; the nonce must be in it."""
        ...

    def assign(self, run: ev.RunAssignor) -> Mapping[str, bytes]:
        """Make all assignments, as the leader; by member id."""
        ...

    def decode(self, assignment: bytes) -> Assignment:
        """Read our own assignment."""
        ...


class ControlRunner(Protocol):
    """Calls ``begin`` of a session, then ``take`` with each item and at ``wake_at_ms``.

    Until an item is None, or the membership is over; always one call after the other.
    """

    @property
    def running(self) -> bool:
        """True if it was started and did not end."""
        ...

    def start(self) -> None:
        """Begin."""
        ...

    def put(self, item: Item) -> None:
        """Queue an item; from any thread."""
        ...

    def join(self) -> None:
        """Wait until it has ended."""
        ...


class ControlThread:
    """The control thread.

    Args:
        session: what it runs.
        clock: the time.
    """

    def __init__(self, session: GroupSession, clock: Clock) -> None:
        self._session, self._clock = session, clock
        self._queue: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="streamlet-group", daemon=True)

    @property
    def running(self) -> bool:
        """True if it was started and did not end."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def put(self, item: Item) -> None:
        """Queue an item; from any thread."""
        self._queue.put(item)

    def join(self) -> None:
        """Wait until it has ended."""
        if self.running and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            self._session.begin()
            while not self._session.ended.is_set() and (item := self._await()) is not None:
                self._session.take(item)
        except Exception as error:  # a bug of ours or of the protocol: the worker must learn of it
            self._session.broke(error)
        finally:
            self._session.end()

    def _await(self) -> Item:
        """Wait for the next event; a Tick when it is time for one."""
        at_ms = self._session.wake_at_ms
        wait_s = None if at_ms is None else max(at_ms - self._clock.now_ms(), 0) / 1000
        try:
            return self._queue.get(timeout=wait_s)
        except queue.Empty:
            return ev.Tick()
