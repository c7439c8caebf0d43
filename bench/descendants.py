"""Processes below this one, as Linux shows them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def peak_mb(argument: str) -> float:
    """The largest peak memory, MiB, of the descendants that were started with this argument.

    0 where there is none, or no ``/proc``.
    """
    return max(
        (_peak_mb(pid) for pid in _below(os.getpid()) if argument in _command(pid)), default=0
    )


def _below(pid: int) -> Iterator[int]:
    """The processes below one; a process that ends meanwhile is left out."""
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, _text(task).split()):
            yield child
            yield from _below(child)


def _command(pid: int) -> list[str]:
    return _text(Path(f"/proc/{pid}/cmdline")).split("\0")


def _peak_mb(pid: int) -> float:
    lines = _text(Path(f"/proc/{pid}/status")).splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
