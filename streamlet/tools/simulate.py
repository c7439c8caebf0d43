"""``streamlet simulate``: play a scenario, or made-up histories, without a broker."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from streamlet.terminal import console
from streamlet.tools.command import Common, command


@command("simulate")
def simulate(
    common: Common,
    scenario: Annotated[
        Path | None,
        typer.Argument(metavar="SCENARIO.json", help="The file to play.", show_default=False),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Where chance begins, in place of the scenario's own.", min=0),
    ] = None,
    random: Annotated[
        bool, typer.Option("--random", help="Make histories up instead of playing a file.")
    ] = False,
    steps: Annotated[int, typer.Option(help="With --random: steps to play.", min=1)] = 2_000,
) -> None:
    """Play a group in memory: real members and assignor, everything else imitated.

    Exits with 1 if something expected did not come true or a rule was broken, with 2 if the
    scenario cannot be played. --set changes a setting of the scenario. A failing random history is
    printed as a scenario that plays it again.
    """
    if random == (scenario is not None):
        raise typer.BadParameter("give either a scenario or --random")
    # What a simulated worker warns of is part of the play, and not of now.
    logging.getLogger("streamlet.runtime").setLevel(logging.ERROR)
    if scenario is not None:
        held = _play(common, scenario, seed)
    else:
        held = _make_up(common, 0 if seed is None else seed, steps)
    if not held:
        raise typer.Exit(1)


def _play(common: Common, path: Path, seed: int | None) -> bool:
    from streamlet.testing.simulation import read_scenario, table
    from streamlet.testing.simulation import simulate as play

    outcome = play(read_scenario(path, common.settings), seed=seed)
    common.output.answer(outcome.result, people=table(outcome.result))
    if not outcome.held and common.output.as_json:
        for broken in outcome.result["violations"]:
            common.output.note(f"{broken['rule']}: {broken['text']}")
    return outcome.held


def _make_up(common: Common, seed: int, steps: int) -> bool:
    from streamlet.testing.simulation import random_run

    with _progress(steps) as tell:
        run = random_run(seed, steps, progress=tell)
    text = f"seed {seed}: {run.steps} steps, {run.histories} histories, {run.rebalances} rebalances"
    if run.held:
        common.output.answer(run.as_json(), people=f"{text}; every rule held")
        return True
    common.output.note(f"{text}; broken:")
    for broken in run.violations:
        common.output.note(f"  {broken['rule']}: {broken['text']}")
    common.output.answer(run.as_json(), people=json.dumps(run.scenario, indent=1))
    return False


@contextmanager
def _progress(steps: int) -> Iterator[Callable[[int], None]]:
    """A line on a terminal that says how far we are."""
    with Progress(
        console=console(sys.stderr), transient=True, disable=not sys.stderr.isatty()
    ) as bar:
        task = bar.add_task("steps", total=steps)
        yield lambda done: bar.update(task, completed=done)
