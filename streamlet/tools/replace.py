"""``streamlet replace``: new instances take over from old ones, which then leave."""

from __future__ import annotations

from typing import Annotated

import typer

from streamlet.tools.application import AppArgument, scaled
from streamlet.tools.command import Common, command
from streamlet.tools.durations import timeout_ms
from streamlet.tools.scale_down import Timeout, Yes
from streamlet.tools.scaling_view import (
    Asking,
    ProgressView,
    not_finished,
    replaced_text,
)


@command("replace")
def replace(
    common: Common,
    app: AppArgument,
    old: Annotated[list[str], typer.Option(metavar="N", help="Who leaves, by --name; repeatable.")],
    new: Annotated[list[str], typer.Option(metavar="N", help="Who comes, by --name; repeatable.")],
    timeout: Timeout = None,
    join_timeout: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="How long the new ones are waited for, at first and when one is lost.",
        ),
    ] = "5m",
    yes: Yes = 0,
) -> None:
    """Swap hosts: new instances take over from old ones, which then leave.

    Start the new ones with streamlet run --name, before or after this command. It
    marks no instance before all of them have joined, waits until the old ones have
    left, and checks the group.

    When a new instance is lost meanwhile, the old ones keep their tasks until it is
    back. After --join-timeout they stay, and the command says who has the tasks.

    Exit 0: swapped, and every rule holds. 1: a rule is violated, or an old instance
    stays after all. 3: an old instance does not run. 4: the new ones did not join,
    or were lost, or the old ones have not left. 5: refused. 130: Ctrl-C before an
    instance was marked.
    """
    from streamlet.scaling import commands
    from streamlet.scaling.replace import Replacement

    known = scaled(common, app)
    asking = Asking(common, known.name, yes)
    wanted = Replacement(
        *(tuple(old), tuple(new)),
        timeout_ms=timeout_ms(timeout),
        join_timeout_ms=timeout_ms(join_timeout, "--join-timeout") or 0,
    )
    with asking.stop, ProgressView(common.output) as following:
        ways = commands.CommandPrompts(
            asking.ask, following.show, following.note, asking.stop.stopped
        )
        result = commands.replace(known, wanted, ways)
    common.output.answer(result.as_dict(), replaced_text(result))
    not_finished(not result.done)
    if result.violations:
        raise typer.Exit(1)
