"""The thread of a worker: steps it until it is to stop, and ends it in order, whatever happens.

What a step does is ``runtime.worker``'s. Here is what only a real thread needs: the watchdog, the
collector of garbage, which waits for commits, and the answer to an error that nothing handled.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

import attrs

from streamlet.processing.record_failures import RecordCounters
from streamlet.runtime.uncaught import UncaughtErrors
from streamlet.runtime.watchdog import Watchdog
from streamlet.runtime.worker import Worker


@attrs.define(eq=False, slots=False)
class StreamThread:
    """Runs a worker on the thread that calls ``run``.

    Args:
        worker: ready to begin.
        uncaught: asked about an error that ends it; tells too if the application is to stop.
        watchdog: reports a step that takes too long.
    """

    worker: Worker
    uncaught: UncaughtErrors
    _watchdog: Watchdog

    @property
    def counters(self) -> RecordCounters:
        """Counts of the tasks given up so far, all of them once ``run`` has returned."""
        return self.worker.counters

    @property
    def drained(self) -> bool:
        """True if the worker left after handing over everything it had."""
        return self.worker.drained

    def drain(self, since_ms: int) -> None:
        """Mark our instance to leave, as of wall-clock ``since_ms``; from any thread."""
        self.worker.drain(since_ms)

    def run(self, keep_going: Callable[[], bool]) -> None:
        """Join the group and work until it is stopped, then commit and leave.

        ``keep_going`` is asked once a round.

        Raises:
            StreamletError: what ended the worker; state is as of the last commit.
        """
        worker, uncaught = self.worker, self.uncaught
        collecting = gc.isenabled()
        gc.disable()  # each batch is thousands of tracked messages; collected at commits instead
        try:
            worker.read_tables(lambda: keep_going() and not uncaught.stops)
            self._watchdog.start()
            worker.begin()
            while keep_going() and not worker.drained and not uncaught.stops:
                self._watchdog.beat()
                worker.step()
            worker.stop()
            uncaught.check()
        except BaseException as error:
            worker.fail(error)
            uncaught.take(error)
            raise
        finally:
            if collecting:
                gc.enable()
            self._watchdog.close()
            worker.close()
