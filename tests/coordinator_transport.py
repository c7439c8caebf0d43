"""A session's way to a fake coordinator, in real time and without a network.

Futures are done on the caller's thread or on a timer thread, as answers come. Connections are not
imitated but for ``hang_up``, which fails what waits.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future

from streamlet.clock import Clock
from streamlet.coordinator.events import Connection, FailureKind
from streamlet.coordinator.messages import Answer, Request
from streamlet.coordinator.ports import TransportError
from streamlet.testing.coordinator import Answers, FakeCoordinator


class FakeCluster:
    """One fake coordinator for any number of transports; a context manager.

    Args:
        coordinator: who answers.
        clock: the time.
    """

    def __init__(self, coordinator: FakeCoordinator, clock: Clock) -> None:
        self.coordinator = coordinator
        self._clock = clock
        self._lock = threading.RLock()
        self._timers_changed = threading.Condition(self._lock)
        self._number = 0
        self._waiting: dict[int, Future[Answer]] = {}
        self._closed = False
        self._thread = threading.Thread(target=self._tick, name="fake-coordinator", daemon=True)

    def __enter__(self) -> FakeCluster:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            self._timers_changed.notify_all()
        self._thread.join()

    def transport(self, client: str = "member") -> FakeTransport:
        """A way to the coordinator for one member."""
        return FakeTransport(self, client)

    def send(self, request: Request, client: str) -> tuple[int, Future[Answer]]:
        """Hand a request over; its number, and its answer to come."""
        with self._lock:
            self._number += 1
            number, future = self._number, Future[Answer]()
            self._waiting[number] = future
            answers = self.coordinator.handle(number, request, self._clock.now_ms(), client)
            self._timers_changed.notify_all()
        self._deliver(answers)
        return number, future

    def forget(self, number: int) -> Future[Answer] | None:
        """Drop an answer that is not awaited any more; None if it is on its way already."""
        with self._lock:
            return self._waiting.pop(number, None)

    def delete_topic(self, topic: str) -> None:
        """Forget the positions of a topic that was deleted."""
        with self._lock:
            self.coordinator.offsets.delete_topic(topic)

    def _deliver(self, answers: Answers) -> None:
        for number, answer in answers:
            assert isinstance(number, int)
            with self._lock:
                future = self._waiting.pop(number, None)
            if future is not None:
                future.set_result(answer)

    def _tick(self) -> None:
        while True:
            with self._lock:
                if self._closed:
                    return
                now = self._clock.now_ms()
                answers = self.coordinator.tick(now)
                due = self.coordinator.next_deadline()
                if not answers:
                    self._timers_changed.wait(None if due is None else (due - now) / 1000)
            self._deliver(answers)


class FakeTransport:
    """One member's connections to a ``FakeCluster``."""

    def __init__(self, cluster: FakeCluster, client: str) -> None:
        self._cluster = cluster
        self._client = client
        self._sent: dict[Connection, set[int]] = {way: set() for way in Connection}

    def find_coordinator(self, group: str, timeout_ms: int) -> Future[str]:
        """Found at once."""
        future: Future[str] = Future()
        future.set_result("fake")
        return future

    def send(self, request: Request, connection: Connection, timeout_ms: int) -> Future[Answer]:
        """Send; timeouts are left to the caller."""
        number, future = self._cluster.send(request, self._client)
        self._sent[connection].add(number)
        return future

    def hang_up(self, connection: Connection) -> None:
        """Fail what waits on this connection; the coordinator does not notice."""
        sent, self._sent[connection] = self._sent[connection], set()
        for number in sent:
            future = self._cluster.forget(number)
            if future is not None:
                future.set_exception(TransportError(FailureKind.DISCONNECTED, "hung up"))

    def close(self) -> None:
        """Hang up both."""
        for way in Connection:
            self.hang_up(way)
