"""Reads a worker's changelogs: learners, standbys, and tasks of ours to be restored.

```
 worker: set ──▶ open, follow ──▶ lag, again and again ──▶ worker (learner ready, standby caught up)
 worker: promote(commit, ends) ──▶ read to there, settle what was held back ──▶ worker: its stores
 worker: restore(stores, commit, ends) ──▶ read to there ─────────────────────▶ worker: its stores
```
A promoted copy changes hands as it is, its stores open and its cache warm: nothing is opened or
read twice between the old owner's last commit and the new one's first record. A task that is
restored (``tasks.task_restorer``) runs nowhere, so copies wait for it, as in Kafka Streams, but for
those of a hand-over and while there is nothing of it to read.

What is kept, opened and reported is decided here, a round at a time, without a thread and without
a rest: ``tasks.copy_threads`` goes round, and the simulator does.
"""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeAlias

import attrs

from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.errors import (
    BrokerError,
    StateError,
    StreamletError,
    TaskCorruptedError,
    TimedOutError,
)
from streamlet.logs import get_logger
from streamlet.tasks.changelog_reader import StoreChangelogReader
from streamlet.tasks.copy_opener import CopyOpener
from streamlet.tasks.copy_threads import CopyRunner, CopyThreads
from streamlet.tasks.open_task import OpenTask, RestoreProgress
from streamlet.tasks.served_copies import ServedCopies
from streamlet.tasks.target import Target
from streamlet.tasks.targets import Targets
from streamlet.tasks.task_events import CopyEvent, CopyFailed, CopyLag, Restored, RestoreFailed
from streamlet.tasks.task_record import ReadStage
from streamlet.tasks.task_restorer import RETRY_MS, TaskRestorer, let_go
from streamlet.types import TaskId

log = get_logger(__name__)

#: How long one step may take, which waits for that long when nothing comes. The shorter is for when
#: an order to promote has come.
STEP_MS, STEP_BUSY_MS = 5, 2
#: How often lags are told, positions of tables' topics read, and how far copies are noted.
LAG_MS, TABLES_MS, READS_MS = 50, 1_000, 200
_Event: TypeAlias = CopyEvent | RestoreProgress

_BROKE = "the thread that reads changelogs broke"


@attrs.frozen(eq=False)
class CopyOrder:
    """Something for the state updater's thread to do.

    ``promotes`` is the copy whose stores are waited for, ``restores`` are stores to be restored.
    """

    carry_out: Callable[[], None]
    promotes: TaskId | None = None
    restores: OpenTask | None = None


