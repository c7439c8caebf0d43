"""Finds the Python interpreters of this machine that streamlet is to run on."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs

#: The minor versions of Python 3 that are looked for.
MINORS = (11, 12, 13, 14)

#: Prints the version; fails where no environment can be made (Debian splits ``venv`` off).
PROBE = "import ensurepip, sys, venv; print(*sys.version_info[:3], sep='.')"


@attrs.frozen
class Interpreter:
    """An interpreter, and how a shell command is run beside it.

    Args:
        version: as ``3.13.0``.
        python: its path, or its path below ``root``.
        root: the folder of a Debian system that it is in; None for this machine's own.
    """

    version: str
    python: str
    root: Path | None = None

    @property
    def minor(self) -> int:
        """The second number of the version."""
        return int(self.version.split(".")[1])


def version_of(words: Sequence[str]) -> str | None:
    """The version that a command with ``PROBE`` prints; None if it fails."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def found(named: Iterable[str] = ()) -> list[Interpreter]:
    """The interpreters of this machine, one for each minor version, oldest first.

    Args:
        named: commands or paths to take in place of those on PATH and of pyenv.

    Raises:
        LookupError: a named one does not run, or can make no environment.
    """
    by_minor: dict[int, Interpreter] = {}
    wanted = list(named)
    for python in wanted or _candidates():
        path = shutil.which(python)
        version = None if path is None else version_of([path, "-c", PROBE])
        if path is None or version is None:
            if wanted:
                raise LookupError(f"{python}: no Python that runs and has the module venv")
            continue
        interpreter = Interpreter(version, path)
        if wanted or interpreter.minor in MINORS:
            by_minor.setdefault(interpreter.minor, interpreter)
    return [by_minor[minor] for minor in sorted(by_minor)]


def _candidates() -> list[str]:
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    on_path = [f"python3.{minor}" for minor in MINORS]
    installed = [
        str(path)
        for minor in MINORS
        for path in sorted(pyenv.glob(f"3.{minor}.*/bin/python3"), reverse=True)
    ]
    return [*on_path, *installed]
