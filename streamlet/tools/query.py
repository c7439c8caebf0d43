"""``streamlet query``: one look into a store of a running application, over HTTP."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import typer

from streamlet.errors import NotFoundError
from streamlet.tools.application import AppArgument, named, opened
from streamlet.tools.command import Common, command
from streamlet.tools.output import table

if TYPE_CHECKING:
    import ssl

    from streamlet.config import Settings
    from streamlet.web.client import StoreClient


class KeyLists(StrEnum):
    """The lists that a key has."""

    WINDOWS = "windows"
    SESSIONS = "sessions"
    VERSIONS = "versions"


class KeyFormat(StrEnum):
    """The forms of keys."""

    TEXT = "text"
    JSON = "json"
    BASE64 = "base64"


@attrs.frozen
class QueryOptions:
    """The options that say what is read of a store."""

    listed: Annotated[
        KeyLists | None,
        typer.Option(
            "--list",
            envvar="STREAMLET_QUERY_LIST",
            help="Windows, sessions or versions of the key.",
        ),
    ] = None
    key_format: Annotated[
        KeyFormat, typer.Option(help="How keys are given; text is read as the keys' type.")
    ] = KeyFormat.TEXT
    low: Annotated[
        str | None,
        typer.Option(
            "--from",
            envvar="STREAMLET_QUERY_FROM",
            metavar="X",
            help="First key, or first time in ms.",
        ),
    ] = None
    high: Annotated[
        str | None,
        typer.Option(
            "--to",
            envvar="STREAMLET_QUERY_TO",
            metavar="X",
            help="Last key, or last time in ms.",
        ),
    ] = None
    from_key: Annotated[
        str | None, typer.Option(metavar="K", help="Of windows and sessions: first key.")
    ] = None
    to_key: Annotated[
        str | None, typer.Option(metavar="K", help="Of windows and sessions: last key.")
    ] = None
    prefix: Annotated[str | None, typer.Option(metavar="P", help="What the keys begin with.")] = (
        None
    )
    reverse: Annotated[bool, typer.Option("--reverse", help="The last one first.")] = False
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="Most entries.")] = 100
    cursor: Annotated[str | None, typer.Option(metavar="C", help="That of the page before.")] = None
    as_of: Annotated[
        int | None, typer.Option(metavar="MS", help="Of a versioned store: at which time.")
    ] = None
    newest: Annotated[bool, typer.Option("--newest", help="Also what is not committed yet.")] = (
        False
    )
    partition: Annotated[int | None, typer.Option(metavar="N", min=0, help="The task to ask.")] = (
        None
    )
    at_least: Annotated[
        str | None, typer.Option(metavar="JSON", help="Position that the answer contains.")
    ] = None
    max_staleness: Annotated[
        float | None,
        typer.Option(metavar="S", min=0, help="Seconds that a standby's answer may be behind."),
    ] = None
    timeout: Annotated[
        float, typer.Option(metavar="S", min=0, max=9, help="Seconds to wait for the task.")
    ] = 2.0

    def parameters(self, *, paged: bool) -> dict[str, str]:
        """The parameters of the address; ``paged``: there may be several entries."""
        from streamlet.web.keys import texts

        given = {
            "key-format": self.key_format.value,
            "from": self.low,
            "to": self.high,
            "from-key": self.from_key,
            "to-key": self.to_key,
            "prefix": self.prefix,
            "reverse": self.reverse,
            "limit": self.limit if paged else None,
            "cursor": self.cursor,
            "as_of": self.as_of,
            "newest": self.newest,
            "partition": self.partition,
            "at_least": self.at_least,
            "max_staleness": self.max_staleness,
            "timeout": self.timeout,
        }
        return texts(given)


@attrs.frozen
class ServerOptions:
    """The options that say which server is asked, and how it is believed."""

    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="An instance to ask. [default: found by the broker]"),
    ] = None
    ca: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Authorities (PEM) to believe, not http.ssl.…'s."),
    ] = None
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificate (PEM) to show, with its key.")
    ] = None
    certificate_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The certificate's key (PEM), if apart.")
    ] = None

    def context(self, settings: Settings) -> ssl.SSLContext:
        """The context of TLS, by these files, else by the settings.

        Raises:
            ConfigError: a file cannot be read, or is none of its kind.
        """
        from streamlet.web import tls

        own = self.certificate
        if self.ca is None and own is None:
            return tls.of_client(settings)
        pair = None if own is None else (str(own), str(self.certificate_key or own))
        names = "--certificate and --certificate-key", "--ca"
        return tls.with_files(pair, None if self.ca is None else str(self.ca), names)


_USUAL, _FOUND = QueryOptions(), ServerOptions()


@command("query")
def query(
    common: Common,
    app: AppArgument,
    store: Annotated[str, typer.Argument(metavar="STORE", help="The store's name.")],
    key: Annotated[str | None, typer.Argument(metavar="KEY", help="A key; else all.")] = None,
    options: QueryOptions = _USUAL,
    server: ServerOptions = _FOUND,
) -> None:
    """Read a key of a store, or a page of its entries, from whichever instance has it.

    An instance has to serve queries (streamlet run --http-port). It is found in the control topic,
    or named by --url. The setting http.token is what it asks for. Exit code 3: no such key.
    """
    path = _path(store, key, options.listed)
    parameters = options.parameters(paged=key is None or options.listed is not None)
    found = asked_instances(clients_of(common, app, server), path, parameters)
    common.output.answer(found, _shown(found))
    if found.get("cursor") is not None and not common.output.as_json:
        common.output.note(f"there is more: --cursor {found['cursor']}")


def _path(store: str, key: str | None, listed: KeyLists | None) -> str:
    from streamlet.web.keys import address

    if listed is not None and key is None:
        raise typer.BadParameter("--list is of a KEY")
    parts = [one for one in (store, key) if one is not None]
    return address("stores", *parts) + ("" if listed is None else f"/{listed.value}")


def clients_of(common: Common, app: str, server: ServerOptions = _FOUND) -> list[StoreClient]:
    """The instances to ask, one after another."""
    from streamlet.admin.applications import check_known

    settings = named(common, app)[1]
    if server.url is not None:
        return [_connected(server.url, settings, server, trusted=True)]
    with opened(common, app, "query") as window:
        servers = sorted(window.reports().servers.items(), key=lambda item: str(item[0]))
        if not servers:
            check_known(window, window.admin.topics())
    tls = settings.http_ssl_certificate_location is not None or server.ca is not None
    found = [one.url for _, one in servers if one.url and (one.scheme == "https" or not tls)]
    if not found:
        raise NotFoundError(
            f"no instance of {app} serves queries: start one with --http-port, or give --url"
        )
    return [_connected(one, settings, server, trusted=False) for one in found]


def _connected(
    url: str, settings: Settings, server: ServerOptions, *, trusted: bool
) -> StoreClient:
    from streamlet.web.client import StoreClient

    context = server.context(settings) if url.startswith("https") else None
    return StoreClient(url, settings.http_token, context, trusted)


def asked_instances(
    clients: list[StoreClient], path: str, parameters: dict[str, str]
) -> dict[str, Any]:
    """The document that the first instance gives which has a way to the owner.

    Raises:
        InvalidStateStoreError: there is none.
    """
    from streamlet.state.query_errors import StateStoreMigratedError, UnauthorizedError

    problem: StateStoreMigratedError | UnauthorizedError | None = None
    for client in clients:
        try:
            return client.get(path, parameters)
        except (StateStoreMigratedError, UnauthorizedError) as error:
            problem = error  # it does not answer, has no way to the owner, or is another one
    assert problem is not None
    raise problem


def _shown(found: dict[str, Any]) -> Any:
    """An answer for people."""
    import msgspec

    entries = found.get("entries", [found])
    heads = [name for name in _COLUMNS if any(name in entry for entry in entries)]
    if not entries:
        return "nothing"
    rows = [
        tuple(
            cell if isinstance(cell, str | int) else msgspec.json.encode(cell).decode()
            for cell in (_cell(name, entry) for name in heads)
        )
        for entry in entries
    ]
    return table(*(name.upper() for name in heads), rows=rows)


def _cell(column: str, entry: dict[str, Any]) -> Any:
    """The part of an entry; headers as a record's are shown."""
    found = entry.get(column)
    if column != "headers" or found is None:
        return found
    import msgspec

    from streamlet.records.shown import headers_as_text, shown_headers

    try:
        pairs = msgspec.convert(found, list[tuple[str, bytes | None]])
    except msgspec.ValidationError:  # another program answers
        return found
    return headers_as_text(shown_headers(pairs)[0])


_COLUMNS = ("key", "start", "end", "value", "timestamp", "valid_to", "headers")
