"""Security settings in the words of Java's clients, as people paste them, in those of librdkafka.

What says the same is translated. What has nothing to say here is refused with what to do instead.
Values are never part of a message: most of them are secrets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamlet.config.security import Given

JAAS = "sasl.jaas.config"

# Each matches in one way only, so that long text takes no longer than it is.
_MODULE = re.compile(
    r"\s*(?:\w+\s*\{\s*)?([\w.$]+)\s+(?i:required|requisite|sufficient|optional)\b"
)
_OPTION = re.compile(
    r"""\s+([\w.]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)""", re.DOTALL
)
_END = re.compile(r"[\s;]*(?:\}[\s;]*)?")
#: What stands for a space: comments, and line ends of a properties file. Quotes are passed over.
_BLANK = re.compile(
    r"""("(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?)|(?<![^\s;"'])(?://[^\n]*|/\*.*?(?:\*/|\Z))"""
    r"|\\\r?\n",
    re.DOTALL,
)
_TYPOGRAPHIC = re.compile("[\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb]")
#: Escapes within quotes are those of C, and Unicode's as a properties file has them.
_ESCAPED = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_EXTENSION = "extension_"
_EXPECTED = 'expected MODULE required option="value" …;'

_PASSWORDS = {"username": "sasl.username", "password": "sasl.password"}
_CREDENTIALS = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_TICKETS = {
    "serviceName": "sasl.kerberos.service.name",
    "keyTab": "sasl.kerberos.keytab",
    "principal": "sasl.kerberos.principal",
}

#: By the last part of its name: the mechanism of a login module, and what its options become.
MODULES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "PlainLoginModule": ("PLAIN", _PASSWORDS),
    "ScramLoginModule": ("", _PASSWORDS),
    "OAuthBearerLoginModule": ("OAUTHBEARER", _CREDENTIALS),
    "IAMLoginModule": ("AWS_MSK_IAM", {}),
    "Krb5LoginModule": ("GSSAPI", _TICKETS),
}
#: Options of Java's way to get tickets.
_NOT_NEEDED = frozenset({"useKeyTab", "storeKey", "useTicketCache", "renewTicket", "doNotPrompt"})

_HANDLERS = ("sasl.client.callback.handler.class", "sasl.login.callback.handler.class")
#: By the last part of its name, the mechanism of a class that gets credentials.
_HANDLED = {
    "OAuthBearerLoginCallbackHandler": "OAUTHBEARER",
    "IAMClientCallbackHandler": "AWS_MSK_IAM",
    "IAMOAuthBearerLoginCallbackHandler": "AWS_MSK_IAM",
}

_RENEWAL = "it is not needed: tokens are renewed after four fifths of their time"
_VERSIONS = "it is not needed: TLS 1.2 and 1.3 are spoken"
_CHECKED = "it is not needed: brokers check tokens"
_OF_BROKERS = "it is a setting of brokers, not of their clients"
_FUNCTION = "give a function that gets tokens, App(oauth=function)"
_OPENSSL = "it is for Java; TLS is OpenSSL's here"
#: Keys that are refused, each with the reason.
REFUSED: Mapping[str, str] = {
    **{
        f"sasl.login.refresh.{name}": _RENEWAL
        for name in ("buffer.seconds", "min.period.seconds", "window.factor", "window.jitter")
    },
    **{
        f"sasl.login.{name}": "it is not needed: the token endpoint is asked again until it answers"
        for name in (
            *("connect.timeout.ms", "read.timeout.ms"),
            *("retry.backoff.ms", "retry.backoff.max.ms"),
        )
    },
    "sasl.login.class": "it is for Java; give App(oauth=function) for tokens of another kind",
    "sasl.kerberos.ticket.renew.jitter": "it is not needed: kinit renews tickets",
    "sasl.kerberos.ticket.renew.window.factor": "it is not needed: kinit renews tickets",
    "sasl.oauthbearer.assertion.template.file": _FUNCTION,
    "sasl.oauthbearer.header.urlencode": "the token endpoint gets id and secret as they are; "
    f"where that will not do, {_FUNCTION}",
    "sasl.oauthbearer.jwt.retriever.class": f"it is for Java; {_FUNCTION}",
    **{
        f"sasl.oauthbearer.{name}": _CHECKED
        for name in (
            *("clock.skew.seconds", "expected.audience", "expected.issuer", "jwt.validator.class"),
            *("jwks.endpoint.refresh.ms", "jwks.endpoint.retry.backoff.max.ms"),
            *("jwks.endpoint.retry.backoff.ms", "jwks.endpoint.url", "scope.claim.name"),
        )
    },
    **dict.fromkeys(
        (
            *("sasl.enabled.mechanisms", "sasl.mechanism.inter.broker.protocol"),
            *("sasl.server.callback.handler.class", "security.inter.broker.protocol"),
            "ssl.client.auth",
        ),
        _OF_BROKERS,
    ),
    "security.providers": _OPENSSL,
    "ssl.enabled.protocols": _VERSIONS,
    "ssl.engine.factory.class": _OPENSSL,
    "ssl.keymanager.algorithm": _OPENSSL,
    "ssl.protocol": _VERSIONS,
    "ssl.provider": _OPENSSL,
    "ssl.secure.random.implementation": _OPENSSL,
    "ssl.trustmanager.algorithm": _OPENSSL,
}

