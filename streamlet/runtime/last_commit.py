"""The last commit of a worker that stops: everything it processed, while nothing goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable

import attrs

from streamlet.clock import Clock
from streamlet.errors import BrokerError, DeliveryError, StateError, TimedOutError
from streamlet.runtime.commit_port import CommitPort
from streamlet.runtime.rebalance_events import RebalanceEvents
from streamlet.runtime.store_failures import StoreFailures
from streamlet.runtime.task_manager import TaskManager
from streamlet.runtime.task_registry import TaskRegistry

log = logging.getLogger(__name__)

#: How long to wait for an answer before the commit is looked at again.
_WAIT_MS = 5


@attrs.frozen(eq=False)
class LastCommit:
    """Commits what stopped tasks have to say; a task whose stores fail is left out."""

    commit: CommitPort
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
