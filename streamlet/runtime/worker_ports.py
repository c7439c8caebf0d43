"""The world around a worker: clients, stores, clock and threads, as it is given them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

import attrs

from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.kafka.ports import Admin, RecordSink, RecordSource, TransactionSink
from streamlet.processing.task import Task
from streamlet.tasks.activation import Activation
from streamlet.tasks.changelog_reader import StoreChangelogReader
from streamlet.tasks.commit_delivery import ChangelogDelivery
from streamlet.tasks.copy_threads import CopyRunner, CopyThreads
from streamlet.tasks.open_task import OpenTask
from streamlet.tasks.opening import Closer, StoreCloser
from streamlet.tasks.state_updater import StateUpdater
from streamlet.tasks.targets import CommittedPositions
from streamlet.types import TaskId


def _asking_thread() -> Executor:
    return ThreadPoolExecutor(1, thread_name_prefix="streamlet-targets")


def _ends_thread() -> Executor:
    return ThreadPoolExecutor(1, thread_name_prefix="streamlet-ends")


@attrs.frozen(eq=False, kw_only=True)
class WorkerThreads:
    """The threads beside the one that steps a worker; the simulator has others.

    Attributes:
        copies: makes what goes round for the state updater.
        closer: makes what closes stores, given the clock and the pause before it, ms.
        asking: makes what asks brokers where tasks begin.
        ends: makes what asks them where changelogs end that a commit wrote.
    """

    copies: Callable[[StateUpdater, Clock, Settings], CopyRunner] = CopyThreads
    closer: Callable[[Clock, int], StoreCloser] = Closer
    asking: Callable[[], Executor] = _asking_thread
    ends: Callable[[], Executor] = _ends_thread


@attrs.frozen(eq=False, kw_only=True)
class WorkerPorts:
    """Everything outside that a worker uses beside its membership.

    Attributes:
        clock: the time.
        source: the consumer of input partitions; closed with the worker.
        sink: the producer; closed with the worker.
        admin: knows topics and logs, for commits, and deletes what was read of internal topics.
        log_admin: another, for tasks to be brought up: commits do not wait for it.
        positions: knows committed positions.
        open_source: opens a consumer, with headers, of changelogs for a purpose.
        open_stores: opens the stores of a task, as ``opening.TaskOpener``.
        threads: what goes on beside.
        new_task: makes what processes the records of an open task, see ``Task``.
        activation: makes what brings tasks up, see ``Activation``.
        open_reader: makes a reader of changelogs for a purpose.
        delivery: brings the entries of commits to the changelogs.
        transactions: the producer, if it commits what it sends by transactions; else None.
    """

    clock: Clock
    source: RecordSource
    sink: RecordSink
    admin: Admin
    log_admin: Admin
    positions: CommittedPositions
    open_source: Callable[[str], RecordSource]
    open_stores: Callable[[TaskId], OpenTask]
    threads: WorkerThreads = attrs.field(factory=WorkerThreads)
    new_task: Callable[..., Task] = Task
    activation: Callable[..., Activation] = Activation
    open_reader: Callable[[str], StoreChangelogReader] = attrs.field()
    transactions: TransactionSink | None = None
    delivery: ChangelogDelivery = attrs.field()

    @open_reader.default
    def _reads_changelogs(self) -> Callable[[str], StoreChangelogReader]:
        return lambda purpose: StoreChangelogReader(
            self.open_source(purpose), self.log_admin, self.clock
        )

    @delivery.default
    def _delivers(self) -> ChangelogDelivery:
        return ChangelogDelivery(
            self.sink,
            self.admin,
            self.clock,
            open_source=lambda: self.open_source("check"),
            transactional=self.transactions is not None,
            thread=self.threads.ends(),
        )
