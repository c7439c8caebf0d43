"""The tasks of a worker whose stores may be queried, for readers on any thread.

Readers of committed state take views (``state.read_views``) and never wait for the worker. Readers
of the newest state hand a call to the worker's loop, which makes some of them between two batches;
so many wait at most, and one more is refused.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import attrs

from streamlet.control.view import ControlView
from streamlet.state.query_errors import QueryRefusedError, StateStoreMigratedError
from streamlet.state.read_views import ReadViews, StateView
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.served_copies import ServedCopies
from streamlet.topology.graph import Topology
from streamlet.types import TaskId, TopicPartition

#: Calls that wait for the worker's loop, at most.
MOST_WAITING = 128
#: Calls that the loop makes between two batches, at most.
CALLS_A_ROUND = 32


@attrs.frozen(eq=False)
class ServedTask:
    """One task whose stores are open here.

    Attributes:
        task: its id.
        views: of its stores.
        active: the task.
        begins: its committed input positions when it became ours.
    """

    task: TaskId
    views: ReadViews
    active: ActiveTask
    begins: Mapping[TopicPartition, int]

    def position(self, view: StateView) -> Mapping[TopicPartition, int]:
        """The input positions that a view contains."""
        inputs = view.contents.inputs
        return self.begins if inputs is None else inputs


@attrs.frozen(eq=False)
class ServingWorker:
    """The worker whose tasks are served.

    Attributes:
        topology: that it runs.
        counts: gives the partition counts by topic, as it knows them now.
        owns: false while another member may have the tasks that it believes to have.
        wake: has its loop come round.
        view: gives what the control topic says now.
    """

    topology: Topology
    counts: Callable[[], Mapping[str, int]]
    owns: Callable[[], bool]
    wake: Callable[[], None]
    view: Callable[[], ControlView] = ControlView


class ServedTasks:
    """The tasks of this process that answer queries. The worker adds and removes, others read."""

    def __init__(self) -> None:
        #: The worker; None: none runs here.
        self.worker: ServingWorker | None = None
        #: The worker's state, by Kafka Streams' words.
        self.state = "NOT_RUNNING"
        #: The partitioner by which keys lie, of stores whose rows have shown it.
        self.partitioners: dict[str, str] = {}
        #: Standbys and learners, for readers who take older state.
        self.copies = ServedCopies()
        self._tasks: dict[TaskId, ServedTask] = {}
        self._changed = threading.Condition()
        self._waiting: queue.Queue[tuple[Callable[[], Any], Future[Any]]] = queue.Queue(
            MOST_WAITING
        )

    # The worker's.

    def begin(self, worker: ServingWorker) -> None:
        """Serve the tasks of a worker."""
        self.worker = worker

    def end(self) -> None:
        """Serve nothing more."""
        self.worker, self.partitioners = None, {}
        self.copies.end()
        with self._changed:
            self._tasks = {}
            self._changed.notify_all()
        self._refuse_calls()

    def add(self, active: ActiveTask) -> None:
        """Serve a task that is ours, from its committed state on."""
        if self.worker is None or active.task in self._tasks:
            return
        views = active.state.views
        with self._changed:
            self._tasks[active.task] = ServedTask(
                active.task, views, active, dict(active.committed)
            )
        views.open(self.written)
        self.copies.is_ours(active.task)
        self.written()

    def remove(self, task: TaskId) -> None:
        """Stop serving a task, before its stores are closed or another member has it."""
        with self._changed:
            gone = self._tasks.pop(task, None)
            self._changed.notify_all()
        if gone is not None:
            gone.views.close()

    def written(self) -> None:
        """Wake the readers that wait for a position."""
        with self._changed:
            self._changed.notify_all()

    def answer(self) -> None:
        """Make some of the calls that wait, between two batches."""
        for _ in range(CALLS_A_ROUND):
            try:
                call, future = self._waiting.get_nowait()
            except queue.Empty:
                return
            if future.set_running_or_notify_cancel():
                _make(call, future)

    # For readers.

    def tasks(self, subtopology: int) -> dict[int, ServedTask]:
        """The tasks of a subtopology that are ours, by partition."""
        with self._changed:
            found = [one for one in self._tasks.values() if one.task.subtopology == subtopology]
        return {one.task.partition: one for one in found}

    def wait(self, timeout_s: float) -> None:
        """Wait until a commit was written, or a task came or went."""
        with self._changed:
            self._changed.wait(timeout_s)

    def ask(self, call: Callable[[], Any]) -> Future[Any]:
        """Have the worker's loop make a call.

        Raises:
            QueryRefusedError: too many wait already.
        """
        future: Future[Any] = Future()
        try:
            self._waiting.put_nowait((call, future))
        except queue.Full:
            raise QueryRefusedError(
                f"{MOST_WAITING} queries of newest state wait already; ask again, or ask for "
                "committed state, which waits for nothing"
            ) from None
        worker = self.worker
        if worker is None:
            self._refuse_calls()
        else:
            worker.wake()
        return future

    def _refuse_calls(self) -> None:
        while True:
            try:
                _, future = self._waiting.get_nowait()
            except queue.Empty:
                return
            if future.set_running_or_notify_cancel():
                future.set_exception(
                    StateStoreMigratedError("the worker of this process has ended; ask again")
                )


def _make(call: Callable[[], Any], future: Future[Any]) -> None:
    try:
        future.set_result(call())
    except Exception as error:
        future.set_exception(error)
