"""What a Kafka client says in the log, made bearable."""

from __future__ import annotations

import logging


class Repeats(logging.Filter):
    """Lets librdkafka say once that it cannot connect, not at each of twenty attempts a second."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, str] = {}  # by client

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is not what the client said last."""
        client, _, text = record.getMessage().partition("]")
        if not client.startswith("FAIL ["):
            return True
        text, _, _ = text.partition("(after ")
        repeated = self._last.get(client) == text
        self._last[client] = text
        return not repeated
