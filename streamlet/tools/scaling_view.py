"""The questions and views of ``scale-down`` and ``replace``: the plan, then every moving task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from streamlet.counted import counted
from streamlet.errors import TimedOutError
from streamlet.tools.command import Common
from streamlet.tools.output import CommandOutput, live, table
from streamlet.tools.prompt import StopAfterConsent, can_ask, confirm

if TYPE_CHECKING:
    from streamlet.scaling.plan import ScaleDownPlan
    from streamlet.scaling.progress import MoveProgress, Progress
    from streamlet.scaling.replace import ReplaceResult
    from streamlet.scaling.scale_down import ScaleDownResult

#: Moves of a plan that people are shown; --json has them all.
_MOVES_SHOWN = 40
#: What stands around the tasks on their way: a head, a sum, and the cursor's line.
_LINES_AROUND = 3
_NOTHING = "nothing was marked"


class Asking:
    """Shows the plan and asks, unless ``--yes`` was given; ``yes`` counts how often.

    ``stop`` is for Ctrl-C in the command.
    """

    def __init__(self, common: Common, name: str, yes: int) -> None:
        self._output = common.output
        self._name = name
        self._yes = yes
        self.stop = StopAfterConsent(self._left)

    @property
    def asks_twice(self) -> bool:
        """True if all may leave: a second question, or a second --yes, is about that."""
        return self._yes > 1 or (not self._yes and can_ask(self._output))

    def ask(self, plan: ScaleDownPlan) -> bool:
        """Show the plan; True to go on.

        Raises:
            RefusedError: the answer is no, or there is no terminal to ask at.
            KeyboardInterrupt: Ctrl-C, or SIGTERM.
        """
        from streamlet.scaling.scale_down import ScaleDownResult

        self._output.notes(
            plan_view(self._name, ScaleDownResult.of(plan, done=False), plan.stateless)
        )
        if not self._yes:
            questions = ["go on?"]
            if not plan.staying:
                questions.append("no instance will be left to go on with the work; really?")
            confirm(self._output, questions, _NOTHING)
        self.stop.agree()
        return True

    def _left(self) -> str:
        if self.stop.agreed:
            return "stopped at once; instances that are marked leave all the same"
        return _NOTHING

    def show_plan_of(self, result: ScaleDownResult) -> None:
        """Show the plan of a dry run."""
        self._output.notes(plan_view(self._name, result, None))


def plan_view(name: str, plan: ScaleDownResult, stateless: int | None) -> RenderableType:
    """A plan for people."""
    moves = plan.moves
    if not plan.leaving:
        return Text(f"{name}: no instance has to leave")
    parts: list[RenderableType] = [
        Text.assemble((name, "bold"), f": {_listed(plan.leaving)} to leave"),
        Text(f"stays: {_listed(plan.staying)}"),
        Text(_sum(moves, stateless, plan.estimate_s if plan.staying else None)),
    ]
    if moves:
        rows = [
            (move["task"], move["from"], move["to"], size(move["bytes"]))
            for move in moves[:_MOVES_SHOWN]
        ]
        parts.append(table("TASK", "FROM", "TO", "STATE", rows=rows))
    if len(moves) > _MOVES_SHOWN:
        parts.append(Text(f"and {len(moves) - _MOVES_SHOWN} more; --json shows all"))
    return Group(*parts)


def _sum(moves: Sequence[dict[str, Any]], stateless: int | None, estimate_s: float | None) -> str:
    """``estimate_s`` is None where no instance stays that could take anything over."""
    stateful = f"{len(moves)} stateful task{'s' * (len(moves) != 1)}"
    others = f", and {stateless} without state" if stateless else ""
    if estimate_s is None:
        return f"{stateful} to stop{others}: no instance takes them over"
    state = size(sum(move["bytes"] for move in moves))
    return f"{stateful} to move, {state} to copy{others}; about {seconds(estimate_s)}"


def size(count: int) -> str:
    """Bytes as people read them."""
    amount, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while amount >= 1000 and len(units) > 1:
        amount /= 1000
        units.pop(0)
    return f"{count} B" if units[0] == "B" else f"{amount:.1f} {units[0]}"


def seconds(amount: float) -> str:
    """A duration as people read it."""
    if amount < 60:
        return f"{amount:.1f} s"
    if amount < 3600:
        return f"{amount / 60:.0f} min"
    return f"{amount / 3600:.1f} h"


class ProgressView:
    """Shows progress: a table that changes where people watch, else a line for what changed."""

    def __init__(self, output: CommandOutput) -> None:
        self._output = output
        self._live = None if output.as_json else live()
        self._before: Progress | None = None
        self._started = False

    def __enter__(self) -> ProgressView:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None and self._started:
            self._live.stop()

    def note(self, text: str) -> None:
        """Tell something beside it, above the table if there is one."""
        if self._live is not None and self._started:
            self._live.console.print(Text(text))
        else:
            self._output.note(text)

    def show(self, progress: Progress) -> None:
        """Show how far it is."""
        if self._live is not None:
            if not self._started:
                self._live.start()  # only now: a question asked before it would be drawn over
                self._started = True
            lines = self._live.console.height
            self._live.update(progress_view(progress, lines), refresh=True)
            return
        for line in progress_lines(self._before, progress):
            self._output.note(line)
        self._before = progress


def progress_lines(before: Progress | None, now: Progress) -> list[str]:
    """The changes, a line each: the stages of tasks, and who has left."""
    shown = {step.task: (step.stage, step.target) for step in before.steps} if before else {}
    gone = before.left if before else ()
    lines = [_line(step) for step in now.steps if shown.get(step.task) != (step.stage, step.target)]
    return lines + [f"{name} has left" for name in now.left if name not in gone]


def progress_view(progress: Progress, lines: int | None = None) -> RenderableType:
    """Every task and where it is, for people; in so many lines those that are on their way."""
    from streamlet.scaling.progress import ACTIVE, QUEUED

    steps = progress.steps
    if lines is not None and len(steps) > lines - _LINES_AROUND:
        at_rest = sorted(steps, key=lambda step: step.stage in (QUEUED, ACTIVE))
        steps = tuple(at_rest[: max(lines - _LINES_AROUND, 1)])
    rows = [
        (step.task, step.source, step.target, step.stage, _restored(step), _eta(step))
        for step in steps
    ]
    hidden = len(progress.steps) - len(steps)
    more = f"; {hidden} not shown" if hidden else ""
    left = f"; left: {_listed(progress.left)}" if progress.left else ""
    going = f"; leaving: {_listed(progress.leaving)}" if progress.leaving else ""
    return Group(
        table("TASK", "FROM", "TO", "STAGE", "RESTORED", "ETA", rows=rows),
        Text(f"{progress.moved} of {len(progress.steps)} moved{left}{going}{more}"),
    )


def _line(step: MoveProgress) -> str:
    to = f" -> {step.target}" if step.target else ""
    restored = _restored(step)
    return f"{step.task} {step.source}{to}: {step.stage}{f' ({restored})' if restored else ''}"


def _restored(step: MoveProgress) -> str | None:
    if step.restored is None or not step.end:
        return None
    share = min(step.restored / step.end, 1.0)
    rate = "" if step.rate is None else f", {step.rate:,.0f}/s"
    return f"{step.restored:,} of {step.end:,}, {share:.0%}{rate}"


def _eta(step: MoveProgress) -> str | None:
    return None if step.eta_s is None else seconds(step.eta_s)


def leaving_text(result: ScaleDownResult, *, cancelled: bool) -> str:
    """The end of a scale-down, for people."""
    if cancelled:
        left = f"; still leaving: {_listed(result.leaving)}" if result.leaving else ""
        return f"staying: {_listed(result.staying)}{left}"
    if not result.leaving:
        return "no instance has to leave"
    if result.done:
        return f"{_listed(result.leaving)} left; staying: {_listed(result.staying)}"
    return f"{_listed(result.leaving)} marked to leave; streamlet status shows how far it is"


def replaced_text(result: ReplaceResult) -> str:
    """The end of a swap, for people."""
    running = [f"  {name} runs {counted(count, 'task')}" for name, count in result.tasks.items()]
    if result.problem is not None:
        return "\n".join([f"not replaced: {result.problem}", *running])
    if not result.done:
        return f"{_listed(result.old)} not replaced yet"
    lines = [f"{_listed(result.old)} left, {_listed(result.new)} took over", *running]
    wrong = [f"violated {one['rule']}: {one['text']}" for one in result.violations]
    return "\n".join([*lines, *(wrong or ["all checks hold"])])


def not_finished(unfinished: bool) -> None:
    """Leave with the exit code of a wait that was broken off."""
    if unfinished:
        raise typer.Exit(TimedOutError.exit_code)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
