"""The table of security settings: for each, its values and what both of Kafka's clients make of it.

Settings are given once, in librdkafka's words or in those of Java's clients, and reach consumers,
producers and admin clients (librdkafka) and the connection to the group's coordinator
(kafka-python). ``resolve`` makes of what was given the words of librdkafka, of which the table has
all, and finds what cannot be before anything connects.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

import attrs

from streamlet.config import java_security
from streamlet.config.values import ValueKind, boolean, choice, text

#: A function that gives tokens, beside the text of all other keys.
OAUTH_FUNCTION = "oauth_cb"
#: Tokens signed with credentials of AWS, which neither client does by itself.
MSK_IAM = "AWS_MSK_IAM"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", MSK_IAM, "GSSAPI")

_ONE_OF = ", ".join(MECHANISMS[:-1]) + f" or {MECHANISMS[-1]}"
_BY_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_OIDC = tuple(
    f"sasl.oauthbearer.{name}" for name in ("token.endpoint.url", "client.id", "client.secret")
)

_PREFIXES = ("security.", "sasl.", "ssl.", "https.ca.", "enable.ssl.", "enable.sasl.")
_CONTEXT = "`ssl_context`"
_TOKENS = "`sasl_oauth_token_provider`"
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
#: Characters of a line of PEM.
_PEM_LINE = 64


@attrs.frozen
class SecuritySetting:
    """A row of the table.

    Attributes:
        kind: the values it may have.
        group: what the connection to the group's coordinator makes of it, in kafka-python's words.
        doc: what it is.
        secret: True if its value is never shown.
        refused: why it cannot be used, where one of the clients has nothing for it.
    """

    kind: ValueKind[Any]
    group: str
    doc: str
    secret: bool = False
    refused: str = ""

    @property
    def shown(self) -> str:
        """The kind of its values, for people."""
        return f"{'secret ' * self.secret}{self.kind.description}"


def _mechanism() -> ValueKind[str]:
    """The name of a mechanism, in Kafka's spelling."""
    lower = choice(*(name.lower() for name in MECHANISMS))

    def parse(value: object) -> str:
        try:
            return str(lower.parse(value)).upper()
        except ValueError:
            raise ValueError(f"expected {' or '.join(MECHANISMS)}") from None

    return ValueKind(" or ".join(f"`{name}`" for name in MECHANISMS), parse)


def pem() -> ValueKind[str]:
    r"""PEM; on one line, or with ``\n`` for its line ends, it is taken as well."""

    def parse(value: object) -> str:
        given = str(value).replace("\\n", "\n")
        blocks = [_block(*found) for found in _BLOCK.findall(given)]
        if not blocks:
            raise ValueError("expected PEM, which begins with -----BEGIN")
        return "".join(blocks)

    return ValueKind("PEM", parse)


def _block(label: str, body: str) -> str:
    if ":" not in body:  # else it has headers, whose lines mean something
        packed = "".join(body.split())
        lines = [packed[at : at + _PEM_LINE] for at in range(0, len(packed), _PEM_LINE)]
        body = "\n" + "\n".join(lines) + "\n"
    return f"-----BEGIN {label}-----{body}-----END {label}-----\n"


def _file() -> ValueKind[str]:
    def parse(value: object) -> str:
        if not str(value).strip():
            raise ValueError("expected a path")
        return str(value).strip()

    return ValueKind("a path", parse)


def _url() -> ValueKind[str]:
    def parse(value: object) -> str:
        given = str(value).strip()
        if not re.match(r"https?://[^/\s]", given):
            raise ValueError("expected http:// or https://")
        return given

    return ValueKind("a URL", parse)


def _credential() -> ValueKind[str]:
    """Text that is taken as it is, such as a password, which may begin with a space."""

    def parse(value: object) -> str:
        if re.fullmatch(r"\s*\{\{.*\}\}\s*", str(value)):
            raise ValueError("it is still the placeholder of a template")
        return str(value)

    return ValueKind("text", parse)


