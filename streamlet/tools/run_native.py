"""``streamlet run`` with streamlet's own engine: workers in processes, or one in this process."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from streamlet.config import Settings
from streamlet.tools.command import Common

if TYPE_CHECKING:
    from streamlet.hosting.host import MetricsPlace


def run_native(
    common: Common,
    orders: dict[str, Any],
    metrics: MetricsPlace,
    drain_on_sigterm: bool,
    limit_ms: int | None,
) -> None:
    """Run an instance to its end, and print the answer.

    Args:
        common: the options of every command.
        orders: the workers' first order: where the application is, its overrides, names, how many.
        metrics: where to serve metrics.
        drain_on_sigterm: whether a first SIGTERM means what SIGUSR1 means.
        limit_ms: how long to wait for a broker at the start; None is as long as it takes.

    Raises:
        StreamletError: it cannot be started, or failed.
    """
    from streamlet.app import hosted, load_app
    from streamlet.hosting.fork_server import ForkServer
    from streamlet.hosting.host import Host
    from streamlet.hosting.signals import GracefulStop, let_through
    from streamlet.tools.run_live import LiveLine
    from streamlet.tools.run_progress import RunProgress

    name, members = orders["name"], orders["members"]
    with (
        GracefulStop(drains=True, drain_on_sigterm=drain_on_sigterm) as stop,
        ForkServer("streamlet.hosting.process") if members else nullcontext() as server,
    ):
        let_through()
        app = load_app(orders["app"])
        settings = common.load(app)
        common.output.event(_banner(app.name, name, members, settings))
        live = LiveLine(common.output, name)
        progress = RunProgress(common.output, app.name, name, live)
        host = Host(
            hosted(app, settings),  # one that cannot be is refused before anything is written
            name,
            stop.requests,
            members,
            on_event=progress.event,
            measures=live.shown,
            metrics=metrics,
            limit_ms=limit_ms,
        )
        work = host.work_here
        if server is not None:
            work = partial(host.supervise, server, orders, drain_on_sigterm=drain_on_sigterm)
        code = host.run(work)
        progress.ended(code, host.drained)
    if code:
        raise typer.Exit(code)


def _banner(application: str, name: str, members: int, settings: Settings) -> str:
    """The first line of a run: what runs where, and how it is stopped."""
    work = f"{members} worker process{'es' if members > 1 else ''}" if members else "this process"
    folder = Path(settings.state_dir).absolute()
    return (
        f"streamlet {version('streamlet')} runs {application} as {name}, in {work}; "
        f"broker: {settings.bootstrap_servers}; state: {folder}; Ctrl-C (SIGINT, SIGTERM) stops it "
        "after a commit, twice at once, SIGUSR1 once its tasks are handed over"
    )
