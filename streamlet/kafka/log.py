"""Filters noise out of the Kafka clients' logs."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from streamlet.kafka.outage_lines import outage_lines
from streamlet.logs import get_logger

#: What tells a client from one before it of the same name.
_NUMBER = re.compile(r"#(?:producer|consumer)-\d+")


#: What librdkafka says of a producer that ends, or looks for its epoch: it raises an error as well,
#: of which streamlet says what becomes.
_RAISED = ("FATAL [", "TXNERR [")
_LOOKING, _AGAIN = "GETPID [", "retrying"


class Repeats(logging.Filter):
    """Lets librdkafka say once that it cannot connect, not at each of twenty attempts a second.

    Nor does a client say it again that took the place of one that lost its brokers. What is raised
    or tried again all the same is for debugging, however grave librdkafka thinks it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, str] = {}  # by client and thread

    def filter(self, record: logging.LogRecord) -> bool:
        """False for a repetition of the last message."""
        if not log.isEnabledFor(logging.DEBUG) and outage_lines.takes(record):
            return False
        message = record.getMessage()
        if message.startswith(_RAISED) or (
            message.startswith(_LOOKING) and message.endswith(_AGAIN)
        ):
            record.levelno, record.levelname = logging.DEBUG, "DEBUG"
            return log.isEnabledFor(logging.DEBUG)
        who, _, text = message.partition("]: ")
        if not who.startswith("FAIL ["):
            return True
        who, (text, _, _) = _NUMBER.sub("", who), text.partition("(after ")
        repeated = self._last.get(who) == text
        self._last[who] = text
        return not repeated


#: What librdkafka says, at debug level, of records that it takes for delivered though the broker
#: never said so: a later batch of their partition was.
_ASSUMED = "IMPLICITACK"


class Deliveries:
    """A producer's log that notes where librdkafka only assumes that records were delivered.

    A broker that refused a producer's first batch to a partition, which it did not lead yet, takes
    the second, of a sequence it has not seen the beginning of. Then the first counts as delivered
    for librdkafka, up to 2.16 at least, and is in no log. That it happened is said nowhere else.
    A partition that was just made does that, and so may a change of leaders; therefore
    ``KafkaAdmin.create_topics`` waits until offsets can be had. The log has a dozen lines for each
    partition.
    """

    def __init__(self, debug: str | None) -> None:
        #: For ``debug``: what was asked for, and what we listen to.
        self.contexts = f"{debug},eos" if debug else "eos"
        self._all = bool(debug)
        self._assumed: list[str] = []

    def take(self) -> list[str]:
        """The assumed failures since the last call, in librdkafka's words."""
        taken, self._assumed = self._assumed, []
        return taken

    def log(self, level: int, message: str, *args: object) -> None:
        """Log like ``logging.Logger.log``; called amid ``poll`` and ``flush``."""
        if args and args[0] == _ASSUMED:
            self._assumed.append(str(args[-1]).rpartition(": ")[2])
        if self._all or level > logging.DEBUG:
            log.log(level, message, *args)


#: Where librdkafka's own log goes.
log = get_logger("streamlet.kafka.client")
log.addFilter(Repeats())


def quiet(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Settings every client has: librdkafka's own log goes to ours, not to standard error."""
    return {
        "client.id": name,
        "logger": log,
        "log.connection.close": False,
        **config,
    }
