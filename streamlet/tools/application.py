"""Which application a command is about: its id, and settings to reach its brokers with."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from streamlet.tools.command import Common

if TYPE_CHECKING:
    from streamlet.config import Settings


def named(common: Common, app: str) -> tuple[str, Settings]:
    """The id and settings of APP, which is an application's id or ``module:attribute``.

    Raises:
        AppNotFoundError: ``module:attribute`` leads to no application.
        ConfigError: wrong settings.
    """
    from streamlet.config import Settings

    given = [f"{key}={value}" for key, value in common.settings.items()]
    if ":" not in app:
        return app, Settings.load(environ=os.environ, overrides=given)
    from streamlet.app import load_app

    loaded = load_app(app)
    return loaded.name, loaded.load_settings(environ=os.environ, overrides=given)
