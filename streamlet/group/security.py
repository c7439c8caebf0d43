"""Security settings, which are given once and reach every client, in kafka-python's words.

Users write them as for librdkafka; only the two clients' spelling differs. What the group's client
cannot do is refused here, at the start, and not met as a failing handshake later.
"""

from __future__ import annotations

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
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.crl.location": "ssl_crlfile",
}
_MECHANISMS = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI"})
_PROTOCOLS = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_OURS = ("security.", "sasl.", "ssl.", "enable.ssl.")


def client_settings(config: Mapping[str, str]) -> dict[str, object]:
    """Translate; keys that are not about security are left out.

    Raises:
        ConfigError: a security setting that the group's client has no word for, or a value it
            does not know; all of them at once.
    """
    settings: dict[str, object] = {}
    problems: list[str] = []
    for key, value in sorted(config.items()):
        if key in _PLAIN:
            settings[_PLAIN[key]] = value
        elif key == "security.protocol":
            settings["security_protocol"] = value.upper()
        elif key == "ssl.endpoint.identification.algorithm":
            settings["ssl_check_hostname"] = value.lower() != "none"
        elif key == "enable.ssl.certificate.verification":
            if value.lower() == "false":
                settings["ssl_context"] = _unverified(config)
        elif key.startswith(_OURS):
            problems.append(f"{key} is not supported for the connection to the group coordinator")
    if settings.get("security_protocol", "PLAINTEXT") not in _PROTOCOLS:
        problems.append(f"security.protocol {config['security.protocol']!r} is not a protocol")
    if settings.get("sasl_mechanism", "PLAIN") not in _MECHANISMS:
        problems.append(
            f"sasl.mechanism {settings['sasl_mechanism']!r} is not supported"
            f" (one of {', '.join(sorted(_MECHANISMS))})"
        )
    if problems:
        raise ConfigError(problems)
    return settings


def _unverified(config: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if "ssl.certificate.location" in config:
        context.load_cert_chain(
            config["ssl.certificate.location"],
            config.get("ssl.key.location"),
            config.get("ssl.key.password"),
        )
    return context
