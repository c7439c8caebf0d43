"""``streamlet registry``: a schema registry on this machine, started, found again and ended."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from streamlet.broker.record import RegistryRecord, running, some_running
from streamlet.own_files import user_folder
from streamlet.tools.broker import Port, starting
from streamlet.tools.command import Common, command
from streamlet.tools.output import table

OnePort = Annotated[
    int | None, typer.Option(min=1, max=65535, help="Only the registry on this port.")
]


@command("registry start")
def start(common: Common, port: Port = 8081) -> None:
    """Start Apicurio, which has Confluent's API, and wait until it serves.

    Schemas are in its memory: they go with it.
    """
    from streamlet.broker.registry import RegistryServer

    for record in running(RegistryRecord, port):
        common.output.note(f"a schema registry runs on port {port} already")
        _answer(common, record)
        return
    folder = user_folder("data") / "registry" / str(port) if port else None
    server = RegistryServer(port or None, folder)
    with starting(server, "the schema registry"):
        server.start(detached=True)
        record = RegistryRecord(server.port, server.pid, str(server.folder), ephemeral=not port)
        record.save()
    _answer(common, record)


@command("registry stop")
def stop(common: Common, port: OnePort = None) -> None:
    """Stop the schema registries that were started here; exit 3 when there is none."""
    stopped = some_running(RegistryRecord, port)
    for record in stopped:
        record.stop()
    common.output.answer(
        {"stopped": [_described(record) for record in stopped]},
        "\n".join(f"stopped {record.url}" for record in stopped),
    )


@command("registry status")
def status(common: Common, port: OnePort = None) -> None:
    """Show the schema registries that were started here; exit 3 when there is none."""
    found = [
        {**_described(record), "ready": record.ready}
        for record in some_running(RegistryRecord, port)
    ]
    common.output.answer(
        {"registries": found},
        table(
            *("SCHEMA REGISTRY", "PROCESS", "READY"),
            rows=[(one["url"], one["pid"], "yes" if one["ready"] else "no") for one in found],
        ),
    )


def _answer(common: Common, record: RegistryRecord) -> None:
    common.output.answer(
        {**_described(record), "ready": record.ready},
        f"the schema registry serves (process {record.pid}): "
        f"export SCHEMA_REGISTRY_URL={record.url}",
    )


def _described(record: RegistryRecord) -> dict[str, Any]:
    return {
        "url": record.url,
        "port": record.port,
        "pid": record.pid,
        "log": str(Path(record.data_dir) / "registry.log"),
    }
