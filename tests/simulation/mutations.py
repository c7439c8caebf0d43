"""Breaks each rule of the task manager in a copy of the package, and plays the simulation suites.

``python -m tests.simulation.mutations [NAME…]`` prints which suite finds each mutation, and after
how much processor time. The scenario files come first, then the same with late and lost messages,
then the first 250 random histories. The model is not among them: it speaks of rules, not of this
code.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import attrs

from streamlet.testing.simulation import read_scenario, simulate
from streamlet.testing.simulation.random_history import History
from tests.simulation.mutation_list import MUTATIONS, Mutation
from tests.simulation.test_random_histories import HISTORIES
from tests.spec.test_scenarios import FILES, without_limits

ROOT = Path(__file__).resolve().parents[2]


@attrs.frozen
class Verdict:
    """The first run that a mutation broke, None if none was; ``seconds`` of processor time."""

    found_by: str | None
    rule: str
    text: str
    seconds: float


def mutated(mutation: Mutation, package: Path) -> str:
    """The text of the mutated file.

    Raises:
        ValueError: the source text is not in it exactly once.
    """
    path = package / mutation.file
    text = path.read_text("utf-8")
    if (count := text.count(mutation.source)) != 1:
        raise ValueError(f"{mutation.name}: its source text is {count} times in {path}")
    return text.replace(mutation.source, mutation.replacement)


def run(mutation: Mutation | None, histories: int = HISTORIES) -> Verdict:
    """Play the suites against a copy of the package with this mutation; None: with none."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "streamlet"
        shutil.copytree(
            ROOT / "streamlet", package, ignore=shutil.ignore_patterns("__pycache__", "*.so")
        )
        (Path(folder) / "tests").symlink_to(ROOT / "tests")
        if mutation is not None:
            (package / mutation.file).write_text(mutated(mutation, package), "utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "tests.simulation.mutations", "--play", str(histories)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        return Verdict("start", "error", done.stderr.strip().splitlines()[-1], 0.0)
    return Verdict(**json.loads(done.stdout.splitlines()[-1]))


def play(histories: int) -> Verdict:
    """Play the suites in this process until one run breaks a rule."""
    for name, broken in _runs(histories):
        if broken is not None:
            return Verdict(name, broken["rule"], broken["text"], _used_s())
    return Verdict(None, "", "", _used_s())


def _runs(histories: int) -> Iterator[tuple[str, dict[str, str] | None]]:
    """Each run by name, with the first rule it broke."""
    for path in FILES:
        yield f"scenario {path.stem}", _first(simulate(read_scenario(path)).result["violations"])
    for path in FILES:
        outcome = simulate(without_limits(read_scenario(path)), seed=7)
        yield f"rough {path.stem}", _first(outcome.result["violations"])
    for seed in range(histories):
        yield f"history {seed}", _first(History(f"test {seed}").live())


def _first(violations: list[dict[str, str]]) -> dict[str, str] | None:
    return violations[0] if violations else None


def _used_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return round(used.ru_utime + used.ru_stime, 1)


def main(arguments: list[str] | None = None) -> int:
    """Run the mutations of these names, all without any; the exit code is 0 if all were found."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutations")
    parser.add_argument("names", nargs="*", metavar="NAME", help="all without any")
    parser.add_argument("--histories", type=int, default=HISTORIES, help="random ones, at most")
    parser.add_argument("--play", type=int, metavar="HISTORIES", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.play is not None:
        print(json.dumps(attrs.asdict(play(chosen.play))))
        return 0
    if unknown := set(chosen.names) - {one.name for one in MUTATIONS}:
        parser.error(f"no such mutation: {', '.join(sorted(unknown))}")
    survivors = 0
    for mutation in MUTATIONS:
        if chosen.names and mutation.name not in chosen.names:
            continue
        verdict = run(mutation, chosen.histories)
        survivors += verdict.found_by is None
        found = "SURVIVES" if verdict.found_by is None else verdict.found_by
        told = f"{verdict.rule}: {verdict.text}"[:100] if verdict.found_by else ""
        line = f"{mutation.rule:3} {mutation.name:24} {verdict.seconds:6.1f} s  {found}  {told}"
        print(line, flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
