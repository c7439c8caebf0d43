"""``streamlet status``: what an application's group is doing, and whether it is as it must be."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamlet.errors import BrokerError, NoSuchGroupError, NotFoundError, TimedOutError
from streamlet.hosting.signals import GracefulStop
from streamlet.tools.application import AppArgument, opened
from streamlet.tools.command import Common, command
from streamlet.tools.output import live
from streamlet.tools.status_view import view

if TYPE_CHECKING:
    from streamlet.admin.status_look import StatusLook

#: How far advice looks back under --watch.
MOST_WINDOW_MS = 300_000


@command("status")
def status(
    common: Common,
    app: AppArgument,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again every second until Ctrl-C.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Check what must always hold; exit 1 if not, 3 if nothing runs."
        ),
    ] = False,
    advice: Annotated[
        bool, typer.Option("--advice", help="Say how many instances the lag needs, and why.")
    ] = False,
    advice_window: Annotated[
        float,
        typer.Option(
            metavar="S", min=1.0, max=86_400.0, help="Seconds to watch the lag for, for the advice."
        ),
    ] = 15.0,
) -> None:
    """Show the instances, members and tasks of an application, and how far it lags.

    --check needs to know the application's settings where they differ from the defaults, and
    whether it has an assignor of its own: name it as module:attribute, or give --config or --set as
    to run.

    --watch waits for an application that is not there yet, and --advice with it looks back over the
    last five minutes at most.
    """
    from streamlet.admin.status_look import StatusLook

    with opened(common, app, "status") as window:
        look = StatusLook(window, check, history=deque() if advice else None)
        if watch:
            code = look_on(common, look)
        else:
            code = look_once(common, look, window_s=advice_window if advice else 0.0)
    if code:
        raise typer.Exit(code)


def look_once(common: Common, look: StatusLook, window_s: float) -> int:
    """Show the status once, after measuring the lag; the exit code is returned."""
    if look.history is not None:
        look.exists()
        look.history.append(look.observe())
        common.output.note(f"watching the lag for {window_s:.0f} s")
        with GracefulStop() as stop:
            stop.asked.wait(window_s)
    found = look.now()
    common.output.answer(found, view(found, look.check))
    return check_code(found, look.check)


def look_on(common: Common, look: StatusLook, every_s: float = 1.0) -> int:
    """Look until Ctrl-C; the exit code of the last look is returned."""
    drawn = None if common.output.as_json else live()
    code, waiting = 0, False
    with GracefulStop() as stop, drawn or contextlib.nullcontext():
        look.window.stopped = stop.asked
        while not stop.asked.is_set():
            try:
                found = look.now()
            except (TimedOutError, BrokerError) as error:  # a watch outlives a broker that restarts
                common.output.note(str(error))
            except NoSuchGroupError as error:
                if not waiting:
                    common.output.note(f"{error}; waiting until there is")
                waiting = True
            else:
                waiting = False
                code = check_code(found, look.check)
                shown = view(found, look.check)
                if drawn is None:
                    common.output.tick(found, shown)
                else:
                    drawn.update(shown, refresh=True)
            _forget_old(look)
            stop.asked.wait(every_s)
    return code


def check_code(found: dict[str, Any], check: bool) -> int:
    """The exit code of a look: a healthcheck passes only for an application that runs."""
    if found["violations"]:
        return 1
    return NotFoundError.exit_code if check and not found["instances"] else 0


def _forget_old(look: StatusLook) -> None:
    history = look.history
    while history and history[-1].at_ms - history[0].at_ms > MOST_WINDOW_MS:
        history.popleft()