def _checked_names() -> ValueKind[str]:
    """``ssl.endpoint.identification.algorithm``: empty is none, as for Java's clients."""
    named = choice("https", "none")
    return ValueKind(
        named.description + ", or empty for `none`",
        lambda value: named.parse(str(value).strip() or "none"),
    )


def _truth() -> ValueKind[str]:
    """True or false as text, which both clients understand; librdkafka also takes t and f."""
    flag, letters = boolean(), {"t": "true", "f": "false"}

    def parse(value: object) -> str:
        letter = letters.get(str(value).strip().lower())
        return letter or str(flag.parse(value)).lower()

    return ValueKind(flag.description, parse)


_GIVE_FUNCTION = "give a function that gets tokens, App(oauth=function)"
_NO_WORD = "the connection to the group coordinator has nothing for it"
_KERBEROS = (
    f"{_NO_WORD}: get the ticket beside the application, with kinit or by KRB5_CLIENT_KTNAME"
)

#: Every key, in the order of the page.
SETTINGS: Mapping[str, SecuritySetting] = {
    "security.protocol": SecuritySetting(
        choice("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"),
        "`security_protocol`",
        "How the listener that `bootstrap.servers` names is spoken to; any case.",
    ),
    "sasl.mechanism": SecuritySetting(
        _mechanism(), "`sasl_mechanism`", "How to log in; also `sasl.mechanisms`."
    ),
    "sasl.username": SecuritySetting(
        _credential(), "`sasl_plain_username`", "For PLAIN and SCRAM."
    ),
    "sasl.password": SecuritySetting(
        _credential(), "`sasl_plain_password`", "For PLAIN and SCRAM.", secret=True
    ),
    "sasl.kerberos.service.name": SecuritySetting(
        text(), "`sasl_kerberos_service_name`", "For GSSAPI."
    ),
    "sasl.oauthbearer.method": SecuritySetting(
        choice("default", "oidc"),
        _TOKENS,
        "`oidc` follows from a token endpoint.",
    ),
    "sasl.oauthbearer.token.endpoint.url": SecuritySetting(
        _url(), _TOKENS, "The server that gives tokens for client credentials."
    ),
    "sasl.oauthbearer.client.id": SecuritySetting(
        _credential(),
        _TOKENS,
        "For the token endpoint; also `sasl.oauthbearer.client.credentials.client.id`.",
    ),
    "sasl.oauthbearer.client.secret": SecuritySetting(
        _credential(),
        _TOKENS,
        "For the token endpoint; also `sasl.oauthbearer.client.credentials.client.secret`.",
        secret=True,
    ),
    "sasl.oauthbearer.scope": SecuritySetting(text(), _TOKENS, "For the token endpoint."),
    "sasl.oauthbearer.extensions": SecuritySetting(
        text(),
        _TOKENS,
        "`name=value` joined by commas, sent with the token: of Confluent Cloud `logicalCluster` "
        "and `identityPoolId`.",
    ),
    "sasl.oauthbearer.sub.claim.name": SecuritySetting(
        text(), "not needed", "The claim that has the name; librdkafka wants one, `sub` by default."
    ),
    "https.ca.location": SecuritySetting(
        _file(), _TOKENS, "CAs of the token endpoint, if it has a certificate of its own."
    ),
    "https.ca.pem": SecuritySetting(pem(), _TOKENS, "The same, in place."),
    "sasl.oauthbearer.config": SecuritySetting(
        _credential(), _TOKENS, "The argument of `App(oauth=function)`."
    ),
    "ssl.ca.location": SecuritySetting(
        _file(), _CONTEXT, "CAs of the brokers: a file, or a folder as `c_rehash` makes it."
    ),
    "ssl.ca.pem": SecuritySetting(pem(), _CONTEXT, "The same, in place."),
    "ssl.certificate.location": SecuritySetting(
        _file(), _CONTEXT, "The client's certificate, with what is between it and the CA."
    ),
    "ssl.certificate.pem": SecuritySetting(pem(), _CONTEXT, "The same, in place."),
    "ssl.key.location": SecuritySetting(_file(), _CONTEXT, "The client's private key."),
    "ssl.key.pem": SecuritySetting(pem(), _CONTEXT, "The same, in place.", secret=True),
    "ssl.key.password": SecuritySetting(
        _credential(), _CONTEXT, "Of the private key.", secret=True
    ),
    "ssl.keystore.location": SecuritySetting(
        _file(),
        _CONTEXT,
        "Certificate and key of the client as PKCS#12; needs the extra `pkcs12`.",
    ),
    "ssl.keystore.password": SecuritySetting(
        _credential(), _CONTEXT, "Of the PKCS#12 file.", secret=True
    ),
    "ssl.crl.location": SecuritySetting(_file(), _CONTEXT, "Revoked certificates."),
    "ssl.cipher.suites": SecuritySetting(
        text(), _CONTEXT, "For TLS 1.2, in OpenSSL's words, joined by `:`."
    ),
    "ssl.endpoint.identification.algorithm": SecuritySetting(
        _checked_names(), _CONTEXT, "`none`: a certificate of another host will do."
    ),
    "enable.ssl.certificate.verification": SecuritySetting(
        _truth(), _CONTEXT, "`false`: any certificate will do; for tests."
    ),
    **{
        f"sasl.kerberos.{name}": SecuritySetting(text(), "", "", refused=_KERBEROS)
        for name in ("keytab", "kinit.cmd", "min.time.before.relogin", "principal")
    },
    **{
        key: SecuritySetting(text(), "", "", refused=_GIVE_FUNCTION)
        for key in (
            "enable.sasl.oauthbearer.unsecure.jwt",
            *(
                f"sasl.oauthbearer.assertion.{name}"
                for name in (
                    *("algorithm", "claim.aud", "claim.exp.seconds", "claim.iss"),
                    *("claim.jti.include", "claim.nbf.seconds", "claim.sub", "file"),
                    *("jwt.template.file", "private.key.file", "private.key.passphrase"),
                    "private.key.pem",
                )
            ),
            "sasl.oauthbearer.metadata.authentication.type",
        )
    },
    "sasl.oauthbearer.grant.type": SecuritySetting(
        choice("client_credentials"), _TOKENS, "For other grants give `App(oauth=function)`."
    ),
    **{
        f"ssl.{name}": SecuritySetting(text(), "", "", refused=_NO_WORD)
        for name in (
            *("ca.certificate.stores", "curves.list", "engine.id", "engine.location"),
            *("providers", "sigalgs.list"),
        )
    },
}

