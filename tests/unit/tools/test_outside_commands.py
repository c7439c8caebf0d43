"""Help, versions and usage errors, which no command prints, on any disk and in any terminal."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("words", ["--help", "--version", "topics --help", "status --nope --json"])
def test_what_no_command_prints_ends_without_a_traceback_too(words: str) -> None:
    """Help, a version and a usage error, on a full disk and with a reader that has gone."""
    command = [sys.executable, "-m", "streamlet", *words.split()]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=400)
    assert done.returncode == 1
    assert done.stderr.endswith("standard output cannot be written: No space left on device\n")
    assert "Traceback" not in done.stderr
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as gone:
        done = subprocess.run(command, stdout=gone, stderr=subprocess.PIPE, text=True, timeout=400)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"COLUMNS": "9" * 20},
        {"COLUMNS": "1000000000"},
        {"COLUMNS": "9" * 5_000},
        {"TERMINAL_WIDTH": "wide"},
    ],
    ids=str,
)
def test_help_is_printed_whatever_the_environment_says_of_the_terminal(
    variables: dict[str, str],
) -> None:
    command = [sys.executable, "-m", "streamlet", "run", "--help"]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **variables}, timeout=400
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) < 1_000
