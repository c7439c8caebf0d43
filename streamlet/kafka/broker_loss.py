"""Clients that lost all their brokers, perhaps for good.

A broker that goes down answers metadata last with no broker at all. librdkafka, up to 2.16 at
least, then drops the last one it knew, and where the connection breaks in that moment it never
starts again with the bootstrap servers (its issue 5301). The same happens within seconds where a
controller fences its broker again and again. ``metadata.recovery.strategy`` and
``metadata.recovery.rebootstrap.trigger.ms`` do not help.

Only half of such clients say that all their brokers are down (17 of 34, among 40 clients through 15
restarts of a broker on a full machine); nor does one say so whose broker's host is gone without a
word, for a minute. So a silent client is asked, and another takes the place of one that finds no
broker, as soon as nothing is lost by it. What a sink still owes times out, as with a broker that is
away. ``tests/integration/test_farewell.py`` and ``test_fenced_broker.py`` bring both cases about.
"""

from __future__ import annotations

import re

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from streamlet.clock import Clock, SystemClock
from streamlet.kafka.farewell import HeldClient
from streamlet.kafka.metadata import finds_brokers

#: A broker answers, and waiting for another answer is of no use.
_REFUSALS = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})
#: A connection broke, or was none; the name of a host is not known.
_BROKEN = frozenset({KafkaError._TRANSPORT, KafkaError._RESOLVE})
#: An alert that comes behind a handshake of TLS 1.3, for librdkafka a broken connection.
_REFUSED_BY_TLS = re.compile(
    r"SSL routines::(?:[a-z0-9/ ]* )?alert (?!internal error|user cancel|close notify)"
)

#: How long nothing may be heard of a client before it is asked, ms.
ALONE_MS = 5_000


class BrokerLossDetector:
    """One client's ``error_cb``. It knows nothing of who has the client, which it must not keep."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._all_down = False
        #: The last refusal of a login or certificate, the broker's or ours, or of a token.
        self.refusal: KafkaError | None = None
        self._broken = ""
        self._heard_ms = self._clock.now_ms()

    def __call__(self, error: KafkaError) -> None:
        """Take an error that concerns the whole client."""
        self._all_down |= error.code() == KafkaError._ALL_BROKERS_DOWN
        if error.code() in _REFUSALS or _REFUSED_BY_TLS.search(error.str()):
            self.refusal = error
        elif error.code() in _BROKEN:
            self._broken = error.str()

    def broken(self) -> str:
        """The end of a connection, the last one, in the client's words; empty: none broke."""
        return self._broken

    def refused(self, held: HeldClient[AdminClient]) -> KafkaError | None:
        """The refused login or certificate of the client, if it met one; asks it for news first."""
        held.client.poll(0)
        return self.refusal

    def __bool__(self) -> bool:
        """True if it lost all brokers, as far as it reported."""
        return self._all_down

    def heard(self) -> None:
        """Note that the client was used: it is not asked for a while."""
        self._heard_ms = self._clock.now_ms()

    def lost(self, client: Consumer | Producer, topic: str) -> bool:
        """True if the client finds no broker; asks it only after ``ALONE_MS`` without an answer.

        That takes a moment where it has brokers, and ``metadata.ANSWER_S`` where it has none.
        """
        if self._clock.now_ms() - self._heard_ms < ALONE_MS:
            return False
        found = finds_brokers(client, topic)
        self.heard()
        return not found
