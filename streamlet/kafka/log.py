"""What a Kafka client says in the log, made bearable."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any


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


#: Where librdkafka's own log goes.
log = logging.getLogger("streamlet.kafka.client")
log.addFilter(Repeats())


def quiet(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Settings every client has: librdkafka's own log goes to ours, not to standard error."""
    return {"client.id": name, "logger": log, "log.connection.close": False, **config}
