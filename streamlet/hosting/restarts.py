"""Decides when a worker that failed starts again, and when its instance gives up.

And replaces a worker that runs in the calling process, as a supervisor replaces processes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from streamlet.clock import Clock
from streamlet.logs import get_logger
from streamlet.retries import Retries

if TYPE_CHECKING:
    from streamlet.runtime.stream_thread import StreamThread


@attrs.frozen
class RestartPolicy:
    """Pauses between restarts of a worker, ms.

    The first restart follows at once, and so does each after the worker ran for ``calm_ms``; the
    pauses between failures in quick succession double. After ``most`` failures ``within_ms`` it is
    over. A failure that the worker calls ``passing`` (the broker is away) is not counted: an
    instance outlasts any outage.
    """

    first_ms: int = 500
    longest_ms: int = 30_000
    most: int = 6
    within_ms: int = 300_000
    calm_ms: int = 10_000

    def recent(self, failures: Sequence[int], now_ms: int) -> list[int]:
        """The failures that count still."""
        return [at for at in failures if now_ms - at < self.within_ms]

    def pause_ms(self, failures: int, ran_ms: int, *, passing: bool) -> int:
        """The pause before a restart, behind so many failures that count, this one included.

        ``ran_ms`` is how long the worker ran.
        """
        if not passing:
            if failures <= 1 or ran_ms >= self.calm_ms:
                return 0
            failures -= 1
        else:
            failures += 1
        return Retries(self.first_ms, self.longest_ms).pause_ms(failures)

    def no_room_ms(self, last_ms: int) -> int:
        """The pause before the next try where no file descriptor is free for a worker.

        ``last_ms`` is the pause before this try.
        """
        return min(max(self.first_ms, 2 * last_ms), self.longest_ms)


def how_ended(reported: int | None, returncode: int, *, began: bool) -> str:
    """Describe for the log how a worker ended.

    Args:
        reported: the exit code that it reported as its own; None: no report has come.
        returncode: that of its process, negative for a signal.
        began: whether it had reported that it began, so that code of the user's may have run.
    """
    if reported is not None:
        return f"exit code {reported}"
    how = f"killed by signal {-returncode}" if returncode < 0 else f"exit code {returncode}"
    if not began:
        return f"{how} before it began"
    if returncode < 0:
        return how
    return f"{how} without a report of its end; os._exit in user code does that"


log = get_logger(__name__)

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
