"""``streamlet.connect``: the stores of a running application, read over HTTP from any process."""

from __future__ import annotations

import http.client
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, overload

import attrs
import msgspec

from streamlet.absent import explains_misuse
from streamlet.answer_time import AnswerTime, kept_opener
from streamlet.arguments import types_checked_inside
from streamlet.bounded import whole
from streamlet.clock import Clock, SystemClock
from streamlet.dsl.processors.store_view import no_headers_kept
from streamlet.dsl.processors.store_views import KeyValueStore
from streamlet.errors import ConfigError
from streamlet.kafka.ports import Headers
from streamlet.queries.position import Position
from streamlet.state.query_errors import (
    InvalidQueryError,
    KeyNotFoundError,
    StateStoreMigratedError,
    UnauthorizedError,
)
from streamlet.types import ms_of
from streamlet.user_code import shown
from streamlet.visible import VISIBLE_ASCII
from streamlet.web.answers import cause_of, error_of
from streamlet.web.asked import MOST_WAIT_MS
from streamlet.web.keys import address, in_utf8, packed, texts, with_parameters
from streamlet.web.proofs import ANSWER_PROOF, AT_LEAST, authorization, is_answer
from streamlet.web.tls import with_files

S = TypeVar("S")

#: What the client waits beyond the time that the server may take, s.
_MARGIN_S = 5.0
#: The longest time that a server may be asked to take, s: it refuses a longer one at once.
_MOST_S = MOST_WAIT_MS / 1_000
#: Bytes of an answer, at most; and entries of a page that a read of many asks for.
_MOST_BYTES, _PAGE = 256 << 20, "1000"


