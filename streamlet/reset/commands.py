"""Resetting and deleting an application, from the command line as from Python."""

from __future__ import annotations

import threading
from collections.abc import Callable

from streamlet.admin.window import ApplicationInfo
from streamlet.hosting.clients import open_window
from streamlet.reset.delete import DeletePlan, Deletion
from streamlet.reset.plan import ResetPlan, ResetResult
from streamlet.reset.reset import Reset
from streamlet.reset.start import StartPosition
from streamlet.reset.waiting import Progress, silent


def reset(
    application: ApplicationInfo,
    start: StartPosition,
    ask: Callable[[ResetPlan], bool] = lambda plan: True,
    *,
    dry_run: bool = False,
    stopped: threading.Event | None = None,
    progress: Progress = silent,
    force: bool = False,
) -> ResetResult:
    """Reset a stopped application.

    Args:
        application: which.
        start: where it is to begin.
        ask: shown the plan; whether to go on. May also raise.
        dry_run: only plan.
        stopped: ends a wait.
        progress: given the progress of each step that changes something.
        force: take members out of the group that may be dead.

    Raises:
        StreamletError: nothing was changed, unless it says otherwise.
        KeyboardInterrupt: stopped before anything was changed.
    """
    stopped = stopped or threading.Event()
    with open_window(application, "operator", stopped) as cluster:
        command = Reset(cluster, start, progress, force)
        plan = command.plan()
        if dry_run or not ask(plan):
            return ResetResult(plan, done=False)
        return ResetResult(command.carry_out(), done=True)


def delete(
    application: ApplicationInfo,
    ask: Callable[[DeletePlan], bool],
    *,
    dry_run: bool = False,
    stopped: threading.Event | None = None,
    progress: Progress = silent,
) -> tuple[DeletePlan, bool]:
    """Delete a stopped application: its own topics and its group; the plan, and whether it is done.

    Args:
        application: which.
        ask: shown the plan; whether to go on. May also raise.
        dry_run: only plan.
        stopped: ends a wait.
        progress: given the progress of each step that changes something.

    Raises:
        StreamletError: nothing was changed, unless it says otherwise.
        KeyboardInterrupt: stopped before anything was changed.
    """
    stopped = stopped or threading.Event()
    with open_window(application, "operator", stopped) as cluster:
        command = Deletion(cluster, progress)
        plan = command.plan()
        if dry_run or not ask(plan):
            return plan, False
        return command.carry_out(), True
