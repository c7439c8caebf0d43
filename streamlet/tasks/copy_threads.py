"""The threads of the state updater: they go round until the worker ends (``state_updater``).

They share the interpreter with the worker's loop, so while that has tasks of its own the thread
rests in proportion to the CPU time it used (``restore.max.share``). While the worker has none the
thread lets others on the machine go first, which may be those that run the tasks, and rests as far
as processors are short (``tasks.background``). While a copy is about to be promoted or a task is
restored it does neither. In a process that answers queries the thread keeps its priority: one that
comes behind others, and has the interpreter while it waits for a processor, keeps answers waiting
for a tenth of a second. Since the priority of a thread cannot be raised again two take turns.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.state.rocksdb_options import start_threads
from streamlet.tasks.background import Processors, lower_priority

if TYPE_CHECKING:
    from streamlet.tasks.state_updater import StateUpdater

#: While a copy is about to be promoted steps do not wait. Where nothing is to be read the thread
#: then rests for so long: a rest, other than a step that waits, ends with an order.
AWAIT_MS = 5
#: No rest is longer, so that new orders are not kept waiting.
LONGEST_REST_MS = 100


class CopyRunner(Protocol):
    """Runs the ``StateUpdater``: takes its orders and steps it until it is closed."""

    def ordered(self, *, begin: bool) -> None:
        """Take an order soon; ``begin``: even if there was no round yet."""
        ...

    def join(self) -> None:
        """Wait until the rounds are over."""
        ...


class CopyThreads:
    """A thread in the background and one that is not, which read copies in turn.

    Args:
        updater: what they keep.
        clock: measures the processor time used.
        settings: the share of that beside tasks that run (``restore.max.share``), and whether
            queries are answered.
    """

    def __init__(self, updater: StateUpdater, clock: Clock, settings: Settings) -> None:
        self._updater, self._clock, self._settings = updater, clock, settings
        self._threads: list[threading.Thread] = []
        self._turns = {True: threading.Event(), False: threading.Event()}
        self._asked = threading.Event()
        self._processors = Processors()

    def ordered(self, *, begin: bool) -> None:
        """End the rest; start the threads with the first order."""
        self._asked.set()
        if begin and not self._threads:
            self._start()

    def join(self) -> None:
        """Wait for both threads."""
        for thread in self._threads:
            thread.join()

    def _start(self) -> None:
        start_threads()  # the background thread's databases would have them start behind others
        threads = [
            threading.Thread(
                target=self._run, args=(background,), name="streamlet-copies", daemon=True
            )
            for background in self._turns
        ]
        for thread in threads:
            thread.start()
        self._threads = threads
        self._turns[False].set()

    def _run(self, background: bool) -> None:
        if background and self._settings.http_port is None:
            lower_priority()
        mine, other = self._turns[background], self._turns[not background]
        mine.wait()
        try:
            while not self._updater.closed:
                mine.clear()
                self._keep(background)
                other.set()
                if not self._updater.closed:
                    mine.wait()
        finally:  # however it ends, the other does not wait for a turn that never comes
            self._updater.closed = True
            other.set()

    def _keep(self, background: bool) -> None:
        """Go round until closed, or until it is the other thread's turn."""
        updater, self._processors = self._updater, Processors()
        try:
            while not updater.closed:
                self._round()
                if not updater.closed and background is (updater.has_actives or updater.awaited):
                    return
        except Exception as error:
            updater.broke(error)
        updater.drop_all()

    def _round(self) -> None:
        self._asked.clear()
        began = self._clock.thread_ns()
        self._updater.take_orders()
        self._rest(self._updater.step())
        used_ns = self._clock.thread_ns() - began
        if not self._updater.awaited:
            self._rest(self._rest_ms(used_ns))
        elif self._updater.quiet:
            self._rest(AWAIT_MS)

    def _rest_ms(self, used_ns: int) -> int:
        if not self._updater.reading:
            return LONGEST_REST_MS
        most = self._settings.restore_max_share
        share = most if self._updater.has_actives else self._processors.share()
        return min(LONGEST_REST_MS, int(used_ns * (1 - share) / share / 1_000_000))

    def _rest(self, ms: int) -> None:
        if ms > 0:
            self._asked.wait(ms / 1000)
