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


#: What librdkafka says, at debug level, of records that it takes for delivered though the broker
#: never said so: a later batch of their partition was.
_ASSUMED = "IMPLICITACK"


class Deliveries:
    """A producer's log that notes where librdkafka only assumes that records were delivered.

    A broker that refused a producer's first batch to a partition, which it did not lead yet, takes
    the second, of a sequence it has not seen the beginning of. Then the first counts as delivered
    for librdkafka, up to 2.16 at least, and is in no log. That it happened is said nowhere else.
    """

    def __init__(self, debug: str | None) -> None:
        #: For ``debug``: what was asked for, and what we listen to.
        self.contexts = f"{debug},eos" if debug else "eos"
        self._all = bool(debug)
        self._assumed: list[str] = []

    def take(self) -> list[str]:
        """What was assumed since the last call, in librdkafka's words."""
        taken, self._assumed = self._assumed, []
        return taken

    def log(self, level: int, message: str, *args: object) -> None:
        """As ``logging.Logger.log``; called amid ``poll`` and ``flush``."""
        if args and args[0] == _ASSUMED:
            self._assumed.append(str(args[-1]).rpartition(": ")[2])
        if self._all or level > logging.DEBUG:
            log.log(level, message, *args)


#: Where librdkafka's own log goes.
log = logging.getLogger("streamlet.kafka.client")
log.addFilter(Repeats())


#: How often a client looks anew where its partitions lie, ms. It should look by itself when it lost
#: its brokers, but does not always; left alone it then reads nothing until its next look, which
#: librdkafka takes every five minutes.
REFRESH_MS = 10_000


def quiet(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Settings every client has: librdkafka's own log goes to ours, not to standard error."""
    return {
        "client.id": name,
        "logger": log,
        "log.connection.close": False,
        "topic.metadata.refresh.interval.ms": REFRESH_MS,
        **config,
    }