_JKS_TRUST = (
    "Java's trust stores cannot be read; write its CAs as PEM with "
    "`keytool -list -rfc -keystore FILE > ca.pem` and give ssl.ca.location = ca.pem"
)
JKS_KEYS = (
    "Java's key stores cannot be read; write it as PKCS#12 with "
    "`keytool -importkeystore -srckeystore FILE -destkeystore FILE.p12 -deststoretype PKCS12` and "
    "give that as ssl.keystore.location"
)
#: What is translated, and into what; for the page.
TRANSLATED: Mapping[str, str] = {
    JAAS: "`sasl.mechanism` and the module's options: `username`, `password` of PlainLoginModule "
    "and ScramLoginModule; `clientId`, `clientSecret`, `scope`, `extension_…` of "
    "OAuthBearerLoginModule; IAMLoginModule of AWS",
    _HANDLERS[0]: "`sasl.mechanism = AWS_MSK_IAM` of IAMClientCallbackHandler",
    _HANDLERS[1]: "`sasl.mechanism = OAUTHBEARER` of OAuthBearerLoginCallbackHandler",
    "ssl.truststore.certificates": "`ssl.ca.pem`",
    "ssl.truststore.location": "`ssl.ca.location` if it is PEM (`ssl.truststore.type`, or a file "
    "called `….pem`, `….crt`); else refused with the command that makes it PEM",
    "ssl.keystore.certificate.chain": "`ssl.certificate.pem`",
    "ssl.keystore.key": "`ssl.key.pem`",
    "ssl.keystore.location": "`ssl.certificate.location` and `ssl.key.location` if it is PEM; "
    "stays if it is PKCS#12; a JKS file is refused with the command that makes it PKCS#12",
}


def translate(given: Given) -> None:
    """Put Java's words in those of librdkafka, and refuse what has none."""
    for key in sorted(given.values.keys() & REFUSED.keys()):
        given.refuse(key, REFUSED[key])
        del given.values[key]
    _handlers(given)
    if JAAS in given.values:
        _login(given, str(given.values.pop(JAAS)))
    _trust_store(given)
    _key_store(given)


def _add(given: Given, source: str, key: str, value: str) -> None:
    """Add a setting that follows from another one, unless it is set."""
    before = str(given.values.setdefault(key, value))
    if (before.upper() if key == "sasl.mechanism" else before) != value:
        given.refuse(source, f"it says another {key} than {given.where(key)}")


def _handlers(given: Given) -> None:
    for key in _HANDLERS:
        value = given.values.pop(key, None)
        if value is None:
            continue
        mechanism = _HANDLED.get(str(value).strip().rpartition(".")[2])
        if mechanism is None:
            given.refuse(key, "it is a class of Java's; give App(oauth=function) for tokens")
        elif mechanism == "AWS_MSK_IAM":  # with Java it also speaks OAUTHBEARER
            given.values["sasl.mechanism"] = mechanism
        else:
            given.values.setdefault("sasl.mechanism", mechanism)


def _login(given: Given, jaas: str) -> None:
    """Take a login module's mechanism and options."""
    jaas = _BLANK.sub(lambda match: match[1] or " ", jaas)
    found = _MODULE.match(jaas)
    options = None if found is None else _options(jaas, found.end())
    if found is None or options is None:
        given.refuse(JAAS, _EXPECTED + _mistake(jaas))
        return
    module = found[1].rpartition(".")[2]
    if module not in MODULES:
        known = ", ".join(MODULES)
        given.refuse(JAAS, f"the login module {module} is Java's own (known: {known})")
        return
    mechanism, words = MODULES[module]
    stated = str(given.values.get("sasl.mechanism", "")).upper()
    if module == "ScramLoginModule":
        if not stated.startswith("SCRAM-"):
            given.lack(JAAS, f"{module} needs sasl.mechanism = SCRAM-SHA-256 or SCRAM-SHA-512")
    elif mechanism == "OAUTHBEARER" and stated == "AWS_MSK_IAM":
        return  # AWS signs the tokens
    else:
        _add(given, JAAS, "sasl.mechanism", mechanism)
    extensions = {
        name.removeprefix(_EXTENSION): value
        for name, value in options.items()
        if name.startswith(_EXTENSION)
    }
    for name, value in options.items():
        if name in words:
            _add(given, JAAS, words[name], value)
        elif name not in _NOT_NEEDED and not name.startswith(_EXTENSION):
            given.refuse(JAAS, _unknown_option(module, name))
    if extensions and module == "OAuthBearerLoginModule":
        joined = ",".join(f"{name}={value}" for name, value in extensions.items())
        _add(given, JAAS, "sasl.oauthbearer.extensions", joined)


