"""The address at which a member's server of queries is found, as the control topic has it."""

from __future__ import annotations

import socket

from streamlet.config import Settings
from streamlet.control.values import MemberKey, StoreServer

#: All interfaces.
EVERY = ("0.0.0.0", "::")


def server_entry(
    settings: Settings, member: MemberKey, name: str, ours: tuple[str, int] | None
) -> StoreServer:
    """The address of a member's server; ``ours`` are scheme and port of streamlet's own.

    Without one it is the setting ``application.server``.
    """
    given = settings.application_server
    scheme, port = ours or ("", 0)
    if given is not None:
        return StoreServer(
            member.instance, member.number, name, given[0], given[1] + member.number, scheme
        )
    host = socket.gethostname() if settings.http_host in EVERY else settings.http_host
    return StoreServer(member.instance, member.number, name, host, port, scheme)
