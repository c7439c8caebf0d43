"""Opens the client of a group by an application's settings: for members, commands and starts."""

from __future__ import annotations

from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.coordinator.transport import Transport


def group_client(
    settings: Settings, client_id: str = "streamlet", clock: Clock | None = None
) -> Transport:
    """A transport to the brokers of the settings; ``client_id`` and ``clock`` as of that."""
    config = settings.client_config("group")
    return Transport(settings.bootstrap_servers, config, client_id=client_id, clock=clock)
