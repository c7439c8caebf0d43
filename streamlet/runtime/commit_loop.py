"""The commits of a worker's loop: when one begins, what becomes of one that fails, the last one.

``runtime.commit`` makes them. Orders go before: tasks that are to
move are committed while they go on (``runtime.precopy``), and once they are stopped nothing else
is committed until that is done.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable

import attrs

from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.errors import (
    BrokerError,
    DeliveryError,
    EntryTooLargeError,
    StateError,
    StreamletError,
    TaskMigratedError,
    TimedOutError,
)
from streamlet.group.session import GroupSession
from streamlet.runtime.commit import AtLeastOnceCommit
from streamlet.runtime.metrics.meters import Meters
from streamlet.runtime.rebalance_events import RebalanceEvents
from streamlet.runtime.task_failures import StoreFailures
from streamlet.runtime.task_manager import TaskManager
from streamlet.runtime.task_registry import TaskRegistry

log = logging.getLogger(__name__)

#: While a task is handed over to us a commit that is due waits for so long, ms: it takes some ten
#: milliseconds, in which the task's mark would not be looked at.
HOLD_OFF_MS = 250
#: Garbage is collected at commits; while a hand-over is open only after so long, ms.
COLLECT_MS = 1_000
#: Pause before a commit that a broker had no good answer for is tried again, ms.
AGAIN_MS = 100
#: How long to wait for an answer before the last commit is looked at again.
_WAIT_MS = 5

_TEXT = "commit postponed: %s"


class CommitLoop:
    """Begins the commits of a worker and sees them through.

    Args:
        settings: the application's.
        commit: the worker's commits.
        clock: the time.
        group: our membership.
        holdings: the active tasks.
        orders: tells which tasks are to be given up, and commits them for the last time.
        meters: count the time.
        too_large: called when a task's entry does not fit into its changelog; raises, or has all
            tasks go back to their last commits.
        lose: called when the tasks are lost.
        restart: called when the stores of a task fail.
        tidy: called after a commit was begun, and once a second while none can be.
    """

    def __init__(
        self,
        settings: Settings,
        commit: AtLeastOnceCommit,
        clock: Clock,
        *,
        group: GroupSession,
        holdings: TaskRegistry,
        orders: TaskManager,
        meters: Meters,
        too_large: Callable[[EntryTooLargeError], None],
        lose: Callable[[StreamletError], None],
        restart: Callable[[StateError], None],
        tidy: Callable[[int], None],
    ) -> None:
        self._settings, self._commit, self._clock = settings, commit, clock
        self._group, self._holdings, self._orders = group, holdings, orders
        self._meters, self._tidy = meters, tidy
        self._too_large, self._lose, self._restart = too_large, lose, restart
        #: When the next commit is due.
        self.next_ms = 0
        self._collect_by_ms = 0
        self._postponed = PostponedCommit(clock, settings.session_timeout_ms // 2)

    def step(self) -> None:
        """Begin a commit if one is due or asked for, or send the one under way again."""
        now = self._clock.now_ms()
        due_ms = self.next_ms + (HOLD_OFF_MS if self._orders.awaited else 0)
        precopy = self._orders.precopy
        due = now >= due_ms or precopy.due(now) or self._too_dirty() or self._holdings.asks_commit()
        if self._commit.under_way:
            if not self._commit.sent and not self._postponed.waits:
                self._try(self.begin)
        elif due and self._orders.unit is None:
            gated = self._group.gated
            if not gated:  # else it stays due, and a claim goes out as soon as it may
                precopy.committing(now)
                self.next_ms = now + self._settings.commit_interval_ms
                self._try(self.begin)
            if not gated or now >= self._collect_by_ms:
                self._collect(now)
                self._tidy(now)
        elif self._orders.unit is None and not self._group.gated:
            claims = self._holdings.unclaimed()
            if claims:  # nothing is written before, and no task is given up
                self._try(lambda: self._commit.begin(claims))
        # A hold is asked for when those are done: stopped tasks would wait for them.
        first = self._orders.unit is None and not precopy.over
        if self._orders.waiting and not first and not self._commit.under_way:
            self._try(self._orders.go_on)

    def last(self, board: RebalanceEvents, failures: StoreFailures) -> None:
        """Commit what stopped tasks have to say, and wait for it; raises as ``LastCommit.run``."""
        parts = (self._commit, self._holdings, self._orders, failures, board, self._clock)
        LastCommit(*parts).run(lambda: self._timed(self.begin), self._settings.session_timeout_ms)

    def begin(self) -> None:
        """Begin a commit, or go on with the one under way."""
        tasks, unit = self._holdings.tasks.values(), self._orders.unit
        self._commit.begin(tasks, unit, at_once=self._holdings.idle)

    def _too_dirty(self) -> bool:
        return self._holdings.dirty_bytes() > self._settings.cache_max_bytes // 2

    def _collect(self, now: int) -> None:
        if not self._orders.busy or now >= self._collect_by_ms:
            gc.collect(1)
            self._collect_by_ms = now + COLLECT_MS

    def _try(self, commit: Callable[[], None]) -> None:
        try:
            self._timed(commit)
            self._postponed.over()
        except TaskMigratedError as error:
            self._lose(error)
        except EntryTooLargeError as error:
            self._too_large(error)
        except StateError as error:
            self._restart(error)
        except DeliveryError:
            raise
        except BrokerError as error:
            self._postponed.take(error)

    def _timed(self, commit: Callable[[], None]) -> None:
        began = self._clock.now_ns()
        try:
            commit()
        finally:
            if self._commit.under_way:
                self._meters.committing(began)


class PostponedCommit:
    """Decides when a postponed commit is tried again, and for how long it may be refused.

    A broker that is away may come back at any time. What is refused, as a changelog that was
    deleted is, may be what a broker says that does not know everything yet; but not for long. Then
    the worker ends, and makes a topic that is missing when it starts again.

    Args:
        clock: the time.
        refusal_ms: how long a refusal may last.
    """

    def __init__(self, clock: Clock, refusal_ms: int) -> None:
        self._clock = clock
        self._refusal_ms = refusal_ms
        self._refused_ms: int | None = None
        self._again_ms = 0
        self._said = ""

    @property
    def waits(self) -> bool:
        """True if it is too early to try again."""
        return self._clock.now_ms() < self._again_ms

    def take(self, error: BrokerError) -> None:
        """Postpone the commit for this reason.

        Raises:
            BrokerError: this one, if commits have been refused for too long.
        """
        now = self._clock.now_ms()
        if error.passing:
            self._refused_ms = None
        elif self._refused_ms is None:
            self._refused_ms = now
        elif now - self._refused_ms >= self._refusal_ms:
            raise error
        self._again_ms = now + AGAIN_MS
        log.log(logging.DEBUG if str(error) == self._said else logging.WARNING, _TEXT, error)
        self._said = str(error)

    def over(self) -> None:
        """The broker took it."""
        self._refused_ms, self._said = None, ""


@attrs.frozen(eq=False)
class LastCommit:
    """Commits what stopped tasks have to say; a task whose stores fail is left out."""

    commit: AtLeastOnceCommit
    holdings: TaskRegistry
    orders: TaskManager
    failures: StoreFailures
    board: RebalanceEvents
    clock: Clock

    def run(self, begin: Callable[[], None], timeout_ms: int) -> None:
        """Commit until nothing is left to say; ``begin`` begins a commit, or goes on with one.

        Raises:
            TimedOutError: it took longer than ``timeout_ms``.
            DeliveryError: something was not delivered.
            TaskMigratedError: the tasks are lost.
        """
        deadline_ms = self.clock.now_ms() + timeout_ms
        while not self.step(begin, deadline_ms):
            self.board.wait(_WAIT_MS)
            self.orders.take_answers()

    def step(self, begin: Callable[[], None], deadline_ms: int) -> bool:
        """Begin, or go on; True if nothing is left to say. Raises as ``run``."""
        tasks = self.holdings.tasks.values()
        if any(active.changed or not active.claimed for active in tasks):
            if self.clock.now_ms() > deadline_ms:
                raise TimedOutError("no answer to the last commit")
            if not self.commit.sent:
                self._try(begin)
            return False
        while not self._try(self.commit.finish):
            pass  # one task less each time
        return True

    def _try(self, step: Callable[[], None]) -> bool:
        """Take a step; False if the stores of a task, which is then closed, did not let it."""
        try:
            step()
        except StateError as error:
            self.failures.give_up(error)
            return False
        except DeliveryError:
            raise
        except BrokerError as error:
            log.warning("last commit postponed: %s", error)
        return True
