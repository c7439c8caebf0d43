"""Tokens by client credentials (OpenID Connect): one request to the token endpoint.

librdkafka asks the endpoint by itself; this is for the connection to the group's coordinator, and
for messages: where the endpoint is busy or broken librdkafka tries on, and reports nothing.
"""

from __future__ import annotations

import base64
import binascii
import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

import attrs

from streamlet.answer_time import AnswerTime, opener
from streamlet.bounded import parsed
from streamlet.clock import Clock
from streamlet.errors import ConfigError
from streamlet.tls_files import endpoint_context

#: Seconds that the whole answer may take.
_TIMEOUT_S = 10
#: Bytes of an answer that are read at most; a token has a few thousand.
_MOST_BYTES = 1 << 20
#: Characters of a token at most: brokers take no longer ones.
_MOST_CHARACTERS = 1 << 18
#: Characters of an endpoint's reason that are shown at most.
_MOST_SHOWN = 300
#: Answers of an endpoint that does not take the credentials, however often it is asked.
_REFUSALS = range(400, 500)
#: Answers that are about the moment: too many requests, or too late.
_PASSING = frozenset({408, 425, 429})


@attrs.frozen
class Token:
    """A token for OAUTHBEARER.

    Attributes:
        text: the token, never shown.
        expires_ms: when it expires, ms since the epoch.
        extensions: sent with it.
    """

    text: str = attrs.field(repr=False)
    expires_ms: int
    extensions: Mapping[str, str] = attrs.field(factory=dict)


class TokenError(Exception):
    """The reason why there is no token; ``final`` if asking again is of no use."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


def ask_endpoint(config: Mapping[str, str], now_ms: int) -> Token:
    """Ask the token endpoint of these settings, in librdkafka's words.

    Raises:
        TokenError: there was no answer, or none with a token.
    """
    url = config["sasl.oauthbearer.token.endpoint.url"]
    user, secret = (config[f"sasl.oauthbearer.client.{name}"] for name in ("id", "secret"))
    form = {"grant_type": "client_credentials"}
    if "sasl.oauthbearer.scope" in config:
        form["scope"] = config["sasl.oauthbearer.scope"]
    login = base64.b64encode(f"{user}:{secret}".encode()).decode()
    request = urllib.request.Request(
        url,
        data=urllib.parse.urlencode(form).encode(),
        headers={"Authorization": f"Basic {login}", "Accept": "application/json"},
    )
    try:
        context = endpoint_context(config)
        with AnswerTime(_TIMEOUT_S):
            read = _read(opener(context, _NoRedirection()), request, url)
    except ConfigError as error:
        raise TokenError(str(error), final=True) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause = str(getattr(error, "reason", error)).strip()[:_MOST_SHOWN]
        raise TokenError(f"no answer from the token endpoint {url}: {cause}") from error
    return _token(url, read, extensions_of(config), now_ms)


def no_token(config: Mapping[str, Any], clock: Clock) -> TokenError | None:
    """The reason why a token endpoint gives no token; None: it gives one, or there is no endpoint.

    It is asked for one.
    """
    if "sasl.oauthbearer.token.endpoint.url" not in config:
        return None
    try:
        ask_endpoint(config, clock.wall_ms())
    except TokenError as error:
        return error
    return None


def _read(opens: urllib.request.OpenerDirector, request: urllib.request.Request, url: str) -> bytes:
    try:
        with opens.open(request) as answer:
            read: bytes = answer.read(_MOST_BYTES)
            return read
    except urllib.error.HTTPError as error:
        final = error.code in _REFUSALS and error.code not in _PASSING
        reason = f"the token endpoint {url} answers {error.code} {error.reason}{_refusal(error)}"
        raise TokenError(reason, final=final) from error


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """Follows no redirection, as librdkafka: the secret would go to another address."""

    def redirect_request(self, *_: object) -> None:
        """Make no request."""


def extensions_of(config: Mapping[str, str]) -> dict[str, str]:
    """The extensions of the settings, which go with each token."""
    given = config.get("sasl.oauthbearer.extensions", "")
    pairs = (part.partition("=") for part in given.split(",") if part.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _refusal(error: urllib.error.HTTPError) -> str:
    """The standard's two fields of a refusal, which are for people."""
    try:
        with error:
            answer = parsed(error.read(_MOST_BYTES))
        named = [str(answer[key]) for key in ("error", "error_description") if key in answer]
    except (OSError, http.client.HTTPException, ValueError, TypeError):
        return ""
    return f": {', '.join(named)[:_MOST_SHOWN]}" if named else ""


def _token(url: str, body: bytes, extensions: Mapping[str, str], now_ms: int) -> Token:
    try:
        answer = parsed(body)
        text = answer["access_token"]
        if not isinstance(text, str) or not _is_sendable(text):
            raise TypeError
        expires_ms = _expiry_ms(text, answer, now_ms)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        # Nothing of the answer is shown: a part of it may be a token.
        reason = f"the answer of the token endpoint {url} is no token ({type(error).__name__})"
        raise TokenError(reason) from None
    return Token(text, expires_ms, extensions)


def _is_sendable(token: str) -> bool:
    """True for a text that can be a token: what is around it is set off by control characters."""
    return 0 < len(token) <= _MOST_CHARACTERS and token.isascii() and token.isprintable()


def _expiry_ms(token: str, answer: Mapping[str, Any], now_ms: int) -> int:
    """The time a token expires: that in the token, else that of the answer around it."""
    try:
        middle = token.split(".")[1]
        claims = parsed(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
        return int(claims["exp"] * 1000)
    except (IndexError, KeyError, ValueError, TypeError, binascii.Error):
        return now_ms + int(answer["expires_in"]) * 1000
