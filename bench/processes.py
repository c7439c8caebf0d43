"""Runs what is measured in fresh processes and gathers what they say.

A measured process writes lines of JSON: ``{"seen": n}`` while it works, if others work on the same
input, and its result as the last line (``span.Span.report``). The end of its standard input tells
it that the whole input was seen.

All processes of benchmarks are in groups of their own: Ctrl-C in the terminal is for the one that
starts and ends them. Not in sessions, each of which would get a share of the processors.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import attrs

#: The words that run a module in a Python like this one.
PYTHON = (sys.executable, "-m")
_ROOT = Path(__file__).resolve().parent.parent
_TIMEOUT_S = 600
#: How long a process may take to end with its standard input.
_END_S = 10


class MeasurementError(Exception):
    """A measured process failed; it said why on standard error."""


@attrs.frozen
class Measurement:
    """One measured run, over all its processes."""

    rate: float
    cpu_s_per_m: float
    rss_mb: float
    details: dict[str, Any]


def end_with_input(process: subprocess.Popen[str]) -> None:
    """Have a process end that does so with its standard input; it does not live then.

    Raises:
        TimeoutExpired: it had to be killed.
    """
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(_END_S)
    finally:
        process.kill()
        process.wait()


def measure(
    commands: list[list[str]],
    total: int,
    launcher: Sequence[str] = PYTHON,
    environ: Mapping[str, str] | None = None,
) -> Measurement:
    """Run these modules with their arguments side by side until ``total`` records were seen.

    Args:
        commands: of each, the module and its arguments.
        total: records in all.
        launcher: the words before each, which run a module.
        environ: variables besides those of this process.

    Raises:
        MeasurementError: one failed, or they do not come to an end.
    """
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), **(environ or {})}
    running = [
        subprocess.Popen(
            [*launcher, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            process_group=0,
        )
        for command in commands
    ]
    try:
        results = _gather(running, total)
    finally:
        for process in running:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
    return _together(results)


def _gather(running: list[subprocess.Popen[str]], total: int) -> list[dict[str, Any]]:
    """The last line of each process."""
    lines: queue.Queue[tuple[int, str | None]] = queue.Queue()
    for index, process in enumerate(running):
        assert process.stdout is not None
        threading.Thread(target=_forward, args=(index, process.stdout, lines), daemon=True).start()
    last: list[dict[str, Any]] = [{} for _ in running]
    seen = [0] * len(running)
    working = len(running)
    while working:
        try:
            index, line = lines.get(timeout=_TIMEOUT_S)
        except queue.Empty:
            raise MeasurementError(
                f"no word from the measured process for {_TIMEOUT_S} s"
            ) from None
        if line is None:
            working -= 1
            continue
        last[index] = json.loads(line)
        seen[index] = last[index].get("seen", last[index].get("records", 0))
        if sum(seen) >= total:
            _tell_end(running)
    for process, result in zip(running, last, strict=True):
        if process.wait(timeout=_TIMEOUT_S) or "records" not in result:
            raise MeasurementError(f"the measured process ended with status {process.returncode}")
    return last


def _forward(index: int, stream: IO[str], lines: queue.Queue[tuple[int, str | None]]) -> None:
    for line in stream:
        lines.put((index, line))
    lines.put((index, None))


def _tell_end(running: list[subprocess.Popen[str]]) -> None:
    for process in running:
        if process.stdin is not None and not process.stdin.closed:
            process.stdin.close()


def _together(results: list[dict[str, Any]]) -> Measurement:
    records = sum(result["records"] for result in results)
    working = [result for result in results if result["records"]]
    seconds = max(r["to"] for r in working) - min(r["from"] for r in working)
    return Measurement(
        rate=records / seconds,
        cpu_s_per_m=sum(result["cpu_s"] for result in results) / records * 1e6,
        rss_mb=max(result["rss_mb"] for result in results),
        details=results[0],
    )
