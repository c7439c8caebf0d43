"""A disk that is slow: a worker's commits to its local stores take long while a file says so."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from streamlet.state.task_state import TaskState

#: The folder with a file for each worker whose disk is slow.
SLOW = "CHAOS_SLOW"
#: How much longer each write of a task's stores takes, s.
_LONGER_S = 0.3


def mark_of(folder: Path, pid: int) -> Path:
    """The file that makes the disk of a worker slow as long as it is there."""
    return folder / f"slow-{pid}"


def slow_down(folder: Path) -> None:
    """Have the writes of this process wait while its file is there."""
    write = TaskState.write

    def slowly(self: TaskState, *args: Any, **named: Any) -> None:
        if mark_of(folder, os.getpid()).exists():
            time.sleep(_LONGER_S)
        write(self, *args, **named)

    TaskState.write = slowly  # type: ignore[method-assign]
