"""Requests of HTTP: who may ask, the addresses there are, and the answers as responses."""

from __future__ import annotations

import hmac
from base64 import b64decode
from ipaddress import ip_address
from urllib.parse import parse_qsl, unquote, urlsplit

import attrs
import msgspec
from aiohttp import web

from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.errors import StreamletError
from streamlet.logs import get_logger
from streamlet.state.query_errors import (
    InvalidQueryError,
    StateStoreMigratedError,
    UnauthorizedError,
)
from streamlet.web.answers import HttpAnswer, document, failure
from streamlet.web.asked import LISTS, Asked
from streamlet.web.live.answers import live_answer
from streamlet.web.live.reader import LiveReader
from streamlet.web.openapi import openapi
from streamlet.web.overview import overview
from streamlet.web.proofs import (
    ANSWER_PROOF,
    AT_LEAST,
    FOR_MEMBER,
    OF_PARTITION,
    SCHEME,
    answer_proof,
    is_right,
)
from streamlet.web.router import QueryRouter

log = get_logger(__name__)

#: Has a browser ask for the token; it sends the answer with all that the page asks for.
ASK_FOR_TOKEN = 'Basic realm="streamlet: any name, and http.token as the password", charset="UTF-8"'

_HEADERS = {"Server": "streamlet", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


@attrs.define(eq=False)
class Requests:
    """Answers the requests of one server.

    Args:
        router: answers queries; None: a subclass does.
        settings: who may ask is among them.
        live: gives the document of the live page; None: there is no such page here.
        clock: the time.
    """

    _router: QueryRouter | None
    _settings: Settings
    _live: LiveReader | None
    _clock: Clock

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """The response to a request, whatever it asks."""
        headers = dict(_HEADERS)
        proven = False
        try:
            proven = self._check(request)
            found = await self._found(request)
        except StreamletError as error:
            found = failure(error)
            if found.status == 401 and self._live is not None and request.path == "/":
                found.headers["WWW-Authenticate"] = ASK_FOR_TOKEN
        except Exception as error:
            log.exception("a query failed")
            found = failure(error)
        token = self._settings.http_token
        if proven and token is not None:
            asked = request.headers["Authorization"]
            headers[ANSWER_PROOF] = answer_proof(token, asked, found.status, found.body)
        return web.Response(
            status=found.status,
            body=found.body,
            content_type=found.content_type,
            charset=None if found.content_type == "application/json" else "utf-8",
            headers={**headers, **found.headers},
        )

    def _check(self, request: web.BaseRequest) -> bool:
        """Refuse a request without the token, or from a page of another site.

        True if it bears a proof of the token, and wants one of the answer.
        """
        token = self._settings.http_token
        proven = False
        if token is None:
            if self._settings.is_loopback and not self._is_local(request.headers.get("Host", "")):
                raise UnauthorizedError("the Host header names another machine than this one")
        else:
            kind, _, given = request.headers.get("Authorization", "").partition(" ")
            if kind == SCHEME:
                now_ms = self._clock.wall_ms()
                right = is_right(token, given, now_ms, request.raw_path, request.headers)
                proven = True
            elif kind.lower() == "basic":
                right = _is_password(given, token)
            else:
                same = hmac.compare_digest(given.strip().encode(errors="replace"), token.encode())
                right = same and kind.lower() == "bearer"
            if not right:
                raise UnauthorizedError("expected the header Authorization: Bearer TOKEN")
        self.check_method(request)
        return proven

    def check_method(self, request: web.BaseRequest) -> None:
        """Refuse what is no query, by ``InvalidQueryError``."""
        if request.method not in ("GET", "HEAD"):
            raise InvalidQueryError(f"queries are GET, not {request.method[:20]}")

    def _is_local(self, host: str) -> bool:
        """True if a Host header names this machine: other names are of pages that rebind theirs."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        given = self._settings.application_server
        if name == "localhost" or (given is not None and name == given[0].lower()):
            return True
        try:
            return ip_address(name).is_loopback
        except ValueError:
            return False

    async def _found(self, request: web.BaseRequest) -> HttpAnswer:
        parts = _parts(request.rel_url.raw_path)
        if self._live is not None and (found := await live_answer(self._live, parts)) is not None:
            return found
        return await self.stores(request, parts)

    async def stores(self, request: web.BaseRequest, parts: list[str]) -> HttpAnswer:
        """The answer to a query; ``parts`` are those of its address.

        Raises:
            InvalidStateStoreError: there is none.
        """
        router = self._router
        assert router is not None
        match parts:
            case ["openapi.json"]:
                return document(openapi())
            case ["stores"] | ["stores", ""]:
                return document(overview(router.worker(), router.served))
            case ["stores", name]:
                return await self._query(router, request, name, None, "")
            case ["stores", name, key]:
                return await self._query(router, request, name, key, "")
            case ["stores", name, key, listed] if listed in LISTS:
                return await self._query(router, request, name, key, listed)
            case _:
                raise InvalidQueryError(
                    "there are /stores, /stores/NAME, /stores/NAME/KEY and behind it /windows, "
                    "/sessions and /versions, and /openapi.json"
                )

    async def _query(
        self,
        router: QueryRouter,
        request: web.BaseRequest,
        name: str,
        key: str | None,
        listed: str,
    ) -> HttpAnswer:
        given = parameters_of(request.rel_url.raw_query_string)
        if AT_LEAST in request.headers:
            given.setdefault("at_least", request.headers[AT_LEAST])
        asked = Asked.of(name, key, listed, given)
        receiver = request.headers.get(FOR_MEMBER)
        if receiver is None:
            return await router.answer(asked)
        member = router.member
        if receiver != f"{member.instance}/{member.number}":
            raise StateStoreMigratedError("another member has this address now; ask again")
        return await router.answer_here(asked, _partition(request))


def _parts(path: str) -> list[str]:
    """The parts of an address; a last one that is empty is the empty key."""
    try:
        return [unquote(part, errors="strict") for part in path.removeprefix("/").split("/")]
    except UnicodeDecodeError as error:
        raise InvalidQueryError(f"the address is no UTF-8: {error}; see key-format") from error


def parameters_of(text: str) -> dict[str, str]:
    """The parameters of an address.

    Raises:
        InvalidQueryError: they cannot be read, or one is there twice.
    """
    try:
        found = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=32)
    except ValueError as error:
        raise InvalidQueryError(f"the parameters cannot be read: {error}") from error
    given = dict(found)
    if len(given) != len(found):
        raise InvalidQueryError("a parameter is given twice")
    return given


def _is_password(given: str, token: str) -> bool:
    """True if credentials as browsers ask people for them have the token as the password."""
    try:
        password = b64decode(given.strip(), validate=True).partition(b":")[2]
    except ValueError:
        return False
    return hmac.compare_digest(password, token.encode())


def _partition(request: web.BaseRequest) -> int:
    try:
        return msgspec.json.decode(request.headers.get(OF_PARTITION, ""), type=int)
    except (ValueError, RecursionError) as error:
        raise InvalidQueryError(f"{OF_PARTITION}: expected a partition") from error
