"""Security settings of the connections to a coordinator, in kafka-python's words.

They come in librdkafka's words, checked: ``streamlet.config.security`` is the table of both. What
has to do with files is refused here, at the start, and not met as a failing handshake later.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from streamlet.clock import Clock, SystemClock
from streamlet.config.security import MSK_IAM
from streamlet.coordinator.tls import TlsProblem, tls_context
from streamlet.coordinator.tokens import TokenProvider, fetch_from
from streamlet.errors import ConfigError
from streamlet.kafka.token_functions import token_function
from streamlet.tls_files import endpoint_context

#: librdkafka's words to kafka-python's, where the value needs no change.
_PLAIN = {
    "client.dns.lookup": "client_dns_lookup",
    "client.id": "client_id",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
}
#: OpenSSL's name for a certificate or a protocol that one of both sides refuses.
_TLS_REFUSAL = re.compile(
    r"(?:Handshake failed: )?"
    r"\[SSL: (CERTIFICATE_VERIFY_FAILED|UNSUPPORTED_PROTOCOL|[A-Z0-9]+_ALERT_[A-Z_]+)\]"
)
#: Alerts of a broker that is in trouble itself, or that goes away.
_PASSING_ALERTS = frozenset({"TLSV1_ALERT_INTERNAL_ERROR", "TLSV1_ALERT_USER_CANCELLED"})


def refused_by_tls(text: str) -> bool:
    """True if a connection ended since one side refuses the other's certificate or protocol.

    Args:
        text: kafka-python's, which is all it leaves of OpenSSL's error. With TLS 1.3 the broker's
            alert comes behind the handshake, so it does not begin with "Handshake failed".
    """
    found = _TLS_REFUSAL.match(text)
    return found is not None and found[1] not in _PASSING_ALERTS


def without_requests(record: logging.LogRecord) -> bool:
    """Filter for kafka-python's loggers of requests and their bytes, which contain passwords."""
    return record.levelno > logging.DEBUG


def client_settings(
    config: Mapping[str, Any], bootstrap_servers: str = "", clock: Clock | None = None
) -> dict[str, Any]:
    """The settings of a connection by the client's names, from those of librdkafka.

    Args:
        config: the settings, as ``Settings.client_config("group")`` has them.
        bootstrap_servers: for tokens of AWS, which are for a region.
        clock: for tests.

    Raises:
        ConfigError: a file that cannot be read, or is not what it should be; or there is no way to
            get tokens of AWS.
    """
    settings: dict[str, Any] = {word: config[key] for key, word in _PLAIN.items() if key in config}
    protocol = str(config.get("security.protocol", "plaintext")).upper()
    if protocol != "PLAINTEXT":
        settings["security_protocol"] = protocol
    if protocol.endswith("SSL"):
        try:
            settings["ssl_context"] = tls_context(config)
        except TlsProblem as problem:
            raise ConfigError([str(problem)]) from problem
    if config.get("sasl.mechanism") in ("OAUTHBEARER", MSK_IAM):
        settings["sasl_mechanism"] = "OAUTHBEARER"
        function, own = token_function(config, bootstrap_servers), clock or SystemClock()
        if function is None:
            endpoint_context(config)  # its files are refused now, and not with the first token
        provider = TokenProvider(fetch_from(config, function, own), own)
        settings["sasl_oauth_token_provider"] = provider
    return settings
