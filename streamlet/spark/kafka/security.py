"""Security settings in the words of Java's Kafka client, which is the one inside Spark.

Ours are librdkafka's; most are the same words, some say the same in another way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamlet.errors import ConfigError

_LOGINS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_SAME = frozenset({"ssl.key.password", "ssl.keystore.location", "ssl.keystore.password"})


def java_settings(security: Mapping[str, Any]) -> dict[str, str]:
    """The security settings in the words of a Java client.

    Raises:
        ConfigError: settings it has no words for; each is named.
    """
    left = dict(security)
    found: dict[str, str] = {}
    protocol = left.pop("security.protocol", None)
    if protocol is not None:
        found["security.protocol"] = str(protocol).upper()
    if (authority := left.pop("ssl.ca.location", None)) is not None:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority)}
    if (algorithm := left.pop("ssl.endpoint.identification.algorithm", None)) is not None:
        found["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    found |= _sasl(left)
    found |= {name: str(left.pop(name)) for name in sorted(_SAME & left.keys())}
    if left:
        raise ConfigError(
            [
                f"{name}: Spark's Kafka client is Java's and has no such setting; pass "
                "sl.spark.start(kafka=…) its own words, or run natively"
                for name in sorted(left)
            ]
        )
    return found


def check_clients(clients: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse settings for clients of librdkafka where Java's take their place.

    Raises:
        ConfigError: naming each.
    """
    given = sorted(f"{kind}.{name}" for kind, settings in clients.items() for name in settings)
    if given:
        raise ConfigError(
            [
                f"{name}: does not reach Java's Kafka client; take connector='python', or say it "
                "in Java's words in sl.spark.start(kafka=…)"
                for name in given
            ]
        )


def _sasl(left: dict[str, Any]) -> dict[str, str]:
    """Takes what is of SASL with a name and a password."""
    mechanism = left.pop("sasl.mechanisms", None) or left.get("sasl.mechanism")
    login = _LOGINS.get(str(mechanism))
    if login is None or "sasl.username" not in left:
        return {}
    left.pop("sasl.mechanism", None)
    name, password = (_quoted(str(left.pop(f"sasl.{it}", ""))) for it in ("username", "password"))
    return {
        "sasl.mechanism": str(mechanism),
        "sasl.jaas.config": f"{login} required username={name} password={password};",
    }


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