@attrs.define(eq=False, slots=False)
class StateUpdater:
    """The copies and restores of a worker; "the worker's" methods are for its stream thread.

    Args:
        open_stores: opens the stores of a task, as ``opening.TaskOpener``.
        reader: reads copies, with a consumer of its own.
        restores: reads what is restored, with another.
        targets: knows what there is to read.
        settings: the application's.
        clock: the time.
        wake: called, from the thread, when there is something to ``take``.
        runner: makes what goes round, on threads of its own.
        restoring: called, by ``take``, with the progress of tasks that are restored.
        copies: those that readers may see.
    """

    _open_stores: Callable[[TaskId], OpenTask]
    _reader: StoreChangelogReader
    _restores: StoreChangelogReader
    _targets: Targets
    _settings: Settings
    _clock: Clock
    _wake: Callable[[], None] = lambda: None
    _new_runner: Callable[[StateUpdater, Clock, Settings], CopyRunner] = attrs.field(
        default=CopyThreads, alias="runner"
    )
    restoring: Callable[[RestoreProgress], None] = lambda progress: None
    copies: ServedCopies = attrs.field(factory=ServedCopies)
    _orders: queue.SimpleQueue[CopyOrder] = attrs.field(factory=queue.SimpleQueue, init=False)
    _events: queue.SimpleQueue[_Event] = attrs.field(factory=queue.SimpleQueue, init=False)
    #: Whether the worker runs tasks, which come first; the worker says so.
    has_actives: bool = attrs.field(default=False, init=False)
    wanted: frozenset[TaskId] = attrs.field(default=frozenset(), init=False)  # asked for last
    _preferred: frozenset[TaskId] = attrs.field(default=frozenset(), init=False)
    #: Offset reached and end, summed over the changelogs, of each copy and task that is read.
    reads: Mapping[TaskId, tuple[int, int]] = attrs.field(factory=dict, init=False)
    #: Why logs of tasks cannot be read on, for an open transaction; replaced as a whole.
    _held: Mapping[TaskId, str] = attrs.field(factory=dict, init=False)
    # The runner's own.
    #: The copies; None: to be opened, as soon as its folder and its changelogs allow it.
    kept: dict[TaskId, OpenTask | None] = attrs.field(factory=dict, init=False)
    _next_lag_ms: int = attrs.field(default=0, init=False)
    _next_reads_ms: int = attrs.field(default=0, init=False)
    _next_tables_ms: int = attrs.field(default=0, init=False)
    closed: bool = attrs.field(default=False, init=False)  # there are no more rounds
    _failure: StreamletError | None = attrs.field(default=None, init=False)  # what broke the runner
    _opener: CopyOpener = attrs.field(init=False)
    _restorer: TaskRestorer = attrs.field(init=False)
    runner: CopyRunner = attrs.field(init=False)

    @_opener.default
    def _an_opener(self) -> CopyOpener:
        return CopyOpener(self._open_stores, self._targets, self._clock)

    @_restorer.default
    def _a_restorer(self) -> TaskRestorer:
        return TaskRestorer(self._restores, self._tell)

    @runner.default
    def _a_runner(self) -> CopyRunner:
        return self._new_runner(self, self._clock, self._settings)

    # The worker's.

    def set(self, tasks: frozenset[TaskId]) -> None:
        """Keep copies of exactly these; others are closed, their files stay."""
        if tasks != self.wanted:
            self.wanted = self.copies.followed = tasks
            self._order(CopyOrder(partial(self._keep_only, tasks)), begin=bool(tasks))

    def prefer(self, tasks: frozenset[TaskId]) -> None:
        """Let other copies wait while these, which are about to be promoted, are read."""
        if tasks != self._preferred:
            self._preferred = tasks
            self._order(CopyOrder(partial(self._reader.prefer, tasks)))

    def promote(self, task: TaskId, target: Target) -> None:
        """Bring a wanted copy to a commit and hand it over: ``Restored`` or ``CopyFailed`` follows.

        It is no copy any more, whatever ``set`` is given afterwards. Where the target is to rewrite
        changelogs, because they have lost records since, the copy must have read to the ends.
        """
        self.wanted -= {task}
        self._order(CopyOrder(partial(self._promote, task, target), task))

    def restore(self, opened: OpenTask, target: Target) -> None:
        """Bring open stores to a commit: ``Restored`` or ``RestoreFailed`` follows."""
        order = partial(self._restorer.begin, opened, target)
        self._order(CopyOrder(order, restores=opened))

    def cancel(self, task: TaskId) -> None:
        """Give a restore or a promotion up; the stores are closed, as far as they were written."""
        self._order(CopyOrder(partial(self._cancel, task)))

    def check(self) -> None:
        """Raise what broke the thread: without it no task would be learned or restored here."""
        if self._failure is not None:
            raise self._failure

    def take(self) -> Iterator[CopyEvent]:
        """The events since the last call; those behind one that an error ends at stay."""
        while not self._events.empty():
            event = self._events.get()
            if isinstance(event, RestoreProgress):
                self.restoring(event)
            else:
                yield event

    def close(self) -> None:
        """End the rounds; stores are as far as they were written last."""
        self._order(CopyOrder(self._end), begin=False)
        self.runner.join()
        self._reader.close()
        self._restorer.close()
        left = [self._events.get() for _ in range(self._events.qsize())]
        for event in sorted(left, key=lambda event: isinstance(event, RestoreProgress)):
            if isinstance(event, Restored):
                event.opened.close()
            elif isinstance(event, RestoreProgress):
                self.restoring(event)

    def _order(self, order: CopyOrder, *, begin: bool = True) -> None:
        self._orders.put(order)
        self.runner.ordered(begin=begin)
        if self.closed:
            self._refuse_orders()

    def _refuse_orders(self) -> None:
        """Fail what stores are waited for, because the thread has ended; any thread."""
        with contextlib.suppress(queue.Empty):
            while True:
                order = self._orders.get_nowait()
                if order.restores is not None:
                    let_go(self._reader, order.restores)
                    self._tell(RestoreFailed(order.restores, _BROKE))
                if order.promotes is not None:
                    self._tell(CopyFailed(order.promotes, _BROKE))

    # The runner's.

    def step(self) -> int:
        """Make one step and report; the pause after it, where brokers fail, in ms.

        Raises:
            BrokerError: the broker refuses what a task that is restored has to read, for good.
        """
        hurry = self._hurries
        pause_ms = self._restorer.step(hurry=hurry, beside=self.has_actives)
        if hurry or not self._restorer.reads_on:
            pause_ms = max(pause_ms, self._step_copies())
        self._tell_lags()
        return pause_ms

    def _step_copies(self) -> int:
        """Read on for the copies; returns the pause to make if brokers fail, in ms."""
        try:
            self._open_wanted()
            waits = self._reader.urgent or self._restorer.tasks
            step_ms = STEP_BUSY_MS if self._at(ReadStage.PROMOTING) else 0 if waits else STEP_MS
            for copy in self._reader.step(step_ms, gentle=self.has_actives):
                self._done(copy)
            self._follow_tables()
            self.copies.show_asked(self.kept, self._clock.now_ms())
        except (BrokerError, TimedOutError) as error:
            log.warning("copies wait: %s", error)
            return RETRY_MS
        except StateError as error:
            self._fail(error)
        return 0

    @property
    def _hurries(self) -> bool:
        """True if a hand-over waits for one of our copies, or will in a moment."""
        return bool(self._at(ReadStage.PROMOTING)) or self._reader.urgent

    @property
    def awaited(self) -> bool:
        """True if no member runs a task until its stores are read here, or will in a moment."""
        return bool(self._restorer.tasks) or self._hurries

    @property
    def problems(self) -> dict[TaskId, str]:
        """The reasons why copies cannot be opened, or changelogs be read on, for the worker."""
        return {**self._opener.locks.problems, **self._held}

    @property
    def quiet(self) -> bool:
        """True if there was nothing to read in the last round, and nothing is being restored."""
        return self._reader.quiet and not (self._restorer.tasks or self._at(ReadStage.PROMOTING))

    @property
    def reading(self) -> bool:
        """True if a copy is open."""
        return any(copy is not None for copy in self.kept.values())

    def drop_all(self) -> None:
        """Close all stores: the rounds are over."""
        for task in list(self.kept):
            self._drop(task)
        for task in [*self._restorer.tasks]:
            self._restorer.cancel(task)

    def broke(self, error: Exception) -> None:
        """End the rounds because of this error, which ends the worker."""
        log.exception("changelogs are not read any more")
        bug = StreamletError(f"{_BROKE}: {error!r}")
        self._failure = error if isinstance(error, StreamletError) else bug
        for task in sorted(self.kept):
            self._tell(CopyFailed(task, _BROKE))
        self.closed = True
        self._refuse_orders()

    def _tell(self, event: _Event) -> None:
        self._events.put(event)
        self._wake()

    def _at(self, stage: ReadStage) -> list[OpenTask]:
        """The open copies of a stage, in order."""
        return [c for _, c in sorted(self.kept.items()) if c is not None and c.stage is stage]

    def _done(self, copy: OpenTask) -> None:
        """Hand a copy over that was read to its ends; one ahead of its commit stays on disk."""
        if copy.beyond is None:
            del self.kept[copy.task]
            self._tell(Restored(copy))
        else:
            self._drop(copy.task)
            reason = f"it is of commit {tuple(copy.beyond)}, ahead of the commit"
            self._tell(CopyFailed(copy.task, reason))

    def take_orders(self) -> None:
        """Take all orders there are."""
        while not self._orders.empty():
            self._orders.get().carry_out()

    def _end(self) -> None:
        self.closed = True

    def _keep_only(self, tasks: frozenset[TaskId]) -> None:
        """Keep copies of exactly these, beside those that are about to change hands."""
        for task, copy in sorted(self.kept.items()):
            if task not in tasks and not _is_promoted(copy):
                self._drop(task)
        self.kept |= dict.fromkeys(tasks - self.kept.keys())

    def _promote(self, task: TaskId, target: Target) -> None:
        reason = "it was not open yet"
        if self.kept.get(task) is not None:
            if self._reader.promote(task, target):
                return
            reason = "its changelogs lost records, or bear epochs without a claim"
        self._drop(task)
        self._tell(CopyFailed(task, reason))

    def _cancel(self, task: TaskId) -> None:
        self._restorer.cancel(task)
        if _is_promoted(self.kept.get(task)):
            self._drop(task)

    def _open_wanted(self) -> None:
        for task in self._opener.due(
            task for task, copy in sorted(self.kept.items()) if copy is None
        ):
            try:
                opened = self._opener.open(task)
            except StateError as error:
                self._fail(error)
                continue
            if opened is None:
                continue
            self.kept[task] = opened
            self._reader.add(opened)
            if self._restorer.tasks or not self._orders.empty():
                self._opener.go_on()
                return  # these do not wait until all copies are open

    def _follow_tables(self) -> None:
        now = self._clock.now_ms()
        if now < self._next_tables_ms:
            return
        self._next_tables_ms = now + TABLES_MS
        for copy in self._at(ReadStage.FOLLOWED):
            ends = self._targets.table_ends(copy.state)
            if ends:
                self._reader.extend(copy.task, ends)

    def _tell_lags(self) -> None:
        now = self._clock.now_ms()
        if now >= self._next_reads_ms:
            self._next_reads_ms = now + READS_MS
            self.reads = self._reader.reads() | self._restorer.reached()
            self._held = self._reader.held() | self._restorer.held()
        if now < self._next_lag_ms:
            return
        self._next_lag_ms = now + LAG_MS
        lags = self._reader.lags()
        for copy in self._at(ReadStage.FOLLOWED):
            copy.note_ends()
            lag = lags.get(copy.task)
            if lag is not None and lag != copy.lag:
                copy.lag = lag
                self._tell(CopyLag(copy.task, lag))

    def _fail(self, error: StateError) -> None:
        """Close the copy whose stores fail, report it, and open it again after a pause."""
        task = error.task
        if task is None:
            raise error
        self._opener.put_off(task, error)
        copy = self.kept.get(task)
        if copy is not None:
            copy.damaged = isinstance(error, TaskCorruptedError)
            self._drop(task)
            if not _is_promoted(copy):
                self.kept[task] = None
        self._tell(CopyFailed(task, str(error)))

    def _drop(self, task: TaskId) -> None:
        """Keep no copy of a task, if there is one."""
        copy = self.kept.pop(task, None)
        self._opener.forget(task)
        if copy is not None:
            let_go(self._reader, copy)


def _is_promoted(copy: OpenTask | None) -> bool:
    return copy is not None and copy.stage is ReadStage.PROMOTING
