"""The consumer over the extension: a ``KafkaSource`` whose records come in columns."""

from __future__ import annotations

from typing import Any

from streamlet.kafka.native.consumer import NativeConsumer
from streamlet.kafka.poll_bound import Polled
from streamlet.kafka.source import KafkaSource


class NativeSource(KafkaSource):
    """A ``KafkaSource`` without an object per record; all else is done as there."""

    def _client(self, config: dict[str, Any]) -> Any:
        return NativeConsumer(config)

    def _read(self, most: int, timeout_ms: int, idle_ms: int) -> Polled:
        consumer: Any = self._consumer
        found: Polled = consumer.columns(most, timeout_ms, idle_ms, self._with_headers)
        return found
