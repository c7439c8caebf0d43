"""``streamlet.connect``: the stores of a running application, read over HTTP from any process."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, TypeVar, get_args, get_origin, overload
from urllib.parse import quote, urlencode

import attrs
import msgspec

from streamlet.dsl.processors.store_views import KeyValueStore
from streamlet.queries.position import Position
from streamlet.state.query_errors import (
    InvalidQueryError,
    KeyNotFoundError,
    StateStoreMigratedError,
)
from streamlet.types import ms_of
from streamlet.web.answers import error_of
from streamlet.web.keys import packed

S = TypeVar("S")

#: What the client waits beyond the time that the server may take, s.
_MARGIN_S = 5.0
#: Bytes of an answer, at most.
_MOST_BYTES = 256 << 20
#: Entries of a page that a read of many asks for.
_PAGE = "1000"


@attrs.frozen(eq=False)
class StoreClient:
    """A server of queries, as ``streamlet.connect`` gives it; for any thread.

    Args:
        url: of any instance.
        token: that the server asks for (``http.token``); None: none.
        context: of TLS; None: the usual one.
    """

    url: str
    token: str | None = attrs.field(default=None, repr=False)
    context: ssl.SSLContext | None = None

    def __attrs_post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise InvalidQueryError(f"expected http://host:port, not {self.url!r}")

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

        Raises:
            TypeError: there are no queries over HTTP of that kind.
            InvalidStateStoreError: by a call, as of ``App.store``; also where no server answers.
        """
        from streamlet.web.remote_stores import REMOTE

        made = REMOTE.get(get_origin(kind) or kind)
        if made is None:
            raise TypeError(f"no queries over HTTP of a {getattr(kind, '__name__', kind)}")
        key, value = [*get_args(kind), Any, Any][:2]
        how: dict[str, str] = {"timeout": f"{ms_of(timeout) / 1_000:g}"}
        if newest:
            how["newest"] = "true"
        if partition is not None:
            how["partition"] = str(partition)
        return made(
            RemoteReads(self, store, _known(key), _known(value), how, at_least or Position())
        )

    def stores(self) -> dict[str, Any]:
        """The stores of the application and its members, as ``GET /stores`` lists them.

        Raises:
            InvalidStateStoreError: the server does not answer, or refuses.
        """
        found: dict[str, Any] = msgspec.json.decode(self.get("/stores"))
        return found

    def get(self, path: str, parameters: Mapping[str, str] | None = None) -> bytes:
        """The document at an address of the server.

        Raises:
            InvalidStateStoreError: it does not answer, or refuses; the subclass says why.
        """
        given = dict(parameters or {})
        query = f"?{urlencode(given)}" if given else ""
        request = urllib.request.Request(f"{self.url.rstrip('/')}{path}{query}")
        if self.token is not None:
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        wait_s = float(given.get("timeout", 0)) + _MARGIN_S
        try:
            with urllib.request.urlopen(request, timeout=wait_s, context=self.context) as answer:
                body: bytes = answer.read(_MOST_BYTES)
                return body
        except urllib.error.HTTPError as error:
            with error:
                raise error_of(error.read(_MOST_BYTES), error.code) from None
        except (OSError, http.client.HTTPException) as error:
            raise StateStoreMigratedError(
                f"{self.url} does not answer: {error}; ask again, or another instance"
            ) from error


def connect(
    url: str, *, token: str | None = None, context: ssl.SSLContext | None = None
) -> StoreClient:
    """A client of a running application, by the address of any of its instances.

    Args:
        url: such as ``http://localhost:8080``.
        token: that the server asks for (``http.token``).
        context: of TLS, for authorities and certificates of your own.

    Raises:
        InvalidQueryError: it is no address of HTTP.
    """
    return StoreClient(url, token, context)


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
    """

    client: StoreClient
    name: str
    key: Any
    value: Any
    how: dict[str, str]
    at_least: Position

    def one(self, key: Any, **parameters: Any) -> dict[str, Any] | None:
        """The document of a key; None: the store has none."""
        try:
            return self._get(self._path(key), {**_form(key), **_texts(parameters)})
        except KeyNotFoundError:
            return None

    def listed(self, key: Any, what: str, **parameters: Any) -> Iterator[dict[str, Any]]:
        """The windows, sessions or versions of a key."""
        given = {**_form(key), **_texts(parameters)}
        return self._pages(f"{self._path(key)}/{what}", given)

    def entries(self, form: str = "json", **parameters: Any) -> Iterator[dict[str, Any]]:
        """The entries of all keys; ``form`` is that of keys and prefixes among the parameters."""
        path = f"/stores/{quote(self.name, safe='')}"
        return self._pages(path, {"key-format": form, **_texts(parameters)})

    def key_of(self, entry: dict[str, Any]) -> Any:
        """The key of an entry, of its type."""
        return _converted(entry["key"], self.key)

    def value_of(self, entry: dict[str, Any]) -> Any:
        """The value of an entry, of its type."""
        return _converted(entry["value"], self.value)

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
        return f"/stores/{quote(self.name, safe='')}/{quote(key_text(key), safe='')}"

    def _get(self, path: str, parameters: dict[str, str]) -> dict[str, Any]:
        given = {**self.how, **parameters}
        if self.at_least.offsets:
            given["at_least"] = msgspec.json.encode(self.at_least.to_json()).decode()
        found: dict[str, Any] = msgspec.json.decode(self.client.get(path, given))
        self.at_least = self.at_least.merged(Position.from_json(found["position"]))
        return found


def key_text(key: Any) -> str:
    """A key as text: bytes in base64, anything else as JSON."""
    if isinstance(key, bytes):
        return packed(key)
    return msgspec.json.encode(key).decode()


def _form(key: Any) -> dict[str, str]:
    return {"key-format": "base64" if isinstance(key, bytes) else "json"}


def _texts(parameters: dict[str, Any]) -> dict[str, str]:
    """Parameters as text; keys at the ends of a range are, already."""
    found = {}
    for name, value in parameters.items():
        if isinstance(value, bool):
            if value:
                found[name] = "true"
        elif value is not None:
            found[name] = value if isinstance(value, str) else str(value)
    return found


def _known(kind: Any) -> Any:
    """A type, or anything where it is a variable."""
    return Any if isinstance(kind, TypeVar) else kind


def _converted(value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise TypeError(f"an answer is no {getattr(kind, '__name__', kind)}: {error}") from error
