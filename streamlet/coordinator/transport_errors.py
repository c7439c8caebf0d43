"""kafka-python's errors as kinds of failures of ours, with texts for people."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

from streamlet.coordinator.events import FailureKind
from streamlet.coordinator.ports import TransportError
from streamlet.coordinator.security import refused_by_tls, without_requests
from streamlet.kafka.connection_advice import advice_for

with warnings.catch_warnings():
    # As in ``transport``: the package reads its schemas by a call that Python calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.errors as kafka_errors
    from kafka.net import KafkaConnectionManager
    from kafka.protocol import consumer

#: ``require_stable``, which came last of all we rely on: with Kafka 2.5.
_NEWEST_NEEDED = consumer.OffsetFetchRequest(min_version=7)


def hush() -> None:
    """Silence kafka-python's log, since failed attempts are raised or retried, and logged, here."""
    for name in ("kafka.net", "kafka.cluster", "kafka.protocol.parser"):
        if logging.getLogger(name).level == logging.NOTSET:
            logging.getLogger(name).setLevel(logging.CRITICAL)
    for name in ("kafka.protocol.parser", "kafka.net.connection"):
        logging.getLogger(name).addFilter(without_requests)


class BrokerConnections(KafkaConnectionManager):  # type: ignore[misc]
    """Makes connections that end with the first answer that cannot be read.

    kafka-python ends them for some errors of answers. After another one nothing reads the
    connection any more, and each request on it waits until its time is over, SyncGroup for minutes.
    """

    def get_connection(self, *where: Any, **how: Any) -> Any:
        """Make a connection, or find it."""
        found = super().get_connection(*where, **how)
        if "data_received" not in vars(found):
            found.data_received = _ends_where_unreadable(found.data_received)
        return found


def _ends_where_unreadable(received: Callable[[bytes], None]) -> Callable[[bytes], None]:
    def take(data: bytes) -> None:
        try:
            received(data)
        except kafka_errors.KafkaError:
            raise
        except Exception as error:
            raise kafka_errors.KafkaProtocolError(f"an answer cannot be read: {error}") from error

    return take


_KINDS = {
    kafka_errors.KafkaTimeoutError: FailureKind.TIMEOUT,
    kafka_errors.RequestTimedOutError: FailureKind.TIMEOUT,
    kafka_errors.SaslAuthenticationFailedError: FailureKind.AUTHENTICATION,
    kafka_errors.UnsupportedSaslMechanismError: FailureKind.AUTHENTICATION,
    kafka_errors.IllegalSaslStateError: FailureKind.AUTHENTICATION,
    kafka_errors.AuthorizationError: FailureKind.AUTHENTICATION,
    kafka_errors.IncompatibleBrokerVersion: FailureKind.UNSUPPORTED,
    kafka_errors.UnsupportedVersionError: FailureKind.UNSUPPORTED,
}


def failure_kind(error: kafka_errors.KafkaError) -> FailureKind:
    """The kind of failure that an error of the client stands for."""
    for foreign, kind in _KINDS.items():
        if isinstance(error, foreign):
            return kind
    refused = refused_by_tls(str(*error.args[:1]))
    return FailureKind.AUTHENTICATION if refused else FailureKind.DISCONNECTED


def failure_text(error: kafka_errors.KafkaError) -> str:
    """The text of such an error, for people."""
    if failure_kind(error) is FailureKind.UNSUPPORTED:
        return f"UNSUPPORTED_VERSION, the broker is too old, Kafka 2.5 is needed: {error}"
    text = str(error.args[0]) if error.args else type(error).__name__
    if isinstance(error, kafka_errors.AuthorizationError):
        return text
    refused = failure_kind(error) is FailureKind.AUTHENTICATION
    return f"{text}; {advice_for(text)}" if refused else text


def refuse_old(versions: Any) -> None:
    """Refuse a broker that is too old, whatever is asked of it: it may know what was asked.

    Else a command would say of such a broker that it has no such application. ``versions`` are
    those of the broker that answered; None: they are not known.

    Raises:
        TransportError: it is too old.
    """
    try:
        if versions is not None:
            versions.api_version(_NEWEST_NEEDED)
    except kafka_errors.IncompatibleBrokerVersion as error:
        raise TransportError(failure_kind(error), failure_text(error), sent=False) from error
