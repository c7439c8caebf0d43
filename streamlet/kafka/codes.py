"""The meaning of librdkafka's and the broker's error codes for our clients."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, libversion

from streamlet.clock import SystemClock
from streamlet.config.security import OAUTH_FUNCTION
from streamlet.errors import (
    NO_TOKEN,
    AuthenticationError,
    BrokerError,
    ConfigError,
    UnreachableError,
)
from streamlet.given_files import check_file
from streamlet.kafka.process_limits import check_room
from streamlet.kafka.token_functions import token_function
from streamlet.tls_files import endpoint_context

T = TypeVar("T")

#: Settings of files of TLS that librdkafka reads as it is made.
_TLS_FILES = (
    *("ssl.ca.location", "ssl.certificate.location", "ssl.key.location"),
    *("ssl.keystore.location", "ssl.crl.location"),
)

#: Consumer errors that librdkafka mends by itself; everything else is ours to raise.
PASSING = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._PARTITION_EOF,
        KafkaError._RESOLVE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)

#: Consumer errors that need no action: those, and what is refused to the group that librdkafka
#: looks up and that no consumer ever joins.
HARMLESS = PASSING | {KafkaError.GROUP_AUTHORIZATION_FAILED}

#: There was no answer; the last: the client gave the broker up that was asked.
NO_ANSWER = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._DESTROY_BROKER,
    }
)

#: Answers to a request that went out by old metadata.
STALE_LEADER = frozenset(
    {
        KafkaError._NOENT,  # no leader known
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)

#: Answers of brokers that start, stop, or wait for one another: no action is needed.
NOT_NOW = STALE_LEADER | {
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_CONTROLLER,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
}

#: There is nothing at the offset; the first is what librdkafka makes of the second.
OUT_OF_RANGE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})

#: Of topics that are not listed.
UNTOLD = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED})

NO_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})


def broker_error(error: KafkaException) -> BrokerError:
    """An exception of the client as one of ours."""
    cause = error.args[0]
    kind = UnreachableError if cause.code() in NO_ANSWER | NOT_NOW else BrokerError
    return kind(f"{cause.str()} ({cause.name()})")


def opened(make: Callable[[dict[str, Any]], T], kind: str, config: dict[str, Any]) -> T:
    """A client of this kind, as ``producer``.

    Raises:
        ConfigError: it refuses a value, or values that do not go together; a file of TLS cannot be
            read; or its threads have no room.
        AuthenticationError: it needs a token, and its function gives none.
        BrokerError: it cannot be made for another reason.
    """
    check_room()
    _check_files(config)
    function = token_function(config, str(config.get("bootstrap.servers", "")))
    if function is not None:
        config = {**config, "sasl.mechanism": "OAUTHBEARER", OAUTH_FUNCTION: function}
    try:
        return make(config)
    except KafkaException as error:
        cause = error.args[0]
        if function is not None and function.problem:
            raise AuthenticationError(f"{NO_TOKEN}: {function.problem}") from error
        if function is not None and function.expires_s * 1000 < SystemClock().wall_ms():
            expired = "the one that the function returned has expired"
            raise AuthenticationError(f"{NO_TOKEN}: {expired}") from error
        if cause.code() != KafkaError._INVALID_ARG:
            raise broker_error(error) from error
        raise ConfigError([_refused(kind, cause.str())]) from error
    except (TypeError, ValueError) as error:
        raise ConfigError([_refused(kind, str(error))]) from error


def _check_files(config: Mapping[str, Any]) -> None:
    """Refuse files of TLS that cannot be read to an end: the client would never be made."""
    by_tls = str(config.get("security.protocol", "")).lower().endswith("ssl")
    if config.get("sasl.oauthbearer.method") == "oidc":
        endpoint_context(config)
    for key in _TLS_FILES * by_tls:
        file = config.get(key)
        if file is None or (key.endswith("ca.location") and _is_no_single_file(file)):
            continue
        try:
            check_file(file)
        except OSError as error:
            raise ConfigError([f"{key} = {file}: cannot be read ({error.strerror})"]) from error


def _is_no_single_file(authorities: str) -> bool:
    """True for a folder of authorities, and for librdkafka's word for those of the system."""
    return authorities == "probe" or os.path.isdir(authorities)


def _refused(kind: str, text: str) -> str:
    return f"Kafka's client refuses the settings {kind}.… or those of security: {text}"


def librdkafka_version() -> str:
    """The version of librdkafka that confluent-kafka brings."""
    return str(libversion()[0])
