"""``streamlet pause`` and ``resume``: an application stands still without leaving its group."""

from __future__ import annotations

import socket
from typing import Annotated

import typer

from streamlet.hosting.signals import GracefulStop
from streamlet.tools.application import AppArgument, opened
from streamlet.tools.command import Common, command

Subtopology = Annotated[
    str | None,
    typer.Option(
        metavar="S",
        help="Only this one: its number, or a store, topic or node that only it has.",
    ),
]


@command("pause")
def pause(common: Common, app: AppArgument, subtopology: Subtopology = None) -> None:
    """Have an application process nothing until it is resumed.

    Instances keep their tasks and stay in the group, commit what they have done,
    and hand tasks over as ever; copies go on learning. Only records are not read,
    and timers do not fire. The pause is noted in the control topic, and holds for
    instances that start later, too. streamlet status shows it.

    Exit 3: no such application or subtopology.
    """
    from streamlet.scaling.pauses import PauseCommand

    with GracefulStop() as stop, opened(common, app, "pause", stop.asked) as window:
        result = PauseCommand(window, subtopology).pause(socket.gethostname())
    what = f"{window.name}: paused, until streamlet resume"
    common.output.answer(result.as_dict(), what if result.changed else "it was paused before")


@command("resume")
def resume(common: Common, app: AppArgument, subtopology: Subtopology = None) -> None:
    """Have a paused application, or one subtopology of it, go on where it was.

    Exit 3: no such application or subtopology. 5: one subtopology was named, and
    the whole application is paused.
    """
    from streamlet.scaling.pauses import PauseCommand

    with GracefulStop() as stop, opened(common, app, "resume", stop.asked) as window:
        result = PauseCommand(window, subtopology).resume()
    common.output.answer(result.as_dict(), "resumed" if result.changed else "it was not paused")
