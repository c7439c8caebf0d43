"""Settings of a client for librdkafka itself, and who hears what it tells."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from streamlet.kafka.log import log

#: What the extension tells: a line of the log, an error of the client, its end, statistics.
_LOG, _ERROR, _FATAL, _STATISTICS = range(4)

#: Levels of a log by librdkafka's, which are those of syslog.
_LEVELS = (
    *(logging.CRITICAL, logging.CRITICAL, logging.CRITICAL, logging.ERROR),
    *(logging.WARNING, logging.INFO, logging.INFO, logging.DEBUG),
)

#: Properties that are confluent-kafka's own, and not done here.
_PYTHON_ONLY = (
    *("oauth_cb", "throttle_cb", "on_commit", "on_delivery", "default.topic.config"),
    *("plugin.library.paths", "sasl.oauthbearer.metadata.authentication.type"),
)


def unsupported(config: Mapping[str, Any]) -> str | None:
    """The first setting that only confluent-kafka's client can do."""
    return next((name for name in _PYTHON_ONLY if config.get(name) is not None), None)


class Told:
    """Hears what a client tells, amid its calls. It knows nothing of who has the client.

    Args:
        config: settings, among them ``logger``, ``error_cb`` and ``stats_cb``.

    Raises:
        TypeError: one of these cannot be called.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.name = ""
        self._logger: Any = config.get("logger", log)
        self._on_error = _function(config, "error_cb")
        self._on_statistics = _function(config, "stats_cb")

    def __call__(self, kind: int, code: int, where: str | None, text: str) -> None:
        """Take one thing that was told."""
        if kind == _LOG:
            self._logger.log(_LEVELS[code & 7], "%s [%s] %s", where, self.name, text)
        elif kind == _FATAL:
            raise KafkaException(KafkaError(code, text, fatal=True))
        elif kind == _ERROR and self._on_error is not None:
            self._on_error(KafkaError(code, text))
        elif kind == _STATISTICS and self._on_statistics is not None:
            self._on_statistics(text)


def plain_settings(config: Mapping[str, Any]) -> dict[str, str]:
    """The settings for librdkafka, as text; ``debug`` comes first, so that it tells of the others.

    Whose value is None is left as it is.
    """
    own = {name: value for name, value in config.items() if name not in _HEARD}
    ordered = {"debug": own.pop("debug", None), **own}
    return {str(name): str(value) for name, value in ordered.items() if value is not None}


_HEARD = frozenset({"logger", "error_cb", "stats_cb"})


def _function(config: Mapping[str, Any], name: str) -> Callable[[Any], Any] | None:
    found = config.get(name)
    if found is not None and not callable(found):
        raise TypeError(f"expected {name} property as a callable function")
    return found
