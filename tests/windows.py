"""Windows onto applications through clients that a test has."""

from __future__ import annotations

from typing import Any, cast

from streamlet.admin.window import ApplicationInfo, GroupWindow
from streamlet.config import Settings
from streamlet.kafka.ports import Admin


def window(
    transport: object, admin: Admin, name: str, settings: Settings | None = None, **more: Any
) -> GroupWindow:
    """A window that reads no control topic; ``more`` are its other arguments."""
    application = ApplicationInfo(name, settings or Settings.load())
    return GroupWindow(application, cast(Any, transport), lambda: admin, **more)
