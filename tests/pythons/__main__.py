"""Runs the demo, the README's five minutes and the tests on each Python of this machine.

``make test-pythons`` runs all of it, ``.ci/run`` the five minutes and most unit tests on the newest
one. Each interpreter has a copy of the checkout in ``build/pythons``, as a fresh clone
would have it, with an environment of its own, and a log beside it. Exit status 1: something failed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import attrs

from tests.pythons import debian_root
from tests.pythons.interpreters import Interpreter, found

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "pythons"

#: Tests that start workers, brokers and Spark as processes: a part of each suite that does.
PROCESSES = (
    "tests/integration/test_run_command.py",
    "tests/integration/test_session.py",
    "tests/integration/chaos/test_exits.py",
    "tests/integration/chaos/test_kills.py",
    "tests/integration/spark/test_first_light.py",
    "tests/integration/spark/test_tasks.py",
)
#: Unit tests that play long histories, read all texts or open pages in a browser.
REPEATING = (
    "tests/unit/assignor/test_band.py",
    "tests/unit/assignor/test_properties.py",
    "tests/unit/coordinator/test_convergence.py",
    "tests/unit/coordinator/test_membership_fuzz.py",
    "tests/unit/docs/test_names.py",
    "tests/unit/dsl/test_windows_model.py",
    "tests/unit/partitions/test_partitions_groups.py",
    "tests/unit/runtime/test_many_stores.py",
    "tests/unit/tasks/test_disagreements.py",
    "tests/unit/test_flights_windows.py",
    "tests/unit/testing/test_playback_browser.py",
    "tests/unit/web/live/test_browser.py",
)
_PYTEST = ".venv/bin/python -m pytest -q -p no:cacheprovider {options}"
# Each test; all cases and all that is made up are tried on the default Python, and a language that
# changes does so in lines of code, not in what they are given.
_UNIT = (
    "make installed PYTHON={python} && STREAMLET_TEST_SHARE=0.25 "
    f"PYTHONWARNINGS=error::DeprecationWarning {_PYTEST} -n {{workers}} tests/unit"
)
#: Name of a step -> the commands of it, in the copy; what stands in braces is filled in.
STEPS: dict[str, str] = {
    "demo": "make demo PYTHON={python}",
    "minutes": f"make installed PYTHON={{python}} && {_PYTEST} tests/integration/test_readme.py",
    "unit": _UNIT,
    "unit-short": " --ignore=".join((_UNIT, *REPEATING)),
    "oracle": f"make installed PYTHON={{python}} && {_PYTEST} tests/oracle tests/typing",
    "processes": f"make setup PYTHON={{python}} && {_PYTEST} {' '.join(PROCESSES)}",
    "all": "make test PYTHON={python} OPTIONS='{options}'",
}
#: All but a part of ``unit`` and ``all``, which takes as long as CI on each.
USUAL = ("demo", "minutes", "unit", "oracle", "processes")

_SUMMARY = re.compile(
    rb"^(?:=+ )?((?:\d+ (?:passed|failed|errors?|skipped|\w+)(?:, )?)+) in ", re.M
)


@attrs.frozen
class Ran:
    """How one step went on one interpreter."""

    step: str
    failed: bool
    seconds: float
    summary: str

    def __str__(self) -> str:
        how = "FAILED" if self.failed else "ok"
        return f"{how} {self.summary} {self.seconds:.0f} s".replace("  ", " ")


def copy_checkout(folder: Path) -> None:
    """Make the folder a copy of the checkout as it is now; its environment stays."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True,
    ).stdout.decode()  # fmt: skip
    kept = {".venv", "build"}
    for old in folder.iterdir() if folder.is_dir() else ():
        if old.name not in kept:
            shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
    for name in filter(None, listed.split("\0")):
        source, target = ROOT / name, folder / name
        if source.exists() or source.is_symlink():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)


