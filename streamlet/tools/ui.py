"""``streamlet ui``: the live page of an application, served on this machine."""

from __future__ import annotations

import sys
import webbrowser
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import typer

from streamlet.errors import ConfigError
from streamlet.hosting.signals import GracefulStop
from streamlet.tools.application import AppArgument, scaled
from streamlet.tools.command import Common, command
from streamlet.tools.query import asked_instances, clients_of

if TYPE_CHECKING:
    from streamlet.web.client import StoreClient

#: What the page is served on: of this machine only.
_LOOPBACK = "127.0.0.1"


@command("ui")
def ui(
    common: Common,
    app: AppArgument,
    port: Annotated[
        int, typer.Option(metavar="P", min=0, max=65_535, help="0: any that is free.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
) -> None:
    """Show an application live, in a browser, until Ctrl-C.

    The page reads what the group and the control topic say, so the application needs no option for
    it; it searches in stores if an instance serves queries (streamlet run --http-port). It is
    served to this machine only. Where http.token is set the browser asks for it.

    With module:attribute dead letters are counted, too. The page also plays scenario files, as
    streamlet simulate does, in a process of its own: no application has anything to do with it.
    """
    letters = _letters(app)
    about = scaled(common, app)
    try:
        from streamlet.web.live.server import LivePageServer
    except ImportError as error:
        raise ConfigError(
            [f"the page needs the extra http ({error.name}): pip install 'streamlet[http]'"]
        ) from error
    from streamlet.clock import SystemClock
    from streamlet.hosting.live import live_look
    from streamlet.web.live.reader import LiveReader
    from streamlet.web.live.simulations import Simulations

    settings = attrs.evolve(
        about.settings,
        http_port=port,
        http_host=_LOOPBACK,
        http_ssl_certificate_location=None,
        http_ssl_key_location=None,
        http_ssl_ca_location=None,
    )
    clock = SystemClock()
    with (
        LiveReader(partial(live_look, about, None, letters), clock, simulator=True) as live,
        Simulations((sys.executable, "-m", "streamlet", "simulate")) as player,
        LivePageServer(live, _Instances(common, app).ask, player, settings, clock) as server,
        GracefulStop() as stop,
    ):
        common.output.answer({"url": server.url}, f"{about.name} is shown on {server.url}")
        if browser and not webbrowser.open(server.url):
            common.output.note("no browser can be opened here; open that address in one")
        stop.asked.wait()


def _letters(app: str) -> frozenset[str] | None:
    """The topics of dead letters, as far as the program tells; None without it."""
    if ":" not in app:
        return None
    from streamlet.app import load_app

    return load_app(app).policy.topics


@attrs.define
class _Instances:
    """The instances that serve queries; found at the first one, and again after one that failed."""

    common: Common
    app: str
    _clients: list[StoreClient] | None = None

    def ask(self, path: str, parameters: dict[str, str]) -> dict[str, Any]:
        """The answer of an instance.

        Raises:
            NotFoundError: none serves queries.
            InvalidStateStoreError: none answers.
        """
        from streamlet.state.query_errors import StateStoreMigratedError, UnauthorizedError

        clients = self._clients
        if clients is None:
            clients = self._clients = clients_of(self.common, self.app)
        try:
            return asked_instances(clients, path, parameters)
        except (StateStoreMigratedError, UnauthorizedError):
            self._clients = None
            raise
