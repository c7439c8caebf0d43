"""Replaces a worker that runs in the calling process, as a supervisor replaces processes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from streamlet.clock import Clock
from streamlet.runtime.restarts import RestartPolicy
from streamlet.runtime.stream_thread import StreamThread

log = logging.getLogger(__name__)

#: How often a pause looks for a stop, s.
LOOK_S = 0.05


def run_replaced(
    opened: Callable[[], StreamThread],
    run: Callable[[StreamThread], None],
    *,
    clock: Clock,
    stopped: Callable[[], bool],
    restart: RestartPolicy | None = None,
) -> StreamThread:
    """Run a worker, and another one each time ``uncaught_handler`` has it replaced; the last one.

    Args:
        opened: makes a worker.
        run: runs it to its end.
        clock: the time.
        stopped: whether a pause before the next worker is to end, and with it everything.
        restart: the pauses; workers are replaced as often as the handler wants.

    Raises:
        StreamletError: what ended a worker that is not to be replaced.
    """
    restart, failures = restart or RestartPolicy(), list[int]()
    while True:
        worker, began_ms = opened(), clock.now_ms()
        try:
            run(worker)
            return worker
        except Exception as error:
            if worker.uncaught.answer != "replace_thread":
                raise
            now = clock.now_ms()
            failures = [*restart.recent(failures, now), now]
            pause = restart.pause_ms(len(failures), now - began_ms, passing=False)
            log.warning("the worker is replaced in %d ms: %s", pause, error)
        until_ms = clock.now_ms() + pause
        while not stopped() and clock.now_ms() < until_ms:
            threading.Event().wait(LOOK_S)
        if stopped():
            return worker
