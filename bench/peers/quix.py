"""Quix Streams in an environment of its own: it pins a client that is older than streamlet's."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VERSION = "3.28.1"


@contextmanager
def installed(wanted: bool) -> Iterator[tuple[list[str] | None, str]]:
    """The words that run a module there, as long as the block lasts; or None, and the reason."""
    if not wanted:
        yield None, ""
        return
    with tempfile.TemporaryDirectory(prefix="streamlet-bench-quix-") as folder:
        python = Path(folder) / "bin" / "python"
        steps = (
            [sys.executable, "-m", "venv", folder],
            [str(python), "-m", "pip", "install", "--quiet", f"quixstreams=={VERSION}"],
        )
        for step in steps:
            done = subprocess.run(step, capture_output=True, text=True)
            if done.returncode:
                said = (done.stderr or done.stdout).strip().splitlines()
                yield None, f"Quix Streams cannot be installed: {said[-1] if said else step}"
                return
        yield [str(python), "-m"], ""