#: Other spellings, of librdkafka too.
ALIASES: Mapping[str, str] = {
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}


@attrs.define
class Given:
    """Security settings on their way to librdkafka's words.

    Attributes:
        values: by key.
        places: where each key was found, for messages.
        problems: what cannot be, a line each.
        lacking: what is still missing, a line each: another source of settings may have it.
    """

    values: dict[str, Any]
    places: Mapping[str, str]
    problems: list[str] = attrs.field(factory=list)
    lacking: list[str] = attrs.field(factory=list)

    def where(self, key: str) -> str:
        """The place of a key, or the key."""
        return self.places.get(key, key)

    def refuse(self, key: str, reason: str) -> None:
        """Note a problem of a key that was given."""
        self.problems.append(f"{self.where(key)}: {reason}")

    def lack(self, key: str, reason: str) -> None:
        """Note what a key that was given needs besides."""
        self.lacking.append(f"{self.where(key)}: {reason}")


def is_security(key: str) -> bool:
    """True if the key is one that all clients get."""
    return key == OAUTH_FUNCTION or key.startswith(_PREFIXES)


def resolve(values: Mapping[str, Any], places: Mapping[str, str]) -> tuple[dict[str, Any], Given]:
    """The settings under librdkafka's names, and the problems found."""
    given = Given({ALIASES.get(key, key): value for key, value in values.items()}, places)
    for alias, key in ALIASES.items():
        if alias in values and key in values and values[alias] != values[key]:
            given.refuse(alias, f"it is another word for {key}, which has another value: give one")
    java_security.translate(given)
    read = {key: _read(given, key, value) for key, value in given.values.items()}
    found = {key: value for key, value in read.items() if value is not None}
    _complete(given, found)
    return found, given