def _unknown_option(module: str, name: str) -> str:
    if name.startswith("unsecured"):
        return f"{name}: tokens without a signature are for tests; give App(oauth=function)"
    if module == "IAMLoginModule":
        return f"{name} is not known; credentials are found as by AWS's tools, set AWS_PROFILE"
    return f"the option {name} of {module} is not known"


def _options(text: str, at: int) -> dict[str, str] | None:
    """The options behind a login module; None where the text is something else."""
    found: dict[str, str] = {}
    while match := _OPTION.match(text, at):
        value = match[2]
        quoted = value[0] in "\"'"
        if not quoted and _TYPOGRAPHIC.match(value):
            return None
        found[match[1]] = _ESCAPED.sub(_unescaped, value[1:-1]) if quoted else value
        at = match.end()
    return found if _END.fullmatch(text, at) else None


def _mistake(text: str) -> str:
    """Hint at a mistake in a text that is no login module; empty where none can be seen."""
    text = text.strip()
    if text[:1] in ("'", '"'):
        return " without quotes around the whole"
    if _TYPOGRAPHIC.search(text):
        return " with straight quotes, not typographic ones"
    if re.search(r"=\s*\\[\"']", text):
        return " with quotes that are not escaped by a backslash"
    if re.search(r"[\"']\s*,", text):
        return " without commas between the options"
    if re.search(r";\s*[\w.$]+\s+(?i:required|requisite|sufficient|optional)\b", text):
        return " of one login module"
    return ""


def _unescaped(match: re.Match[str]) -> str:
    """The character that an escape stands for."""
    one = match[1]
    if one[0] == "u" and len(one) > 1:
        return chr(int(one[1:], 16))
    return chr(int(one, 8)) if one[0] in "01234567" else _LETTERS.get(one, one)


def _kind(given: Given, store: str) -> str:
    """The kind of a store: the given one, else by its name."""
    stated = given.values.pop(f"ssl.{store}.type", None)
    if stated is not None:
        return str(stated).strip().upper()
    name = str(given.values.get(f"ssl.{store}.location", "")).lower()
    if name.endswith((".pem", ".crt", ".cer", ".cert")):
        return "PEM"
    if name.endswith((".p12", ".pfx")):
        return "PKCS12"
    return "JKS" if name.endswith(".jks") else ""


def _trust_store(given: Given) -> None:
    kind, values = _kind(given, "truststore"), given.values
    values.pop("ssl.truststore.password", None)
    if (certificates := values.pop("ssl.truststore.certificates", None)) is not None:
        _add(given, "ssl.truststore.certificates", "ssl.ca.pem", str(certificates))
    if (location := values.pop("ssl.truststore.location", None)) is None:
        return
    if kind == "PEM":
        _add(given, "ssl.truststore.location", "ssl.ca.location", str(location))
    elif kind == "PKCS12":
        given.refuse(
            "ssl.truststore.location",
            "write its CAs as PEM with `openssl pkcs12 -in FILE -nokeys -out ca.pem` and give "
            "ssl.ca.location = ca.pem",
        )
    else:
        given.refuse("ssl.truststore.location", _JKS_TRUST)


def _key_store(given: Given) -> None:
    kind, values = _kind(given, "keystore"), given.values
    for name, word in (
        ("ssl.keystore.certificate.chain", "ssl.certificate.pem"),
        ("ssl.keystore.key", "ssl.key.pem"),
    ):
        if (value := values.pop(name, None)) is not None:
            _add(given, name, word, str(value))
    if "ssl.keystore.location" not in values:
        return
    if kind == "PEM":
        location = str(values.pop("ssl.keystore.location"))
        values.pop("ssl.keystore.password", None)
        for word in ("ssl.certificate.location", "ssl.key.location"):
            _add(given, "ssl.keystore.location", word, location)
    elif kind == "JKS":
        given.refuse("ssl.keystore.location", JKS_KEYS)
        del values["ssl.keystore.location"]
