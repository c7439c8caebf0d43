"""Opens clients of the extension: their settings, and the functions that get their events."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from streamlet.config.security import OAUTH_FUNCTION
from streamlet.kafka.log import log
from streamlet.kafka.native.library import native
from streamlet.kafka.native.tokens import keep_logged_in
from streamlet.kafka.token_functions import TokenFunction

#: What the extension tells: a line of the log, an error of the client, its end, statistics, a
#: record that is not delivered.
_LOG, _ERROR, _FATAL, _STATISTICS, _FAILED = range(5)

#: Levels of a log by librdkafka's, which are those of syslog.
_LEVELS = (
    *(logging.CRITICAL, logging.CRITICAL, logging.CRITICAL, logging.ERROR),
    *(logging.WARNING, logging.INFO, logging.INFO, logging.DEBUG),
)

#: Properties that are confluent-kafka's own, and not done here.
_PYTHON_ONLY = (
    *("throttle_cb", "on_commit", "default.topic.config"),
    *("plugin.library.paths", "sasl.oauthbearer.metadata.authentication.type"),
)


def unsupported(config: Mapping[str, Any]) -> str | None:
    """The first setting that only confluent-kafka's client can do."""
    return next((name for name in _PYTHON_ONLY if config.get(name) is not None), None)


class ClientEvents:
    """Passes a client's events on, amid its calls. It knows nothing of who has the client.

    Args:
        config: settings, among them ``logger``, ``error_cb``, ``stats_cb`` and ``on_delivery``.

    Raises:
        TypeError: one of these cannot be called.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.name = ""
        self._logger: Any = config.get("logger", log)
        self._on_error = _function(config, "error_cb")
        self._on_statistics = _function(config, "stats_cb")
        self._on_delivery: Callable[..., Any] | None = _function(config, "on_delivery")

    def __call__(self, kind: int, code: int, where: str | None, text: str) -> None:
        """Log one event, raise it, or call the function that the settings have for its kind."""
        if kind == _LOG:
            self._logger.log(_LEVELS[code & 7], "%s [%s] %s", where, self.name, text)
        elif kind == _FATAL:
            raise KafkaException(KafkaError(code, text, fatal=True))
        elif kind == _ERROR and self._on_error is not None:
            self._on_error(KafkaError(code, text))
        elif kind == _STATISTICS and self._on_statistics is not None:
            self._on_statistics(text)
        elif kind == _FAILED and self._on_delivery is not None:
            error = KafkaError(code, text)
            self._on_delivery(error, Message(topic=where, error=error))


def opened_client(kind: int, config: Mapping[str, Any]) -> Any:
    """A client of the extension, of this kind, whose events go where the settings say.

    Raises:
        KafkaException: a setting is refused, or there is no token to log in with.
        TypeError: what is to be called cannot be.
    """
    events = ClientEvents(config)
    get_tokens = _function(config, OAUTH_FUNCTION)
    module = native().module
    assert module is not None, "native() says why"
    client = module.Client(kind, plain_settings(config), events)
    events.name = client.name()
    if get_tokens is not None:
        function = (
            get_tokens if isinstance(get_tokens, TokenFunction) else TokenFunction(get_tokens)
        )
        keep_logged_in(client, function, str(config.get("sasl.oauthbearer.config", "")))
    return client


def plain_settings(config: Mapping[str, Any]) -> dict[str, str]:
    """The settings for librdkafka, as text; ``debug`` comes first, so that it tells of the others.

    Whose value is None is left as it is.
    """
    own = {name: value for name, value in config.items() if name not in _HEARD}
    ordered = {"debug": own.pop("debug", None), **own}
    return {str(name): str(value) for name, value in ordered.items() if value is not None}


#: Functions, and that only failed deliveries are to be told: without all of them nothing ends the
#: wait of a poll for room. The extension tells failures only.
_HEARD = frozenset(
    {
        *("logger", "error_cb", "stats_cb", "on_delivery", OAUTH_FUNCTION),
        "delivery.report.only.error",
    }
)


def _function(config: Mapping[str, Any], name: str) -> Callable[[Any], Any] | None:
    found = config.get(name)
    if found is not None and not callable(found):
        raise TypeError(f"expected {name} property as a callable function")
    return found
