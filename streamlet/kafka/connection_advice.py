"""The setting to look at behind a refused connection, by the words of either client."""

from __future__ import annotations

import re

#: The words of librdkafka and OpenSSL, and of kafka-python and Python's ssl.
_ADVICE = (
    (
        r"hostname mismatch|IP address mismatch|host ?name",
        "the certificate is of another host than bootstrap.servers, or the broker's advertised "
        "listener, names; ssl.endpoint.identification.algorithm = none does not compare them",
    ),
    (
        r"certificate has expired|CERTIFICATE_EXPIRED",
        "a certificate has expired",
    ),
    (
        r"alert certificate required|CERTIFICATE_REQUIRED|alert handshake failure|"
        r"ALERT_HANDSHAKE_FAILURE|alert bad certificate|ALERT_BAD_CERTIFICATE",
        "the broker wants a certificate of the client: set ssl.certificate.location and "
        "ssl.key.location, or ssl.keystore.location",
    ),
    (
        r"alert (unknown ca|certificate unknown|unsupported certificate|access denied)|"
        r"ALERT_(UNKNOWN_CA|CERTIFICATE_UNKNOWN|UNSUPPORTED_CERTIFICATE|ACCESS_DENIED)",
        "the broker refuses the client's certificate: it needs one of a CA that the broker trusts "
        "in ssl.certificate.location or ssl.keystore.location",
    ),
    (
        r"certificate verify failed|CERTIFICATE_VERIFY_FAILED|self.signed",
        "the broker's certificate is of a CA that is not trusted: set ssl.ca.location to it",
    ),
    (
        r"alert protocol version|UNSUPPORTED_PROTOCOL|ALERT_PROTOCOL_VERSION|no shared cipher",
        "the broker speaks no TLS that is spoken here, 1.2 or 1.3",
    ),
    (
        r"current SASL state|IllegalSaslState",
        "the listener asks for no login: set security.protocol = plaintext, or ssl in place of "
        "sasl_ssl",
    ),
    (
        r"Unsupported SASL mechanism|UnsupportedSaslMechanism",
        "the listener does not take this sasl.mechanism",
    ),
    (
        r"OAUTHBEARER|invalid_token|no token to log in with",
        "look at sasl.oauthbearer.… and at what the token endpoint says",
    ),
    (
        r"Authentication failed|SASL|Sasl",
        "look at sasl.mechanism, sasl.username and sasl.password",
    ),
)
_KNOWN = tuple((re.compile(words), advice) for words, advice in _ADVICE)


def advice_for(text: str) -> str:
    """The setting to look at where a connection was refused with this text."""
    known = (advice for words, advice in _KNOWN if words.search(text))
    return next(known, "look at security.protocol, sasl.… and ssl.…")
