"""The application that a command is about, and the settings to reach its brokers with."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import attrs
import typer

from streamlet.errors import NotFoundError
from streamlet.tools.command import Common
from streamlet.user_code import shown

if TYPE_CHECKING:
    from streamlet.admin.window import ApplicationInfo, GroupWindow
    from streamlet.config import Settings
    from streamlet.state.instances import InstanceFolder

AppArgument = Annotated[
    str, typer.Argument(metavar="APP", help="The application's id, or module:attribute.")
]

StateDir = Annotated[
    Path | None, typer.Option(metavar="D", help="Where state is kept (state.dir).")
]


@attrs.frozen
class LocalInstance:
    """The argument and the options that say which instance on this host."""

    app: Annotated[
        str | None,
        typer.Argument(metavar="[APP]", help="The application's id, or module:attribute."),
    ] = None
    name: Annotated[
        str | None, typer.Option(metavar="N", help="Name of the instance, as given to run.")
    ] = None
    state_dir: Annotated[
        Path | None, typer.Option(metavar="D", help="Where its state is kept (state.dir).")
    ] = None

    def living(self, common: Common) -> InstanceFolder:
        """The instance; raises as ``named``, and as ``instances.living``."""
        from streamlet.state.instances import living

        root = state_root(common, self.app, self.state_dir)
        return living(root, None if self.app is None else named(common, self.app)[0], self.name)


#: None of it is given: the only one that runs.
ONLY_INSTANCE = LocalInstance()


def named(common: Common, app: str) -> tuple[str, Settings]:
    """The id and settings of APP, which is an application's id or ``module:attribute``.

    Raises:
        AppNotFoundError: ``module:attribute`` leads to no application.
        ConfigError: wrong settings.
        NotFoundError: no application can have such an id.
    """
    if ":" not in app:
        return _id(app), common.load()
    from streamlet.app import load_app

    loaded = load_app(app)
    return loaded.name, common.load(loaded)


def _id(app: str) -> str:
    from streamlet.topology.names import APPLICATION_EXPECTED, is_application_id

    if not is_application_id(app):
        raise NotFoundError(f"there is no application {shown(app)}: {APPLICATION_EXPECTED}")
    return app


def scaled(common: Common, app: str) -> ApplicationInfo:
    """APP as a command needs it that moves tasks: with topology and assignor, where it has them.

    Raises:
        AppNotFoundError: ``module:attribute`` leads to no application.
        ConfigError: wrong settings.
        NotFoundError: no application can have such an id.
    """
    from streamlet.admin.window import ApplicationInfo
    from streamlet.app import load_app

    name, settings = named(common.with_servers(), app)
    if ":" not in app:
        return ApplicationInfo(name, settings)
    loaded = load_app(app)
    return ApplicationInfo.of(name, settings, loaded.topology(settings), loaded.assignor)


def opened(
    common: Common, app: str, purpose: str, stopped: threading.Event | None = None
) -> GroupWindow:
    """A window onto APP, by the address that was given, else by its own; ``stopped`` ends waits.

    Raises:
        AppNotFoundError: ``module:attribute`` leads to no application.
        ConfigError: wrong settings.
    """
    from streamlet.admin.window import ApplicationInfo
    from streamlet.app import load_app
    from streamlet.hosting.clients import open_window

    name, settings = named(common, app)
    servers = common.given_servers or settings.bootstrap_servers
    settings = attrs.evolve(settings, bootstrap_servers=servers)
    own = load_app(app).assignor if ":" in app else None
    return open_window(ApplicationInfo.of(name, settings, None, own), purpose, stopped)


def settings_of(common: Common, app: str | None) -> Settings:
    """The settings of APP, or those of this machine where none is named.

    Raises:
        AppNotFoundError: ``module:attribute`` leads to no application.
        ConfigError: wrong settings.
    """
    return common.load() if app is None else named(common, app)[1]


def state_root(common: Common, app: str | None, state_dir: Path | None) -> Path:
    """The state folder: from the option, else from the settings of APP, else by default.

    Raises:
        AppNotFoundError: ``module:attribute`` leads to no application.
        ConfigError: wrong settings.
    """
    return settings_of(common, app).state_dir if state_dir is None else state_dir
