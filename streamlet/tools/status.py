"""``streamlet status``: what an application's group is doing, and whether it is as it must be."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated

import attrs
import typer

from streamlet.errors import BrokerError, TimedOutError
from streamlet.runtime.signals import GracefulStop
from streamlet.tools.application import AppArgument, named
from streamlet.tools.command import Common, command
from streamlet.tools.status_view import view

if TYPE_CHECKING:
    from streamlet.group.look import Look


@command("status")
def status(
    common: Common,
    app: AppArgument,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again every second until Ctrl-C.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Check what must always hold; exit 1 if it does not.")
    ] = False,
) -> None:
    """Show the instances, members and tasks of an application, and how far it lags.

    --check needs to know the application's settings where they differ from the defaults: name it as
    module:attribute, or give --config or --set as to run.
    """
    from streamlet.group.look import Look
    from streamlet.group.tasks import rules_from
    from streamlet.group.transport import Transport
    from streamlet.kafka.client import KafkaAdmin

    application, settings = named(common, app)
    servers = common.given_servers or settings.bootstrap_servers
    transport = Transport(servers, settings.client_config("group"), client_id="streamlet-status")
    try:
        admin = KafkaAdmin(servers, settings.client_config("admin"))
        try:
            rules = rules_from(settings, learners=True)
            look = Look(transport, admin, application, check, rules)
            held = look_on(common, look) if watch else look_once(common, look)
        finally:
            admin.close()
    finally:
        transport.close()
    if not held:
        raise typer.Exit(1)


def look_once(common: Common, look: Look) -> bool:
    """Look once; whether what was checked held."""
    found = look.now()
    common.output.answer(found, view(found, look.check))
    return not found["violations"]


def look_on(common: Common, look: Look, every_s: float = 1.0) -> bool:
    """Look until Ctrl-C; whether what was checked held the last time."""
    from rich.console import Console
    from rich.live import Live

    people = not common.output.as_json and Console().is_terminal
    live = Live(auto_refresh=False) if people else None
    held = True
    with GracefulStop() as stop, live or contextlib.nullcontext():
        look = attrs.evolve(look, stopped=stop.asked)
        while not stop.asked.is_set():
            try:
                found = look.now()
            except (TimedOutError, BrokerError) as error:
                # A watch outlives a broker that restarts, but not an application that is not there.
                common.output.note(str(error))
            else:
                held = not found["violations"]
                shown = view(found, look.check)
                if live is None:
                    common.output.tick(found, shown)
                else:
                    live.update(shown, refresh=True)
            stop.asked.wait(every_s)
    return held
