"""Shows files arriving: a live line on a terminal, two plain lines anywhere else.

Everything goes to standard error, which a command with ``--json`` leaves to people.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from rich.progress import (
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)

from streamlet.terminal import console

#: Called with the name and size in bytes of each file that begins to arrive.
FileStarted: TypeAlias = Callable[[str, int], None]
#: Called with each number of bytes that came in.
BytesCame: TypeAlias = Callable[[int], None]


@contextmanager
def arriving(what: str) -> Iterator[tuple[FileStarted, BytesCame]]:
    """Show that ``what`` arrives for as long as the block runs."""
    people = console(sys.stderr)
    if not people.is_terminal:
        people.print(f"fetching {what}, once ...")
        yield (lambda name, size: None), (lambda count: None)
        people.print(f"fetched {what}")
        return
    columns = (
        SpinnerColumn(),
        TextColumn("fetching {task.description}, once"),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[file]}"),
    )
    with Progress(*columns, console=people, transient=True) as progress:
        row = progress.add_task(what, total=None, file="")
        yield (
            lambda name, size: progress.update(row, file=name),
            lambda count: progress.advance(row, count),
        )
