"""Security settings, which are given once and reach every client, in kafka-python's words.

Users write them as for librdkafka; only the two clients' spelling differs. What the group's client
cannot do is refused here, at the start, and not met as a failing handshake later.
"""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Mapping

from streamlet.errors import ConfigError

#: Ours to kafka-python's, where the value needs no change.
_PLAIN = {
    "client.id": "client_id",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
}
_TLS = frozenset(
    {
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.crl.location",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
    }
)
_MECHANISMS = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI"})
_PROTOCOLS = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
#: As librdkafka has it, in any case.
_FALSE = frozenset({"false", "f", "0"})
_OURS = ("security.", "sasl.", "ssl.", "enable.ssl.")
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


def client_settings(config: Mapping[str, object]) -> dict[str, object]:
    """Translate; keys that are not about security are left out.

    Raises:
        ConfigError: a security setting that the group's client has no word for, a value it does
            not know, or a file that cannot be read; all of them at once.
    """
    settings: dict[str, object] = {}
    problems: list[str] = []
    given = {key: str(value) for key, value in sorted(config.items())}
    for key, value in given.items():
        if key in _PLAIN:
            settings[_PLAIN[key]] = value
        elif key == "security.protocol":
            settings["security_protocol"] = value.upper()
        elif key.startswith(_OURS) and key not in _TLS:
            problems.append(f"{key} is not supported for the connection to the group coordinator")
    protocol = str(settings.get("security_protocol", "PLAINTEXT"))
    if protocol not in _PROTOCOLS:
        problems.append(f"security.protocol {given['security.protocol']!r} is not a protocol")
    mechanism = settings.get("sasl_mechanism", "PLAIN")
    if mechanism not in _MECHANISMS:
        known = ", ".join(sorted(_MECHANISMS))
        problems.append(f"sasl.mechanism {mechanism!r} is not supported (one of {known})")
    if protocol.endswith("SSL"):
        try:
            settings["ssl_context"] = _context(given)
        except OSError as error:  # a missing file, or one that is no certificate
            problems.append(f"the files that ssl.*.location name: {error}")
    if problems:
        raise ConfigError(problems)
    return settings


def _context(config: Mapping[str, str]) -> ssl.SSLContext:
    """The SSL context that kafka-python would make of the settings, but with sockets of ours."""
    context = ssl.create_default_context(cafile=config.get("ssl.ca.location"))
    verify = config.get("enable.ssl.certificate.verification", "true").lower() not in _FALSE
    algorithm = config.get("ssl.endpoint.identification.algorithm", "https").lower()
    context.check_hostname = verify and algorithm != "none"
    context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
    if "ssl.crl.location" in config:
        context.load_verify_locations(config["ssl.crl.location"])
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if "ssl.certificate.location" in config:
        context.load_cert_chain(
            config["ssl.certificate.location"],
            config.get("ssl.key.location"),
            config.get("ssl.key.password"),
        )
    return context
