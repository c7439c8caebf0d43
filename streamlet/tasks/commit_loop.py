"""The commits of a worker's loop: when one begins, what becomes of one that fails, the last one.

``tasks.commit`` makes them. Orders go before: tasks that are to move are committed while they go
on (``Precopy``), and once they are stopped nothing else is committed until that is done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

import attrs

from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.coordinator.session import GroupSession
from streamlet.errors import (
    BrokerError,
    DeliveryError,
    EntryTooLargeError,
    StateError,
    StreamletError,
    TaskMigratedError,
    TimedOutError,
    UnwritableEntryError,
)
from streamlet.kafka.ports import Admin
from streamlet.logs import get_logger
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.commit import AtLeastOnceCommit
from streamlet.tasks.commit_share import TaskCommit
from streamlet.tasks.meters import Meters
from streamlet.tasks.task_registry import TaskRegistry
from streamlet.types import TaskId, TopicPartition

if TYPE_CHECKING:
    from streamlet.tasks.task_actions import TaskActions
    from streamlet.tasks.task_failures import StoreFailures

log = get_logger(__name__)

#: While a task is handed over to us a commit that is due waits for so long, ms, and at most as long
#: again for a moment in which no mark is about to come: it takes some ten milliseconds, in which
#: the task's mark would not be looked at.
HOLD_OFF_MS = 250
#: And one of tasks whose records wait for it in repartition topics, for their readers wait, too.
HELD_OFF_MS = 30
#: How often the caches are measured, ms: a round of few records takes less.
MEASURE_MS = 20
#: Pause before a commit that a broker had no good answer for is tried again, ms.
AGAIN_MS = 100

_TEXT = "commit postponed: %s"
#: A commit of at most so many changed entries may be the last before tasks are stopped. The first
#: only without any: the new owner hurries once it has seen a commit (``TaskRecord.looked``).
LITTLE_ENTRIES = 1_000
#: Commits at most, and how long the copy is given for each thousand entries, at least and at most,
#: ms. Alone it would need a tenth; it shares its processors with all else that goes on.
MOST_ROUNDS = 4
MS_A_THOUSAND = 25
LEAST_MS = 60
MOST_MS = 200
#: Share of ``handover.timeout.ms`` in which they have to begin: the new owner waits already.
SHARE_OF_TIMEOUT = 0.25


@attrs.define(eq=False, slots=False)
class CommitLoop:
    """Begins the commits of a worker and sees them through.

    Args:
        settings: the application's.
        commit: the worker's commits.
        clock: the time.
        group: our membership.
        registry: the active tasks.
        actions: tells which tasks are to be given up, and commits them for the last time.
        meters: count the time.
        failures: takes tasks whose stores fail.
        refused_entry: called when a task's entry has no bytes, or does not fit into its changelog;
            raises, or has all tasks go back to their last commits.
        lose: called when the tasks are lost.
        tidy: called after a commit was begun, and once a second while none can be.
    """

    _settings: Settings
    _commit: AtLeastOnceCommit
    _clock: Clock
    _group: GroupSession
    _registry: TaskRegistry
    _actions: TaskActions
    _meters: Meters
    _failures: StoreFailures
    _refused_entry: Callable[[EntryTooLargeError | UnwritableEntryError], None]
    _lose: Callable[[StreamletError], None]
    _tidy: Callable[[int], None]
    #: When the next commit is due.
    next_ms: int = attrs.field(default=0, init=False)
    _measure_ms: int = attrs.field(default=0, init=False)
    _held_ms: int = attrs.field(default=0, init=False)
    _postponed: PostponedCommit = attrs.field(init=False)

    @_postponed.default
    def _none_postponed(self) -> PostponedCommit:
        return PostponedCommit(self._clock, self._settings.session_timeout_ms // 2)

    def step(self) -> None:
        """Begin a commit if one is due or asked for, or send the one under way again."""
        now = self._clock.now_ms()
        precopy = self._actions.precopy
        due = now >= self.due_ms() or precopy.due(now)
        due = due or self._registry.asks_commit() or self._full(now)
        if self._commit.under_way:
            if not self._commit.sent and not self._postponed.waits:
                self._try(self.begin)
        elif due and self._actions.unit.stopped is None:
            gated = self._group.gated
            if not gated:  # else it stays due, and a claim goes out as soon as it may
                precopy.committing(now)
                self.next_ms = now + self._settings.commit_interval_ms
                self._try(self.begin)
            if not gated or self._registry.garbage.due(now):
                self._registry.garbage.collect(now, busy=self._actions.busy)
                self._tidy(now)
        elif self._actions.unit.stopped is None and not self._group.gated:
            # Nothing is written before a claim, and no task is given up.
            tasks = self._registry.unclaimed() or self._held_due(now)
            if tasks:
                self._try(lambda: self._commit.begin(tasks))
        # Joins are blocked behind claims and pre-copy commits: stopped tasks would wait for these.
        first = self._actions.unit.stopped is None and not precopy.over
        if self._actions.unit.waiting and not first and not self._commit.under_way:
            self._try(self._actions.go_on)

    def due_ms(self) -> int:
        """The time of the next commit of all tasks."""
        if not self._actions.awaited:
            return self.next_ms
        soonest_ms = self.next_ms + HOLD_OFF_MS
        return max(soonest_ms, min(self._actions.mark_until_ms, soonest_ms + HOLD_OFF_MS))

    def _held_due(self, now: int) -> list[ActiveTask]:
        """The tasks whose records wait in repartition topics for a commit, if that is due."""
        found = self._registry.with_held()
        if not found:
            return []
        due_ms = self._held_ms + (HELD_OFF_MS if self._actions.awaited else 0)
        if now < due_ms and not any(one.held.hurries for one in found if one.held):
            return []
        self._held_ms = now + self._settings.repartition_commit_interval_ms
        return found

    def _full(self, now: int) -> bool:
        """True if dirty entries, which only a commit frees, fill half of the cache."""
        if now < self._measure_ms:
            return False
        self._measure_ms = now + MEASURE_MS
        return self._registry.dirty_bytes() > self._settings.cache_max_bytes // 2

    def begin(self) -> None:
        """Begin a commit, or go on with the one under way."""
        tasks, unit = self._actions.to_commit(), self._actions.unit.stopped
        self._commit.begin(tasks, unit, at_once=self._registry.idle)

    def _try(self, commit: Callable[[], None]) -> None:
        """Take a step of a commit, and take what it fails on.

        With a later owner, or a changelog that lost records of ours, all tasks are lost. Where a
        store refuses its task is restored alone. Without a broker the commit is tried again after a
        pause. What was not delivered is for the worker (``Worker.step``): in time, all tasks
        are lost, and brought up again; else the worker ends.
        """
        try:
            self._timed(commit)
            if self._commit.sent or not self._commit.under_way:  # else it goes on in another step
                self._postponed.over()
        except TaskMigratedError as error:
            self._lose(error)
        except (EntryTooLargeError, UnwritableEntryError) as error:
            self._refused_entry(error)
        except StateError as error:
            self._failures.restart(error)
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

    # The last one.

    def last_step(self, deadline_ms: int) -> bool:
        """Begin the last commit of stopped tasks, or go on; True if nothing is left to say.

        A task whose stores fail is left out. What is sent is waited for, though a mark or a commit
        with nothing new leaves nothing to say: unanswered it would leave the local stores one
        commit behind.

        Raises:
            TimedOutError: it took longer than a session timeout.
            DeliveryError: something was not delivered.
            UnwritableEntryError: an entry of a store has no bytes.
            TaskMigratedError: the tasks are lost.
        """
        tasks = self._actions.to_commit()
        if self._commit.sent or any(one.changed or not one.claimed for one in tasks):
            if self._clock.now_ms() > deadline_ms:
                raise TimedOutError("no answer to the last commit")
            if not self._commit.sent:
                self._try_last(lambda: self._timed(self.begin))
            return False
        while not self._try_last(self._commit.finish):
            pass  # one task less each time
        return True

    def _try_last(self, step: Callable[[], None]) -> bool:
        """Take a step; False if the stores of a task, which is then closed, did not let it."""
        try:
            step()
        except StateError as error:
            self._failures.give_up(error)
            return False
        except DeliveryError:
            raise
        except BrokerError as error:
            log.warning("last commit postponed: %s", error)
        return True


@attrs.define(eq=False)
class PostponedCommit:
    """Decides when a postponed commit is retried, and how long it may be refused.

    A broker that is away may come back at any time. What is refused, as a changelog that was
    deleted is, may be what a broker says that does not know everything yet; but not for long. Then
    the worker ends, and makes a topic that is missing when it starts again.

    Args:
        clock: the time.
        refusal_ms: how long a refusal may last.
    """

    _clock: Clock
    _refusal_ms: int
    _refused_ms: int | None = attrs.field(default=None, init=False)
    _again_ms: int = attrs.field(default=0, init=False)
    _logged: str = attrs.field(default="", init=False)

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
        log.log(logging.DEBUG if str(error) == self._logged else logging.WARNING, _TEXT, error)
        self._logged = str(error)

    def over(self) -> None:
        """The broker took it."""
        self._refused_ms, self._logged = None, ""


@attrs.define(eq=False)
class Precopy:
    """Commits before tasks are stopped to be handed over, so that little is left to copy then.

    Precopy is the term of live migration. The entries of the owner's last commits are what the copy
    at the new owner has still to read, while no member runs the task. So the owner commits while it
    goes on, gives the copy time to take that in, and commits what came in between, until that is
    little: the rounds of a live migration's pre-copy. One commit alone left up to a second's
    changes: the longest of 40 gaps was 70 ms, with these rounds the longest of 100 is 41 ms. Joins
    are blocked only when the last round is done, since stopped tasks would wait for it.

    Owners that the same plan tells to give up tasks do so one after the other (``assignor.path``).
    The delay counts from the first plan that orders the release. When it began again with each
    rebalance, owners came late, and at once again.

    Args:
        timeout_ms: when the new owner gives up waiting, ms.
    """

    timeout_ms: int
    _rounds: int = attrs.field(default=0, init=False)
    _until_ms: int = attrs.field(default=0, init=False)
    _due_ms: int | None = attrs.field(default=None, init=False)
    #: When this member may release each task.
    _release_at_ms: dict[TaskId, int] = attrs.field(factory=dict, init=False)

    def ordered(self, release: Iterable[TaskId], release_delay_ms: int, now_ms: int) -> None:
        """Take the tasks that a plan has us release, and these only, after a delay.

        It counts from the first of the plans that say so: they may follow each other faster than
        the delays end.
        """
        known = self._release_at_ms
        self._release_at_ms = {task: known.get(task, now_ms + release_delay_ms) for task in release}

    def wait_ms(self, tasks: Iterable[TaskId], now_ms: int) -> int:
        """The time until tasks may be stopped, ms. Other releases may wait for ours."""
        ours = self._release_at_ms.keys() & set(tasks)
        return max(self._release_at_ms[min(ours)] - now_ms, 0) if ours else 0

    def begin(self, now_ms: int, wait_ms: int = 0) -> None:
        """Tasks are to be stopped soon: a commit is due when it is their turn."""
        limit_ms = int(self.timeout_ms * SHARE_OF_TIMEOUT)
        self._rounds, self._due_ms = 0, now_ms + min(wait_ms, limit_ms // 2)
        self._until_ms = now_ms + limit_ms

    def end(self) -> None:
        """End the pre-copy: a member cannot wait, or no task is to be stopped any more."""
        self._rounds, self._due_ms = 0, None

    def due(self, now_ms: int) -> bool:
        """True if a commit is to begin now."""
        return self._due_ms is not None and now_ms >= self._due_ms

    def committing(self, now_ms: int) -> None:
        """A commit begins; it covers everything until now. Before our turn it is no round."""
        if self._due_ms is not None and (self._rounds or self.due(now_ms)):
            self._rounds, self._due_ms = self._rounds + 1, None

    def committed(self, entries: int, now_ms: int) -> None:
        """A commit brought the copies so many entries."""
        little = LITTLE_ENTRIES if self._rounds > 1 else 0
        if self.over and 0 < self._rounds < MOST_ROUNDS and entries > little:
            pause_ms = max(LEAST_MS, min(entries * MS_A_THOUSAND // 1000, MOST_MS))
            if now_ms + pause_ms < self._until_ms:
                self._due_ms = now_ms + pause_ms

    @property
    def over(self) -> bool:
        """True if the tasks may be stopped, unless a commit is under way."""
        return self._due_ms is None


@attrs.define(eq=False)
class Purge:
    """Lets the broker drop records of internal topics, which are ours alone, that are not needed.

    Those are records of repartition topics that were read, and records of changelogs about windows
    that have expired. Accepted commits tell their offsets.

    Args:
        admin: deletes.
        topics: the repartition topics.
        interval_ms: the pause between deletions.
        alive: tells if our membership still stands. A process that slept while its application was
            reset must not delete from the topics that were made again.
    """

    _admin: Admin
    _topics: Collection[str]
    _interval_ms: int
    _alive: Callable[[], bool] = lambda: True
    _before: dict[TopicPartition, int] = attrs.field(factory=dict, init=False)
    _next_ms: int | None = attrs.field(default=None, init=False)

    def committed(self, part: TaskCommit) -> None:
        """Note how far an accepted commit goes in its inputs, and what its changelogs can lack.

        Its metadata tells from where on they are whole, and so does that of every later commit: no
        reader takes the records for lost, however late they are deleted.
        """
        for tp, offset in part.offsets.items():
            if tp.topic in self._topics and offset > 0:
                self._before[tp] = offset
        self._before.update(part.starts)

    def run(self, now_ms: int) -> None:
        """Delete, at most once an interval."""
        if self._next_ms is None:
            self._next_ms = now_ms + self._interval_ms
        if now_ms >= self._next_ms and self._before:
            if not self._alive():
                self._before = {}
                return
            self._admin.delete_records(self._before)
            self._before = {}
            self._next_ms = now_ms + self._interval_ms
