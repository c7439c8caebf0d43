"""``streamlet delete``: takes a stopped application off its cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from streamlet.counted import counted
from streamlet.tools.application import AppArgument, scaled
from streamlet.tools.command import Common, command
from streamlet.tools.prompt import StopAfterConsent, Yes
from streamlet.tools.reset import ResetProgress, left_text

if TYPE_CHECKING:
    from streamlet.reset.delete import DeletePlan

_NOTHING = "nothing was deleted"


@command("delete")
def delete(
    common: Common,
    app: AppArgument,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan only.")] = False,
    yes: Yes = False,
) -> None:
    """Delete an application from the cluster: its group and its own topics.

    All its instances have to be stopped. Deletes its changelogs and repartition
    topics, its committed positions with the group, and last its control topic. The
    topics it reads and those it writes stay, and so does the state on disks, over
    which no instance starts again.

    A name proves nothing: without its program (module:attribute) a topic is deleted
    only if its own records and settings show that the application made it; others
    are listed and left.

    Broken off halfway, no instance starts before the same command was given again,
    or streamlet reset.

    Exit 0: done. 1: the broker does not allow it. 3: no such application. 4:
    brokers took too long, or Ctrl-C while they were at work. 5: refused, it is
    running, or needs --yes. 130: Ctrl-C.
    """
    from streamlet.reset import commands
    from streamlet.reset.delete import UNFINISHED

    known = scaled(common, app)
    progress = ResetProgress(common.output, _NOTHING, UNFINISHED)
    with StopAfterConsent(progress.left) as stop:

        def ask(plan: DeletePlan) -> bool:
            question = f"delete {plan.application}?"
            return stop.shown(common.output, _view(plan), question, _NOTHING, yes=yes)

        plan, done = commands.delete(
            known, ask, dry_run=dry_run, stopped=stop.stopped, progress=progress.show
        )
    if dry_run:
        common.output.notes(_view(plan))
    text = f"{known.name} was deleted; the state on disks of its instances is still there"
    common.output.answer(plan.as_dict(done=done), text if done else None)


def _view(plan: DeletePlan) -> RenderableType:
    """A plan for people."""
    names = ", ".join([*plan.names, plan.control])
    parts: list[RenderableType] = [
        Text.assemble((plan.application, "bold"), ": delete"),
        Text(f"topics: {names}"),
        Text(f"its group, with the committed positions of {counted(plan.positions, 'partition')}"),
    ]
    if plan.left:
        parts.append(left_text(plan.application, plan.left))
    return Group(*parts)
