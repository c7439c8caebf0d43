"""Requests to a schema registry: bounded in size and time, tried again, and never redirected.

A registry is a stranger: what it answers is JSON of a bounded size, or an error. Each request has a
connection of its own, since schemas are asked for once: so nothing is open when a process forks.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import attrs

from streamlet.answer_time import AnswerTime
from streamlet.bounded import is_deeper, parsed
from streamlet.clock import pause
from streamlet.errors import ConfigError, RegistryError, UnreachableRegistryError
from streamlet.retries import Retries
from streamlet.user_code import printable

#: The most bytes of an answer. Schemas are a few thousand.
MOST_BYTES = 4 << 20
#: How deep JSON may nest.
_DEEPEST = 100
#: How often a request is tried, in all.
_ATTEMPTS = 3
#: Answers that pass by themselves: too many requests, and troubles of the server.
_PASSING = frozenset({408, 429, 500, 502, 503, 504})
_SHOWN = 200
#: What a server that speaks TLS does with a request without, among other causes.
_CLOSED = (http.client.BadStatusLine, ConnectionResetError)
#: In OpenSSL's words for the alerts of a server that wants another certificate of its client.
_CLIENT_REFUSED = (
    "ALERT_HANDSHAKE_FAILURE",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_UNKNOWN_CA",
    "ALERT_CERTIFICATE",
)
_TYPE = "application/vnd.schemaregistry.v1+json"


@attrs.frozen
class RegistryAnswer:
    """An answer: its status, and the JSON of its body; None: it has none."""

    status: int
    body: Any

    @property
    def code(self) -> int:
        """The error's code by Confluent's API; 0: it has none."""
        found = self.body.get("error_code") if isinstance(self.body, dict) else None
        return found if type(found) is int else 0

    @property
    def message(self) -> str:
        """The error's text."""
        found = self.body.get("message") if isinstance(self.body, dict) else None
        text = found if isinstance(found, str) else f"status {self.status}"
        return printable(text[:_SHOWN])


@attrs.define(eq=False)
class RegistryConnection:
    """Asks a registry, or one of several with the same schemas.

    Args:
        urls: where they are.
        authorization: the header of that name, asked for with each request; None: none.
        context: of TLS; None: that of the system.
        timeout_ms: for one try, from its first byte to the last.
        block: blocks for some ms between tries.
    """

    urls: Sequence[SplitResult]
    authorization: Callable[[], str | None] = attrs.field(repr=False)
    context: ssl.SSLContext | None = None
    timeout_ms: int = 5_000
    block: Callable[[int], None] = pause

    @property
    def shown(self) -> str:
        """The registry as messages name it."""
        return f"the schema registry at {shown_url(self.urls[0])}"

    def ask(
        self, method: str, path: str, body: Any = None, *, once: bool = False
    ) -> RegistryAnswer:
        """The answer to a request, tried again where that may help; ``once``: at each address once.

        Raises:
            UnreachableRegistryError: there is none, or one with no sense.
            RegistryError: the registry refuses us.
        """
        retries = Retries(100, 1_000)
        problem, attempts = "", len(self.urls) if once else _ATTEMPTS
        for attempt in range(1, attempts + 1):
            url = self.urls[(attempt - 1) % len(self.urls)]
            try:
                answer = self._tried(url, method, path, body)
            except (OSError, http.client.HTTPException, ValueError, RuntimeError) as error:
                if (mistake := _tls_mistake(error)) is not None:
                    raise RegistryError(f"{self.shown} {mistake}") from error
                problem = f"{type(error).__name__}: {error}".strip()
                if url.scheme == "http" and isinstance(error, _CLOSED):
                    problem += "; does it speak TLS? Then its address begins with https://"
            else:
                if answer.status not in _PASSING:
                    return self._checked(answer)
                problem = f"status {answer.status}"
                problem += f", {answer.message}" if answer.message != problem else ""
            if attempt < attempts:
                self.block(retries.pause_ms(attempt))
        raise UnreachableRegistryError(
            f"{self.shown} does not answer: {printable(problem[:_SHOWN])}; the task stops until "
            "it is back, and then goes on where it was"
        )

    def _checked(self, answer: RegistryAnswer) -> RegistryAnswer:
        """The answer, unless the registry refuses us or sends us elsewhere."""
        if answer.status in (401, 403):
            raise RegistryError(
                f"{self.shown} refuses this application (status {answer.status}): check username "
                "and password, or the token, and its rights"
            )
        if 300 <= answer.status < 400:
            raise RegistryError(
                f"{self.shown} redirects to another address, which is not followed: give that one"
            )
        if answer.status >= 400 and not answer.code:
            raise UnreachableRegistryError(
                f"{self.shown} answers with status {answer.status}, and not as Confluent's API "
                "does: is the path right? Apicurio has it below /apis/ccompat/v7"
            )
        return answer

    def _tried(self, url: SplitResult, method: str, path: str, body: Any) -> RegistryAnswer:
        headers = {"Accept": f"{_TYPE}, application/json", "Content-Type": _TYPE}
        allowed = self.authorization()
        if allowed is not None:
            headers["Authorization"] = allowed
        sent = None if body is None else json.dumps(body).encode()
        with (
            AnswerTime(self.timeout_ms / 1000) as time,
            closing(self._connection(time, url)) as connection,
        ):
            connection.request(method, url.path.rstrip("/") + path, sent, headers)
            answer = connection.getresponse()
            return RegistryAnswer(answer.status, _content(answer))

    def _connection(self, time: AnswerTime, url: SplitResult) -> http.client.HTTPConnection:
        assert url.hostname is not None
        if url.scheme == "https":
            context = self.context or ssl.create_default_context()
            return time.secured(url.hostname, url.port, context=context)
        return time.plain(url.hostname, url.port)


