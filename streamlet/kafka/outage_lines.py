"""Keeps back the Kafka client's lines about lost connections while an outage is reported.

librdkafka says at once, and for each of a dozen clients, that a connection broke. Whether that is
an outage shows seconds later, and then the worker says so (``runtime.broker_outage``). So while a
worker runs, these lines wait: they are dropped if an outage is told meanwhile, and logged if none
is, such as where one of three brokers is away.

They are known by librdkafka's facility, never by their text. A line bears no time of its own: it is
logged when its client is next used, which may be minutes after the outage. So the first lines of
each client after an outage count as lines about that outage.
"""

from __future__ import annotations

import logging
import threading
from collections import deque

import attrs

#: Facilities of librdkafka: a connection to a broker failed; metadata lacks a leader, because its
#: broker is away. The client's name is the second argument of a line.
CONNECTION = frozenset({"FAIL", "METADATAUPDATE"})
#: How long lines wait, and how many; how long lines may follow the first one of a client, ms.
HOLD_MS = 10_000
MOST_HELD = 100
_BATCH_MS = 1_000
#: Clients whose first lines are remembered.
_MOST_CLIENTS = 1_000
#: The attribute of a line that has waited and is logged now.
_WAITED = "streamlet_waited"


@attrs.define(eq=False)
class OutageLines:
    """Lines about connections, and whether they wait; for any thread."""

    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    #: What tells of outages in this process, and how many of these do so now.
    _watching: int = attrs.field(default=0, init=False)
    _away: int = attrs.field(default=0, init=False)
    #: Outages so far; by client the newest one that it spoke after, and until when it goes on, ms.
    _outages: int = attrs.field(default=0, init=False)
    _spoke: dict[str, tuple[int, float]] = attrs.field(factory=dict, init=False)
    #: The first ones that wait; with these the others have little to add.
    _held: deque[logging.LogRecord] = attrs.field(factory=deque, init=False)

    def watch(self, begins: bool) -> None:
        """Note that something tells of outages from now on, or ceases to."""
        with self._lock:
            self._watching += 1 if begins else -1
            if not self._watching:
                self._held.clear()

    def told(self, away: bool) -> None:
        """Note the report that no broker answers, or that one is back."""
        with self._lock:
            self._away += 1 if away else -1
            self._outages += away
            self._held.clear()

    @property
    def away(self) -> bool:
        """True while an outage is reported, so that its consequences need not be."""
        return self._away > 0

    def takes(self, record: logging.LogRecord) -> bool:
        """True if a line is about a connection, and is not to be logged now."""
        args = record.args
        if not isinstance(args, tuple) or len(args) < 2 or args[0] not in CONNECTION:
            return False
        if _WAITED in record.__dict__:
            return False
        with self._lock:
            if not self._watching:
                return False
            late = self._away or self._is_late(str(args[1]), record.created * 1_000)
            if not late and len(self._held) < MOST_HELD:
                self._held.append(record)
            return True

    def due(self, wall_ms: int) -> list[logging.LogRecord]:
        """The lines that have waited, and are about no outage."""
        if not self._held:
            return []
        with self._lock:
            found = []
            while self._held and wall_ms - self._held[0].created * 1_000 >= HOLD_MS:
                found.append(self._held.popleft())
            for record in found:
                record.__dict__[_WAITED] = True
            return found

    def _is_late(self, client: str, at_ms: float) -> bool:
        """True if a line is among the first ones of a client since the last outage."""
        if not self._outages:
            return False
        outage, until_ms = self._spoke.get(client, (0, 0.0))
        if outage != self._outages:
            if len(self._spoke) >= _MOST_CLIENTS:
                self._spoke.clear()
            until_ms = at_ms + _BATCH_MS
            self._spoke[client] = self._outages, until_ms
        return at_ms <= until_ms


#: The lines of this process.
outage_lines = OutageLines()
