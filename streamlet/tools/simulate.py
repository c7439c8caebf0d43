"""``streamlet simulate``: play a scenario, or made-up histories, without a broker."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

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
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="PAGE.html",
            help="Write a page that plays it step by step, offline; with --random, what failed.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Play a group in memory: real members and assignor, everything else imitated.

    Exits with 1 if something expected did not come true or a rule was broken, with 2 if the
    scenario cannot be played or the page of --html cannot be written. --set changes a setting of
    the scenario. A failing random history is printed as a scenario that plays it again.
    """
    if random == (scenario is not None):
        raise typer.BadParameter("give either a scenario or --random")
    if html is not None:
        _check_place(html, scenario)
    # What a simulated worker tells is part of the play, and not of now.
    logging.getLogger("streamlet").setLevel(logging.CRITICAL)
    if scenario is not None:
        held = _play(common, scenario, seed, html)
    else:
        held = _make_up(common, 0 if seed is None else seed, steps, html)
    if not held:
        raise typer.Exit(1)


def _play(common: Common, path: Path, seed: int | None, html: Path | None) -> bool:
    from streamlet.testing.simulation import read_scenario, table
    from streamlet.testing.simulation import simulate as play

    scenario = read_scenario(path, common.settings)
    outcome = play(scenario, seed=seed, watched=html is not None)
    common.output.answer(outcome.result, people=table(outcome.result))
    if not outcome.held and common.output.as_json:
        for broken in outcome.result["violations"]:
            common.output.note(f"{broken['rule']}: {broken['text']}")
    if html is not None and outcome.playback is not None:
        _write(common, html, outcome.playback)
    return outcome.held


def _make_up(common: Common, seed: int, steps: int, html: Path | None) -> bool:
    from streamlet.testing.simulation import parse_scenario, random_run
    from streamlet.testing.simulation import simulate as play

    with _progress(steps) as tell:
        run = random_run(seed, steps, progress=tell)
    text = f"seed {seed}: {run.steps} steps, {run.histories} histories, {run.rebalances} rebalances"
    if run.held:
        common.output.answer(run.as_json(), people=f"{text}; every rule held")
        if html is not None:
            common.output.note(f"{html} is not written: no history failed")
        return True
    common.output.note(f"{text}; broken:")
    for broken in run.violations:
        common.output.note(f"  {broken['rule']}: {broken['text']}")
    common.output.answer(run.as_json(), people=json.dumps(run.scenario, indent=1))
    if html is not None:
        playback = play(parse_scenario(run.scenario), watched=True).playback
        if playback is not None:
            _write(common, html, playback)
    return False


def _check_place(html: Path, scenario: Path | None) -> None:
    """Refuse a page that could not be written, before anything is played."""
    folder = html.absolute().parent
    if not folder.is_dir():
        raise _unwritable(html, f"there is no folder {folder}")
    if html.is_dir():
        raise _unwritable(html, "it is a folder")
    if scenario is not None and html.resolve() == scenario.resolve():
        raise _unwritable(html, "it is the scenario")
    if not os.access(html if html.exists() else folder, os.W_OK):
        raise _unwritable(html, "this user may not write there")


def _unwritable(html: Path, why: str) -> typer.BadParameter:
    text = f"cannot write {html}: {why}; name a file in a folder of yours"
    return typer.BadParameter(text, param_hint="--html")


def _write(common: Common, html: Path, playback: Mapping[str, Any]) -> None:
    from streamlet.testing.simulation import playback_page

    try:
        html.write_bytes(playback_page(playback))
    except OSError as error:
        raise _unwritable(html, error.strerror or str(error)) from error
    common.output.note(f"{html} plays it in a browser")


@contextmanager
def _progress(steps: int) -> Iterator[Callable[[int], None]]:
    """A line on a terminal that says how far we are."""
    with Progress(
        console=console(sys.stderr), transient=True, disable=not sys.stderr.isatty()
    ) as bar:
        task = bar.add_task("steps", total=steps)
        yield lambda done: bar.update(task, completed=done)