@explains_misuse
@attrs.frozen(eq=False)
class StoreClient:
    """A server of queries, as ``streamlet.connect`` gives it; for any thread.

    Args:
        url: of any instance.
        token: that the server asks for (``http.token``); None: none.
        context: of TLS; None: the usual one.
        trusted: whether the server may see the token. One that the control topic names may not: it
            gets a proof, and has to give one.
        clock: the time.
    """

    url: str
    token: str | None = attrs.field(default=None, repr=False)
    context: ssl.SSLContext | None = None
    trusted: bool = True
    clock: Clock = attrs.field(factory=SystemClock, repr=False)

    def __attrs_post_init__(self) -> None:
        url: object = self.url
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise InvalidQueryError(f"expected http://host:port, not {shown(url)}")
        token: object = self.token
        if token is not None and not (isinstance(token, str) and VISIBLE_ASCII.fullmatch(token)):
            raise InvalidQueryError("token: expected visible ASCII characters, without spaces")

    @overload
    def store(
        self,
        store: str,
        /,
        *,
        partition: int | None = None,
        newest: bool = False,
        at_least: Position | None = None,
        timeout: timedelta | float = 1.0,
        max_staleness: timedelta | float | None = None,
    ) -> Any: ...
    @overload
    def store(
        self,
        store: str,
        kind: type[S],
        /,
        *,
        partition: int | None = None,
        newest: bool = False,
        at_least: Position | None = None,
        timeout: timedelta | float = 1.0,
        max_staleness: timedelta | float | None = None,
    ) -> S: ...
    def store(
        self,
        store: str,
        kind: Any = KeyValueStore,
        /,
        *,
        partition: int | None = None,
        newest: bool = False,
        at_least: Position | None = None,
        timeout: timedelta | float = 1.0,
        max_staleness: timedelta | float | None = None,
    ) -> Any:
        """A store, with the methods that ``App.store`` gives it.

        Keys and values are of the types that ``kind`` names, such as ``KeyValueStore[str, int]``;
        of others they are as JSON has them. It passes the position of each answer on to the next
        read, so no key goes back, whichever instance answers.

        Args:
            store: its name.
            kind: its class, with the types of keys and values.
            partition: of the task that is asked; None: that of the key, or all.
            newest: whether to read what is not committed yet.
            at_least: the position that each answer contains at least.
            timeout: how long each call waits for the task and the position, seconds or a
                ``timedelta``; 9 seconds at most.
            max_staleness: by how much a standby or learner may be behind that answers in place of
                the task, seconds or a ``timedelta``; None: none does. ``staleness_ms`` of the store
                says what the last answer's was.

        Raises:
            TypeError: there are no queries over HTTP of that kind.
            InvalidStateStoreError: by a call, as of ``App.store``; also where no server answers.
        """
        from streamlet.web.remote_stores import REMOTE

        made = REMOTE.get(get_origin(kind) or kind)
        if made is None:
            raise TypeError(f"no queries over HTTP of a {getattr(kind, '__name__', kind)}")
        key, value = [*get_args(kind), Any, Any][:2]
        how = {
            "timeout": ms_of(timeout) / 1_000,
            "newest": newest,
            "partition": partition,
            "max_staleness": None if max_staleness is None else ms_of(max_staleness) / 1_000,
        }
        kinds = _known(key), _known(value)
        return made(RemoteReads(self, store, *kinds, texts(how), at_least or Position()))

    def stores(self) -> dict[str, Any]:
        """The stores of the application and its members, as ``GET /stores`` lists them.

        Raises:
            InvalidStateStoreError: the server does not answer, or refuses.
        """
        return self.get("/stores")

    def get(
        self,
        path: str,
        parameters: Mapping[str, str] | None = None,
        at_least: Position | None = None,
    ) -> dict[str, Any]:
        """The document at an address of the server.

        Raises:
            InvalidStateStoreError: it does not answer, or refuses; the subclass says why.
        """
        given = dict(parameters or {})
        target = with_parameters(path, given)
        headers: dict[str, str] = {}
        if at_least is not None and at_least.offsets:
            headers[AT_LEAST] = msgspec.json.encode(at_least.to_json()).decode()
        allowed = self._allowed(target, headers)
        try:
            status, body, proof = self._answer(target, headers, allowed, _wait_s(given) + _MARGIN_S)
        except (OSError, http.client.HTTPException) as error:
            raise StateStoreMigratedError(
                f"{self.url} does not answer: {cause_of(error)}; ask again, or another instance"
            ) from error
        except ValueError as error:
            raise InvalidQueryError(f"{self.url} cannot be asked: {error}") from error
        if not self.trusted:
            self._check(status, is_answer(self.token or "", allowed or "", status, body, proof))
        if status != 200:
            raise error_of(body, status)
        try:
            found: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
        except (ValueError, RecursionError):
            raise error_of(b"", status) from None
        return found

    def _allowed(self, target: str, headers: Mapping[str, str]) -> str | None:
        """The header ``Authorization``."""
        if self.token is None:
            return None
        if self.trusted:
            return f"Bearer {self.token}"
        return authorization(self.token, self.clock.wall_ms(), target, headers)

    def _answer(
        self, target: str, headers: dict[str, str], allowed: str | None, wait_s: float
    ) -> tuple[int, bytes, str]:
        """Status, body and proof of an answer."""
        request = urllib.request.Request(f"{self.url.rstrip('/')}{target}", headers=headers)
        if allowed is not None:
            request.add_unredirected_header("Authorization", allowed)
        with AnswerTime(wait_s):
            try:
                answer = kept_opener(self.context).open(request)
            except urllib.error.HTTPError as error:
                answer = error
            with answer:
                return answer.status, answer.read(_MOST_BYTES), answer.headers.get(ANSWER_PROOF, "")

    def _check(self, status: int, is_right: bool) -> None:
        """Refuse the answer of a server that does not show that it has the token."""
        if self.token is None or is_right:
            return
        why = "has another http.token, or its clock is minutes away"
        if status == 401:
            raise UnauthorizedError(f"{self.url} {why}")
        raise StateStoreMigratedError(f"{self.url} {why}; ask another instance")


@types_checked_inside
def connect(
    url: str,
    *,
    token: str | None = None,
    ca: str | Path | None = None,
    certificate: str | Path | None = None,
    key: str | Path | None = None,
) -> StoreClient:
    """A client of a running application, by the address of any of its instances.

    Args:
        url: such as ``http://localhost:8080``.
        token: that the server asks for (``http.token``).
        ca: file (PEM) with the authorities to believe, in place of the machine's.
        certificate: file (PEM) with the client's own certificate, where the server wants one.
        key: file (PEM) with that certificate's key, if it is another.

    Raises:
        InvalidQueryError: it is no address of HTTP, or no token.
        ConfigError: a file cannot be read, or is none of its kind, or a key has no certificate.
    """
    if key is not None and certificate is None:
        raise ConfigError(["connect(key=) is that of a certificate: give certificate= too"])
    own = None if certificate is None else (str(certificate), str(key or certificate))
    names = "connect(certificate=, key=)", "connect(ca=)"
    authorities = None if ca is None else str(ca)
    context = with_files(own, authorities, names) if own or ca is not None else None
    return StoreClient(url, token.strip() if isinstance(token, str) else token, context)