def run_step(interpreter: Interpreter, step: str, arguments: argparse.Namespace, log: Path) -> Ran:
    """Run a step in the interpreter's copy; all that it prints is added to the log."""
    command = STEPS[step].format(
        python=interpreter.python, workers=arguments.workers, options=arguments.options
    )
    words, folder = ["sh", "-c", command], folder_of(interpreter)
    if interpreter.root is not None:
        words = debian_root.entered(interpreter.root, words, "/src")
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    environment.pop("VIRTUAL_ENV", None)
    began, before = time.monotonic(), log.stat().st_size if log.exists() else 0
    with log.open("ab") as file:
        file.write(f"--- {step}: {command}\n".encode())
        file.flush()
        done = subprocess.run(
            words, cwd=folder, env=environment, stdout=file, stderr=subprocess.STDOUT
        )
    with log.open("rb") as file:
        file.seek(before)
        summaries = _SUMMARY.findall(file.read())
    summary = summaries[-1].decode() if summaries else ""
    return Ran(step, done.returncode != 0, time.monotonic() - began, summary)


def folder_of(interpreter: Interpreter) -> Path:
    """The copy of the checkout for an interpreter."""
    return BUILD / interpreter.version if interpreter.root is None else interpreter.root / "src"


def chosen(arguments: argparse.Namespace) -> list[Interpreter]:
    """The interpreters to run on."""
    named = os.environ.get("PYTHONS", "").split()
    all_found = found(named)
    if not named and not arguments.newest and all_found[-1].minor < 14:
        missing = debian_root.lacks()
        if missing is None:
            print("making a small Debian system for Python 3.14 ...", flush=True)
            all_found.append(debian_root.make(BUILD / "debian"))
        else:
            print(f"Python 3.14 is not here, and no Debian system can be made: {missing}")
    if arguments.newest:
        return [one for one in all_found if one.minor != sys.version_info.minor][-1:]
    return all_found


def table(rows: Sequence[tuple[Interpreter, list[Ran]]]) -> str:
    """What ran where, a line for each interpreter and step."""
    lines = [f"{one.version:<8} {ran.step:<10} {ran}" for one, all_ran in rows for ran in all_ran]
    return "\n".join(lines)


def main() -> int:
    """Run all that was asked for, and print the table; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.pythons", description=__doc__)
    newest = "only the newest one beside this Python; where there is none, nothing is run"
    parser.add_argument("--newest", action="store_true", help=newest)
    usual = f"of {', '.join(STEPS)}; default: %(default)s"
    parser.add_argument("--steps", default=",".join(USUAL), help=usual)
    parser.add_argument("--workers", type=int, default=2, help="of the unit suite; 0: without")
    parser.add_argument("--options", default="", help="further ones of pytest's, as one text")
    arguments = parser.parse_args()
    steps = arguments.steps.split(",")
    if unknown := set(steps) - set(STEPS):
        parser.error(f"no such step: {', '.join(sorted(unknown))}; there are {', '.join(STEPS)}")
    try:
        interpreters = chosen(arguments)
    except (LookupError, RuntimeError) as error:
        parser.error(str(error))
    if not interpreters:
        print("no Python beside this one was found; PYTHONS=/path/to/python3.13 names one")
        return 0
    BUILD.mkdir(parents=True, exist_ok=True)
    rows: list[tuple[Interpreter, list[Ran]]] = []
    try:
        for interpreter in interpreters:
            rows.append((interpreter, []))
            copy_checkout(folder_of(interpreter))
            log = BUILD / f"{interpreter.version}.log"
            log.unlink(missing_ok=True)
            print(f"Python {interpreter.version} ({interpreter.python}), log {log}", flush=True)
            for step in steps:
                print(f"  {step} ...", end=" ", flush=True)
                rows[-1][1].append(ran := run_step(interpreter, step, arguments, log))
                print(ran, flush=True)
    except KeyboardInterrupt:
        print("\ninterrupted")
        return 130
    finally:
        print(table(rows), flush=True)
    return int(any(ran.failed for _, all_ran in rows for ran in all_ran))


if __name__ == "__main__":
    sys.exit(main())
