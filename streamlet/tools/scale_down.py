"""``streamlet scale-down``: instances hand their tasks over and leave, nothing is interrupted."""

from __future__ import annotations

from typing import Annotated

import typer

from streamlet.errors import ConfigError
from streamlet.tools.application import AppArgument, scaled
from streamlet.tools.command import Common, command
from streamlet.tools.durations import timeout_ms
from streamlet.tools.scaling_view import Asking, ProgressView, leaving_text, not_finished
from streamlet.user_code import shown

Timeout = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Leavers are out after so long (30s, 10m, 2h), though others still copy their state; "
        "then tasks stand still until the copies are whole. infinite: as long as copying takes. "
        "[default: scale.down.timeout.ms]",
        show_default=False,
    ),
]
Yes = Annotated[
    int,
    typer.Option("--yes", "-y", count=True, help="Do not ask. Twice: also if no instance stays."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and mark no instance.")]


def _percent(given: str) -> float:
    """A number, behind which a percent sign may stand."""
    try:
        return float(given.strip().removesuffix("%"))
    except ValueError as error:
        raise typer.BadParameter(f"{shown(given)}: expected a number, such as 50") from error


Percent = Annotated[
    float | None,
    typer.Option(
        metavar="P",
        parser=_percent,
        help="How much stays: P % of the instances, rounded up, at least one.",
    ),
]


@command("scale-down")
def scale_down(
    common: Common,
    app: AppArgument,
    percent: Percent = None,
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="N", help="Who leaves, by --name or process id; repeatable."),
    ] = None,
    timeout: Timeout = None,
    wait: Annotated[
        bool | None,
        typer.Option(
            "--wait/--no-wait",
            help="Stay until all have left. [default: yes, with --json no]",
            show_default=False,
        ),
    ] = None,
    dry_run: DryRun = False,
    cancel: Annotated[
        bool,
        typer.Option("--cancel", help="Those that are leaving stay: the ones named, or all."),
    ] = False,
    yes: Yes = 0,
) -> None:
    """Let instances leave once others have taken their tasks over.

    With --percent those leave whose state is least to copy. The plan is shown
    first. Its bytes are what the tasks' changelogs take on the broker's disk, 0
    where the new owner keeps a warm copy; its time assumes that a worker copies
    20 MB/s, restore.max.share of its time, and a little for each task.

    Once marked, instances leave and end by themselves, whatever becomes of this
    command: Ctrl-C then only ends the watching, and before that the command.

    Exit 0: as asked. 1: an instance stays after all, as its mark was removed, or
    ended with tasks. 3: no such application or instance, or it is not running.
    4: not all have left, or nothing was marked as the group goes on rebalancing.
    5: refused. 130: Ctrl-C before an instance was marked.
    """
    from streamlet.scaling import commands
    from streamlet.scaling.scale_down import ScaleDownRequest

    wait = not common.output.as_json if wait is None else wait
    known = scaled(common, app)
    asking = Asking(common, known.name, yes)
    if cancel and (percent is not None or timeout is not None or dry_run):
        raise ConfigError(["--cancel goes with --name or alone"])
    with asking.stop, ProgressView(common.output) as view:
        ways = commands.CommandPrompts(asking.ask, view.show, view.note, asking.stop.stopped)
        if cancel:
            asking.stop.agree()
            result = commands.cancel_scale_down(known, name or (), ways, wait=wait)
        else:
            limit_ms = timeout_ms(timeout)
            asked = ScaleDownRequest(percent, tuple(name or ()), limit_ms, asking.asks_twice)
            result = commands.scale_down(known, asked, ways, wait=wait, dry_run=dry_run)
    if dry_run:
        asking.show_plan_of(result)
    common.output.answer(
        result.as_dict(), None if dry_run else leaving_text(result, cancelled=cancel)
    )
    not_finished(wait and not dry_run and not result.done)