@attrs.define(eq=False)
class RemoteReads:
    """The reads of one store over HTTP.

    Args:
        client: asks the server.
        name: of the store.
        key: the type of its keys.
        value: the type of its values.
        how: the parameters of all reads.
        at_least: the position that answers contain at least; it grows with each answer.

    ``staleness_ms`` is that of the last answer.
    """

    client: StoreClient
    name: str
    key: Any
    value: Any
    how: dict[str, str]
    at_least: Position
    staleness_ms: int = attrs.field(default=0, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def one(self, key: Any, **parameters: Any) -> dict[str, Any] | None:
        """The document of a key; None: the store has none."""
        try:
            return self._get(self._path(key), {**_form(key), **texts(parameters)})
        except KeyNotFoundError:
            return None

    def listed(self, key: Any, what: str, **parameters: Any) -> Iterator[dict[str, Any]]:
        """The windows, sessions or versions of a key."""
        given = {**_form(key), **texts(parameters)}
        return self._pages(f"{self._path(key)}/{what}", given)

    def entries(self, form: str = "json", **parameters: Any) -> Iterator[dict[str, Any]]:
        """The entries of all keys; ``form`` is that of keys and prefixes among the parameters."""
        return self._pages(address("stores", self.name), {"key-format": form, **texts(parameters)})

    def key_of(self, entry: dict[str, Any]) -> Any:
        """The key of an entry, of its type."""
        return _converted(entry["key"], self.key)

    def value_of(self, entry: dict[str, Any]) -> Any:
        """The value of an entry, of its type."""
        return _converted(entry["value"], self.value)

    def headers_of(self, entry: dict[str, Any] | None) -> Headers:
        """The headers of an entry; none of one that is not there.

        Raises:
            InvalidStateStoreError: the store keeps none.
        """
        if entry is None:
            return ()
        if "headers" not in entry:
            raise no_headers_kept(self.name)
        found: tuple[tuple[str, bytes | None], ...]
        found = _converted(entry["headers"], tuple[tuple[str, bytes | None], ...])
        return found

    def _pages(self, path: str, parameters: dict[str, str]) -> Iterator[dict[str, Any]]:
        given = {"limit": _PAGE, **parameters}
        while True:
            page = self._get(path, given)
            yield from page["entries"]
            if page["cursor"] is None:
                return
            given["cursor"] = page["cursor"]

    def _path(self, key: Any) -> str:
        if key is None:
            raise TypeError(f"store {self.name}: a key cannot be None")
        return address("stores", self.name, key_text(key))

    def _get(self, path: str, parameters: dict[str, str]) -> dict[str, Any]:
        try:
            found = self.client.get(path, {**self.how, **parameters}, self.at_least)
        except KeyNotFoundError as absent:  # that a key is gone may not be taken back, either
            if absent.position is not None:
                self._see(absent.position, absent.staleness_ms)
            raise
        self._see(found.get("position"), found.get("staleness_ms", 0))
        return found

    def _see(self, position: Any, staleness_ms: Any) -> None:
        """Note the position and the age of an answer."""
        try:
            seen, age_ms = Position.from_json(position), whole(staleness_ms)
        except (TypeError, ValueError):
            raise error_of(b"", 200) from None
        with self._lock:  # readers of several threads each see what the others have seen
            self.at_least = self.at_least.merged(seen)
            self.staleness_ms = age_ms


def _wait_s(parameters: Mapping[str, str]) -> float:
    """The time that the server may take, s; one that is no time is the server's to refuse."""
    asked_s = float(parameters.get("timeout", 0))
    return max(asked_s, 0.0) if asked_s <= _MOST_S else _MOST_S


def key_text(key: Any) -> str:
    """A key as text: bytes in base64, anything else as JSON."""
    if isinstance(key, bytes):
        return packed(key)
    with in_utf8():
        return msgspec.json.encode(key).decode()


def _form(key: Any) -> dict[str, str]:
    return {"key-format": "base64" if isinstance(key, bytes) else "json"}


def _known(kind: Any) -> Any:
    """A type, or anything where it is a variable."""
    return Any if isinstance(kind, TypeVar) else kind


def _converted(value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise TypeError(f"an answer is no {getattr(kind, '__name__', kind)}: {error}") from error