def _read(given: Given, key: str, value: Any) -> Any:
    """The value of a key as it is for the clients; None where there is a problem."""
    if key == OAUTH_FUNCTION:
        if callable(value):
            return value
        given.refuse(key, "expected a function, App(oauth=function)")
        return None
    setting = SETTINGS.get(key)
    if setting is None:
        given.refuse(key, unknown(key))
    elif setting.refused:
        given.refuse(key, f"it is not supported: {setting.refused}")
    else:
        try:
            return setting.kind.parse(value)
        except ValueError as error:
            # PEM of any kind may be that of a key, pasted to the wrong place.
            shown = "" if setting.secret or key.endswith(".pem") else f" = {value!r}"
            given.problems.append(f"{given.where(key)}{shown}: {error}")
    return None


def unknown(key: str) -> str:
    """The message for a key that does not exist, with the one that was probably meant."""
    close = difflib.get_close_matches(key, [*SETTINGS, *ALIASES], n=1, cutoff=0.7)
    return f"unknown setting, did you mean {close[0]}?" if close else "unknown setting"


def _complete(given: Given, found: dict[str, Any]) -> None:
    """Add what follows from the settings, and note what is missing among them."""
    protocol, mechanism = found.get("security.protocol"), found.get("sasl.mechanism")
    if mechanism is None and OAUTH_FUNCTION in found and "sasl.mechanism" not in given.values:
        found["sasl.mechanism"] = mechanism = "OAUTHBEARER"
    if mechanism == "OAUTHBEARER" and "sasl.oauthbearer.token.endpoint.url" in found:
        found.setdefault("sasl.oauthbearer.method", "oidc")
    if "security.protocol" not in given.values:
        _note_protocol(given, found)
    nameless = mechanism is None and "sasl.mechanism" not in given.values
    if protocol in ("sasl_plaintext", "sasl_ssl") and nameless:
        given.lack("security.protocol", f"{protocol} needs sasl.mechanism, {_ONE_OF}")
    own = ("ssl.certificate.location", "ssl.certificate.pem", "ssl.keystore.location")
    for key in ("ssl.key.location", "ssl.key.pem"):
        if key in found and given.values.keys().isdisjoint(own):
            given.lack(key, "set ssl.certificate.location or ssl.certificate.pem too")
    if mechanism == MSK_IAM and protocol not in (None, "sasl_ssl"):
        given.refuse("sasl.mechanism", f"{MSK_IAM} needs security.protocol = sasl_ssl")
    if mechanism in _BY_PASSWORD:
        _note_missing(given, found, "sasl.username", "sasl.password")
    if mechanism == "OAUTHBEARER" and OAUTH_FUNCTION not in given.values:
        _note_missing(given, found, *_OIDC, instead=", or App(oauth=function)")
    elif mechanism not in (None, "OAUTHBEARER") and OAUTH_FUNCTION in found:
        given.refuse("sasl.mechanism", f"App(oauth=function) is for OAUTHBEARER, not {mechanism}")


def _note_protocol(given: Given, found: Mapping[str, Any]) -> None:
    """Note a setting that does nothing unless ``security.protocol`` is set, which is not."""
    if "sasl.mechanism" in found:
        key = "sasl.mechanism"
        which = "sasl_ssl" if found[key] == MSK_IAM else "sasl_ssl or sasl_plaintext"
    else:
        key = next((one for one in found if one.startswith("ssl.")), "")
        which = "ssl or sasl_ssl"
    if key:
        given.lack(key, f"set security.protocol = {which} too; it is plaintext")


def _note_missing(given: Given, found: Mapping[str, Any], *keys: str, instead: str = "") -> None:
    """Note a mechanism some of whose settings are not given."""
    if missing := [key for key in keys if key not in found and key not in given.values]:
        named = ", ".join(missing)
        given.lack("sasl.mechanism", f"{found['sasl.mechanism']} needs {named}{instead}")
