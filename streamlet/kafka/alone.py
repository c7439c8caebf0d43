"""Clients that lost all their brokers, perhaps for good.

A broker that goes down answers metadata last with no broker at all. librdkafka, up to 2.16 at
least, then drops the last one it knew, and where the connection breaks in that moment it never
begins anew with the bootstrap servers (its issue 5301). So another client takes the place of one
that said that all its brokers are down, as soon as nothing is lost by it.
"""

from __future__ import annotations

from confluent_kafka import KafkaError

from streamlet.clock import Clock, SystemClock

#: How long such a client may read nothing before another takes its place, ms.
ALONE_MS = 5_000


class Alone:
    """One client's ``error_cb``. It knows nothing of who has the client, which it must not keep."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._since_ms: int | None = None

    def __call__(self, error: KafkaError) -> None:
        """Take an error that concerns the whole client."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN and self._since_ms is None:
            self._since_ms = self._clock.now_ms()

    def __bool__(self) -> bool:
        """Whether it is alone, as far as it said."""
        return self._since_ms is not None

    @property
    def for_long(self) -> bool:
        """Whether it said so, and nothing was heard for ``ALONE_MS``."""
        return self._since_ms is not None and self._clock.now_ms() - self._since_ms >= ALONE_MS

    def heard(self) -> None:
        """There was something to read: it has brokers, or had that in hand before it lost them."""
        if self._since_ms is not None:
            self._since_ms = self._clock.now_ms()
