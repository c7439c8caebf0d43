"""Programs with a Spark session of their own, which tests kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[3]
LINES = [f"w{n % 37} w{n % 11} w{n % 5} all" for n in range(5_000)]


def counting(broker: str, checkpoint: Path, output: str, *more: str) -> list[str]:
    """Word count of the lines; ``more``: where it runs, and when batches begin."""
    program = [sys.executable, "-m", "tests.integration.spark.words"]
    return [*program, broker, str(checkpoint), output, *more]


@contextmanager
def running(
    command: list[str], log: Path, *, cwd: Path = ROOT, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, all of which is gone at the end, also by SIGTERM to us."""
    with _ended_as_by_ctrl_c(), _started(command, log, cwd, environment) as process:
        yield process


@contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    """SIGTERM unwinds the test run as Ctrl-C does; else what it started would live on."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _started(
    command: list[str], log: Path, cwd: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            ours = psutil.Process(process.pid)
            for one in [ours, *ours.children(recursive=True)]:
                with suppress(psutil.NoSuchProcess):
                    one.kill()
            process.wait(300)
