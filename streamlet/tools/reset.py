"""``streamlet reset``: lets a stopped application start again from scratch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import attrs
import typer
from rich.console import Group, RenderableType
from rich.text import Text

from streamlet.errors import ConfigError
from streamlet.tools.application import AppArgument, scaled
from streamlet.tools.command import Common, command
from streamlet.tools.output import CommandOutput, table
from streamlet.tools.prompt import StopAfterConsent, Yes

if TYPE_CHECKING:
    from streamlet.reset.plan import PositionReset, ResetPlan
    from streamlet.reset.start import StartPosition

#: Positions that people are shown; --json has them all.
_MOVES_SHOWN = 40
_NOTHING = "nothing was changed"


@attrs.frozen
class StartOptions:
    """The options that say where an application begins again; one of them at most, and topics."""

    to: Annotated[
        str | None,
        typer.Option(
            metavar="earliest|latest|DATETIME",
            help="Where its topics are read from then on; a time is UTC unless it says otherwise. "
            "[default: earliest]",
            show_default=False,
        ),
    ] = None
    to_offset: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="This offset in every partition.")
    ] = None
    by_duration: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="So long before now: 90s, 2h, 7d, or PT2H30M."),
    ] = None
    shift_by: Annotated[
        int | None,
        typer.Option(metavar="N", help="So many records on from the committed position; -N: back."),
    ] = None
    from_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file with lines of topic,partition,offset."),
    ] = None
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="T", help="Only in this topic; others stay where they are."),
    ] = None
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Take members out of the group that were killed; one that is alive comes back, "
            "and nothing is done.",
        ),
    ] = False

    def position(self) -> StartPosition:
        """The position that the options name.

        Raises:
            ConfigError: they contradict each other, or cannot be read.
        """
        from streamlet.clock import SystemClock
        from streamlet.reset.start import StartPosition

        given = {
            "--to": self.to,
            "--to-offset": self.to_offset,
            "--by-duration": self.by_duration,
            "--shift-by": self.shift_by,
            "--from-file": self.from_file,
        }
        names = [name for name, value in given.items() if value is not None]
        if len(names) > 1:
            raise ConfigError([f"{' and '.join(names)} exclude each other"])
        if self.to_offset is not None:
            start = StartPosition(f"offset {self.to_offset}", offset=self.to_offset)
        elif self.by_duration is not None:
            start = StartPosition.before_now(self.by_duration, SystemClock().wall_ms())
        elif self.shift_by is not None:
            start = StartPosition(f"{self.shift_by:+d} records", shift=self.shift_by)
        elif self.from_file is not None:
            start = StartPosition.from_file(self.from_file)
        else:
            start = StartPosition.of(self.to or "earliest")
        return attrs.evolve(start, topics=tuple(dict.fromkeys(self.topic or ())))


@command("reset")
def reset(
    common: Common,
    app: AppArgument,
    start: StartOptions,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan only.")] = False,
    yes: Yes = False,
) -> None:
    """Reset an application: no state, and its topics from the start.

    All its instances have to be stopped. Sets the committed positions of the
    topics it reads, deletes its changelogs and repartition topics and makes them
    again. Each instance discards the state on its disk when it starts next. What
    it wrote to other topics stays there.

    With module:attribute in place of the id, topics that its topology does not
    have any more are deleted for good. A name proves nothing: a topic that the
    topology does not have is emptied or deleted only if its own records and
    settings show that the application made it; others are listed and left.

    An offset is kept within what a partition holds.

    Broken off halfway, no instance starts before the same command was given again.

    Exit 0: done. 1: the broker does not allow it. 2: no such position, or a topic
    that it does not read. 3: no such
    application or source topic. 4: brokers took too long, or Ctrl-C while they
    were at work. 5: refused, it is running (one that was killed is in the group
    until its session.timeout.ms is over), or needs --yes. 130: Ctrl-C.
    """
    from streamlet.reset import commands
    from streamlet.reset.waiting import UNFINISHED

    position = start.position()
    known = scaled(common, app)

    progress = ResetProgress(common.output, _NOTHING, UNFINISHED)
    with StopAfterConsent(progress.left) as stop:

        def ask(plan: ResetPlan) -> bool:
            return stop.shown(common.output, plan_view(plan), "go on?", _NOTHING, yes=yes)

        result = commands.reset(
            *(known, position, ask),
            dry_run=dry_run,
            stopped=stop.stopped,
            progress=progress.show,
            force=start.force,
        )
    if dry_run:
        common.output.notes(plan_view(result.plan))
    done = f"{known.name} was reset; each instance discards its state when it starts"
    common.output.answer(result.as_dict(), done if result.done else None)


class ResetProgress:
    """Shows each step as a line, and in a terminal how far it is.

    ``nothing`` and ``unfinished`` are the consequences of Ctrl-C before the first step, and later.
    """

    def __init__(self, output: CommandOutput, nothing: str, unfinished: str) -> None:
        self._output = output
        self._nothing, self._unfinished = nothing, unfinished
        self._step = ""
        self._begun = False

    def show(self, step: str, done: int, total: int) -> None:
        """Show how far a step is; one without anything to do is left out."""
        self._begun = True
        if not total:
            return
        if step != self._step:
            self._step = step
            self._output.note(f"{step}: {total}")
        if done < total:
            self._output.status(f"{step}: {done} of {total} done")

    def left(self) -> str:
        """The consequence of Ctrl-C: once a step was shown something may have been changed."""
        return f"stopped at once. {self._unfinished}" if self._begun else self._nothing


def plan_view(plan: ResetPlan) -> RenderableType:
    """A plan for people."""
    parts: list[RenderableType] = [
        Text.assemble((plan.application, "bold"), f": reset to {plan.start.where}")
    ]
    if plan.members:
        parts.append(Text(f"taken out of the group: {', '.join(plan.members)}"))
    if plan.unfinished:
        parts.append(Text("an earlier reset was broken off; this one finishes it"))
    rows = map(_row, plan.moves[:_MOVES_SHOWN])
    parts.append(table("READS", "PARTITION", "COMMITTED", "TO", rows=rows))
    if len(plan.moves) > _MOVES_SHOWN:
        parts.append(Text(f"and {len(plan.moves) - _MOVES_SHOWN} more; --json shows all"))
    names = [topic.name for topic in plan.recreated]
    if names:
        parts.append(Text(f"emptied (deleted and made again): {', '.join(names)}"))
    if plan.removed:
        parts.append(Text(f"deleted, as its topology has them no more: {', '.join(plan.removed)}"))
    if plan.left:
        parts.append(left_text(plan.application, plan.left))
    parts.append(Text("discarded: the state on every instance's disk, when it starts next"))
    return Group(*parts)


def left_text(application: str, topics: Sequence[str]) -> Text:
    """The topics that stay, for people, with the reason."""
    return Text(
        f"left as they are, since their settings and records together do not prove that"
        f" {application} made them, and others may have written the records: {', '.join(topics)}"
    )


def _row(move: PositionReset) -> tuple[object, ...]:
    before = None if move.before < 0 else move.before
    return move.partition.topic, move.partition.partition, before, move.after
