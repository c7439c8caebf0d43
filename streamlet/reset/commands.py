"""Resetting an application, from the command line as from Python."""

from __future__ import annotations

import threading
from collections.abc import Callable

from streamlet.reset.plan import Plan, Result, Start
from streamlet.reset.reset import Reset
from streamlet.scaling.cluster import Application, opened


def reset(
    application: Application,
    start: Start,
    ask: Callable[[Plan], bool] = lambda plan: True,
    *,
    dry_run: bool = False,
    stopped: threading.Event | None = None,
) -> Result:
    """Let a stopped application begin anew.

    Args:
        application: which.
        start: where it is to begin.
        ask: shown the plan; whether to go on. May also raise.
        dry_run: only plan.
        stopped: ends a wait.

    Raises:
        StreamletError: nothing was changed, unless it says otherwise.
    """
    stopped = stopped or threading.Event()
    with opened(application, stopped) as cluster:
        command = Reset(cluster, start)
        plan = command.plan()
        if dry_run or not ask(plan):
            return Result(plan, done=False)
        return Result(command.carry_out(), done=True)
