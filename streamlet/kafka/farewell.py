"""Frees clients on threads of their own: librdkafka may take for ever to end one.

A client ends once all of its threads have, one for each broker that it knew. Where brokers went
away meanwhile some never do, in librdkafka up to 2.16 at least (its issue 4519). Who gives a client
up has records to process, a commit to finish, or is to stop: it waits for a moment only.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from streamlet.logs import get_logger

log = get_logger(__name__)

T = TypeVar("T")

#: How long a client that ends is waited for, s.
WAIT_S = 2.0


def _dropped(client: object) -> None:
    """Have the client end with its last reference."""


def let_go(clients: list[T], end: Callable[[T], object] = _dropped) -> None:
    """Free the clients of a list, which is empty then, without waiting for long.

    Args:
        clients: has the last references, so that clients end on the thread and not on this one.
        end: what frees one, where that is not done by dropping it.
    """
    if not clients:
        return

    def work() -> None:
        while clients:
            client = clients.pop()
            try:
                end(client)
            except Exception as error:
                log.warning("a client did not end well: %s", error)
            del client

    thread = threading.Thread(target=work, name="streamlet-farewell", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # there can be no more threads: at the end of Python, or of a bound
        work()
        return
    thread.join(WAIT_S)
    if thread.is_alive():
        log.debug("a client has not ended in %g s: nothing waits for it any more", WAIT_S)


def _free_with(owner: object, clients: list[T]) -> None:
    """Free the clients of a list when an object is dropped.

    Python's collector may find it amid anything, with any lock held by the thread that it runs on.
    So the thread that frees is there before, and is called without a lock.
    """
    dropped: SimpleQueue[None] = SimpleQueue()
    freed: SimpleQueue[None] = SimpleQueue()

    def work() -> None:
        dropped.get()
        clients.clear()
        freed.put(None)

    def call() -> None:
        dropped.put(None)
        with suppress(Empty):
            freed.get(timeout=WAIT_S)

    thread = threading.Thread(target=work, name="streamlet-farewell", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # as in let_go
        weakref.finalize(owner, let_go, clients).atexit = False
    else:
        weakref.finalize(owner, call).atexit = False


class HeldClient(Generic[T]):
    """The one lasting reference to a client, which is freed with its ``owner`` if it has one."""

    def __init__(self, owner: object | None = None) -> None:
        self._clients: list[T] = []
        self._taking = threading.Lock()
        if owner is not None:
            _free_with(owner, self._clients)

    @property
    def client(self) -> T:
        """The client; who uses it has another reference meanwhile."""
        return self._clients[-1]

    def take(self, client: T) -> None:
        """Hold another client, and free the one before."""
        with self._taking:  # two threads may find that the client is of no use any more
            self._clients.append(client)
            before = [self._clients.pop(0) for _ in self._clients[1:]]
        let_go(before)

    def each(self, call: Callable[[T], object]) -> None:
        """Call with the client, if there is one; from any thread."""
        for client in self._clients[-1:]:
            call(client)

    def free(self) -> None:
        """Hold none any more."""
        let_go(self._clients)
