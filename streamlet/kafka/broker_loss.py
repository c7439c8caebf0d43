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

from confluent_kafka import Consumer, KafkaError, Producer

from streamlet.clock import Clock, SystemClock
from streamlet.kafka.metadata import finds_brokers

#: How long nothing may be heard of a client before it is asked, ms.
ALONE_MS = 5_000


class BrokerLossDetector:
    """One client's ``error_cb``. It knows nothing of who has the client, which it must not keep."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._said = False
        self._heard_ms = self._clock.now_ms()

    def __call__(self, error: KafkaError) -> None:
        """Take an error that concerns the whole client."""
        self._said |= error.code() == KafkaError._ALL_BROKERS_DOWN

    def __bool__(self) -> bool:
        """True if it lost all brokers, as far as it reported."""
        return self._said

    def heard(self) -> None:
        """Note that the client was used: it is not asked for a while."""
        self._heard_ms = self._clock.now_ms()

    def lost(self, client: Consumer | Producer, topic: str) -> bool:
        """True if it finds no broker; it is asked where nothing was heard for ``ALONE_MS``.

        That takes a moment where it has brokers, and ``metadata.ANSWER_S`` where it has none.
        """
        if self._clock.now_ms() - self._heard_ms < ALONE_MS:
            return False
        found = finds_brokers(client, topic)
        self.heard()
        return not found
