"""``streamlet state``: the folders of state on this machine, and making room."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamlet.clock import SystemClock
from streamlet.errors import ConfigError, NotFoundError
from streamlet.tools.application import StateDir, named, settings_of, state_root
from streamlet.tools.command import Common, command
from streamlet.tools.durations import duration_ms
from streamlet.tools.output import FactsTable, table
from streamlet.tools.prompt import Yes, confirm
from streamlet.tools.scaling_view import seconds, size

if TYPE_CHECKING:
    from streamlet.state.listing import Listed

App = Annotated[
    str | None,
    typer.Argument(
        metavar="[APP]", help="The application's id, or module:attribute; without it, all."
    ),
]


@command("state list")
def list_(common: Common, app: App = None, state_dir: StateDir = None) -> None:
    """List the task folders on this machine: content, the process that has each, or its age.

    Positions are the changelog offsets that the stores contain everything before.
    """
    root, found = _found(common, app, state_dir)
    now_ms = SystemClock().wall_ms()
    people = _table(found, now_ms) if found else f"no state in {root}"
    common.output.answer(
        {"state_dir": str(root), "tasks": [_document(one) for one in found]}, people
    )


@command("state clean")
def clean(
    common: Common,
    app: App = None,
    state_dir: StateDir = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Dormant for so long (90s, 10m, 7d). [default: state.cleanup.delay.ms]",
            show_default=False,
        ),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Everything dormant, however short a time it has been.",
            envvar="STREAMLET_STATE_CLEAN_ALL",
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go only.")] = False,
    yes: Yes = False,
) -> None:
    """Delete unused state; what a process has open always stays.

    It is restored from the changelogs if its task comes back to this machine,
    which takes its time. Stores without a changelog are lost. Instances that run
    delete dormant state themselves after state.cleanup.delay.ms, unless others
    have too few copies; this command does not ask others.

    Exit 0: done, or there was nothing to delete. 3: no state of this application.
    5: refused, needs --yes.
    """
    from streamlet.state.directory import StateDirectory
    from streamlet.state.listing import spare

    if everything and older_than is not None:
        raise ConfigError(["--all goes without --older-than"])
    root, found = _found(common, app, state_dir)
    now_ms = SystemClock().wall_ms()
    goes = spare(found, 0 if everything else _delay_ms(common, app, older_than), now_ms)
    if goes and not dry_run:
        _ask(common, goes, now_ms, yes)
    # State that a process began to use since it was shown stays, too.
    gone = [
        one
        for one in goes
        if not dry_run and StateDirectory(root, one.application).clean(one.folder)
    ]
    shown = goes if dry_run else gone
    common.output.answer(
        {
            "state_dir": str(root),
            "deleted": [_document(one) for one in shown],
            "kept": [_document(one) for one in found if one not in shown],
            "done": not dry_run,
        },
        _summary(common, shown, found, now_ms, dry_run),
    )


def _found(common: Common, app: str | None, state_dir: Path | None) -> tuple[Path, list[Listed]]:
    from streamlet.state.listing import applications, listed

    root = state_root(common, app, state_dir)
    name = None if app is None else named(common, app)[0]
    found = listed(root, name)
    if name is not None and not found and name not in applications(root):
        raise NotFoundError(f"there is no state of {name} in {root}")
    return root, found


def _delay_ms(common: Common, app: str | None, older_than: str | None) -> int:
    given = duration_ms(older_than, "--older-than")
    if given is not None:
        return given
    return settings_of(common, app).state_cleanup_delay_ms


def _ask(common: Common, goes: list[Listed], now_ms: int, yes: bool) -> None:
    common.output.notes(_table(goes, now_ms))
    if not yes:
        confirm(common.output, [f"delete {_count(goes)}?"], "nothing was deleted")


def _summary(
    common: Common, shown: list[Listed], found: list[Listed], now_ms: int, dry_run: bool
) -> str:
    if dry_run and shown:
        common.output.notes(_table(shown, now_ms))
    kept = len(found) - len(shown)
    text = f"{'would delete' if dry_run else 'deleted'} {_count(shown)}; {kept} left"
    used = sum(one.folder.holder is not None for one in found)
    return text + (f", {used} of them in use" if used else "")


def _count(some: list[Listed]) -> str:
    total = sum(one.folder.bytes for one in some)
    return f"the state of {len(some)} task{'s' * (len(some) != 1)}, {size(total)}"


def _table(found: list[Listed], now_ms: int) -> FactsTable:
    rows = [
        (
            one.application,
            one.folder.path.name,
            " ".join(one.stores) or None,
            size(one.folder.bytes),
            " ".join(str(offset) for _, offset in one.positions) or None,
            one.problem or _use(one, now_ms),
        )
        for one in found
    ]
    return table("APPLICATION", "TASK", "STORES", "SIZE", "POSITION", "USE", rows=rows)


def _use(one: Listed, now_ms: int) -> str:
    since_ms = one.folder.dormant_since_ms
    if since_ms is None:
        return f"in use by process {one.folder.holder}" if one.folder.holder else "in use"
    return f"dormant for {seconds(max(now_ms - since_ms, 0) / 1000)}"


def _document(one: Listed) -> dict[str, Any]:
    return {
        "application": one.application,
        "task": str(one.folder.task),
        "path": str(one.folder.path),
        "stores": list(one.stores),
        "bytes": one.folder.bytes,
        "changelogs": [
            {"topic": tp.topic, "partition": tp.partition, "position": offset}
            for tp, offset in one.positions
        ],
        "in_use_by": one.folder.holder,
        "dormant_since_ms": one.folder.dormant_since_ms,
        "problem": one.problem,
    }
