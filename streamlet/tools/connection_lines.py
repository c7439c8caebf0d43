"""Keeps back the Kafka client's lines about connections that a command's own error explains.

A client with a wrong setting of TLS or a login logs each broken connection within milliseconds, and
a second later the command ends by a sentence that names the setting. So these lines wait. An error
about the login or TLS, or a broker that does not answer, takes their place: it says what became of
the connection. After any other end, or a while, they are logged.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from streamlet.errors import AuthenticationError, UnreachableError
from streamlet.kafka.outage_lines import CONNECTION, MOST_HELD

_CLIENT = "streamlet.kafka.client"
#: How long lines wait, ms: longer than a request does.
HOLD_MS = 20_000


class ConnectionLines(logging.Filter):
    """Holds a handler's lines about connections until they are released or dropped."""

    def __init__(self, handler: logging.Handler) -> None:
        super().__init__()
        self._handler, self._lock = handler, threading.Lock()
        self._held: list[logging.LogRecord] = []
        self._timer = threading.Timer(HOLD_MS / 1000, self.release)
        self._timer.daemon = True

    def filter(self, record: logging.LogRecord) -> bool:
        """False for a line that waits; the first ``MOST_HELD`` do, the others add nothing."""
        args = record.args
        if record.name != _CLIENT or not isinstance(args, tuple) or not args:
            return True
        if args[0] not in CONNECTION:
            return True
        with self._lock:
            if self not in self._handler.filters:
                return True
            if not self._held:
                self._timer.start()
            if len(self._held) < MOST_HELD:
                self._held.append(record)
            return False

    def drop(self) -> None:
        """Hold nothing more, and forget what is held."""
        self._end()

    def release(self) -> None:
        """Hold nothing more, and log what is held."""
        for record in self._end():
            self._handler.handle(record)

    def _end(self) -> list[logging.LogRecord]:
        with self._lock:
            self._handler.removeFilter(self)
            self._timer.cancel()
            held, self._held = self._held, []
            return held


@contextmanager
def holding_connection_lines(handler: logging.Handler) -> Iterator[None]:
    """Hold the lines of a handler until the block ends; at debug level nothing is held."""
    if logging.getLogger(_CLIENT).isEnabledFor(logging.DEBUG):
        yield
        return
    lines = ConnectionLines(handler)
    handler.addFilter(lines)
    try:
        yield
    except (AuthenticationError, UnreachableError):
        lines.drop()
        raise
    finally:
        lines.release()