def _tls_mistake(error: Exception) -> str | None:
    """The disagreement of the registry and the settings; None: no settings would mend it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"shows a certificate that is not believed ({printable(error.verify_message)}): ca= "
            "and SCHEMA_REGISTRY_CA name a file of the authorities to believe"
        )
    if not isinstance(error, ssl.SSLError) or error.reason is None:
        return None
    if error.reason == "WRONG_VERSION_NUMBER":
        return "speaks no TLS: its address begins with http://"
    if any(word in error.reason for word in _CLIENT_REFUSED):
        return (
            f"refuses the certificate of this client, or the want of one ({error.reason}): "
            "certificate= and key=, or SCHEMA_REGISTRY_CERTIFICATE and SCHEMA_REGISTRY_KEY, name it"
        )
    return None


def _content(answer: http.client.HTTPResponse) -> Any:
    """The JSON of an answer; None if it has none and is an error."""
    raw = answer.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES and answer.status in _PASSING:
        return None
    if len(raw) > MOST_BYTES:
        raise ValueError(f"the answer is longer than {MOST_BYTES} bytes")
    if answer.length:
        raise ValueError("the answer ends in the middle")
    try:
        found = parsed(raw)
    except ValueError as error:
        if answer.status >= 300:
            return None
        raise ValueError(f"the answer is no JSON: {error}") from error
    if is_deeper(found, _DEEPEST):
        raise ValueError(f"the answer nests deeper than {_DEEPEST} levels")
    return found


def urls_of(text: str) -> list[SplitResult]:
    """The addresses in a text, with commas between them.

    Raises:
        ConfigError: one is no address of HTTP.
    """
    urls = [_url(one.strip()) for one in text.split(",") if one.strip()]
    if not urls:
        raise ConfigError(["schema registry: no address; give url= or set SCHEMA_REGISTRY_URL"])
    return urls


def _url(text: str) -> SplitResult:
    wrong = "expected http://host:port or https://host:port, perhaps with a path"
    try:
        url = urlsplit(text)
        fine = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:
        raise ConfigError([f"schema registry: an address cannot be read: {wrong}"]) from None
    if not fine or url.query or url.fragment or any(one.isspace() for one in text):
        raise ConfigError([f"schema registry: {shown_url(url)} is no address: {wrong}"])
    return url


def shown_url(url: SplitResult) -> str:
    """An address without the password that may be in it."""
    return printable(f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}")


def basic(username: str, password: str) -> str:
    """The header of a name and a password."""
    return "Basic " + base64.b64encode(printable(f"{username}:{password}").encode()).decode()


def credentials_in(url: SplitResult) -> tuple[str, str] | None:
    """The name and the password in an address; None: it has none."""
    if url.username is None:
        return None
    return unquote(url.username), unquote(url.password or "")
