"""Observers of a worker, and listeners that a user may set: for states, restored stores, copies.

Kafka Streams' ``StateListener``, ``StateRestoreListener`` and ``StandbyUpdateListener``. They are
called on the loop of the worker they report on, in its process, so what they do holds up
processing; that of copies is called on the thread that reads them. As in Kafka Streams an
exception in one of them ends the worker (and the supervisor starts it again): a user who counts
on a call must not miss one. Only on the way out, where there is nothing left to stop, it is
logged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import attrs

from streamlet.errors import ListenerError, error_text
from streamlet.logs import get_logger
from streamlet.types import TaskId, TopicPartition

if TYPE_CHECKING:
    from streamlet.processing.outputs import Output
    from streamlet.tasks.open_task import RestoreProgress

log = get_logger(__name__)

#: Called with the new and the old state of a worker: CREATED, REBALANCING, RUNNING,
#: PENDING_SHUTDOWN, NOT_RUNNING or ERROR.
StateListener: TypeAlias = Callable[[str, str], object]

#: The reason why a copy is not read on.
SuspendReason: TypeAlias = Literal["promoted", "migrated"]

#: States in which a worker is ending already.
_ENDING = frozenset({"PENDING_SHUTDOWN", "NOT_RUNNING", "ERROR"})


class StateRestoreListener:
    """Called while stores are restored before their task runs; override what you want to know.

    ``partition`` is that of the changelog. Copies (learners and standbys) are not restored in this
    sense, they are kept, so a task that takes over from a warm copy calls nothing.
    """

    def on_restore_start(
        self, partition: TopicPartition, store: str, start: int, end: int
    ) -> object:
        """A store is to be read from offset ``start`` up to ``end`` (not included)."""

    def on_batch_restored(
        self, partition: TopicPartition, store: str, batch_end: int, restored: int
    ) -> object:
        """More records were read, up to this offset; called a few times a second."""

    def on_restore_end(self, partition: TopicPartition, store: str, total: int) -> object:
        """The store is as its task needs it, after so many records."""

    def on_restore_suspended(self, partition: TopicPartition, store: str, total: int) -> object:
        """The restore was given up, because the task went elsewhere or must begin again."""


class StandbyUpdateListener:
    """Called while copies of stores (of standbys and learners) are read; override what you want.

    ``partition`` is that of the changelog, and ``end`` its end as far as it is known. Calls come on
    the thread that reads changelogs, not on that of the tasks.
    """

    def on_update_start(self, partition: TopicPartition, store: str, start: int) -> object:
        """A copy of a store is to be read from offset ``start`` on."""

    def on_batch_loaded(
        self,
        partition: TopicPartition,
        store: str,
        task: str,
        batch_end: int,
        batch_size: int,
        end: int,
    ) -> object:
        """More records were read, so many, up to this offset; called a few times a second."""

    def on_update_suspended(
        self, partition: TopicPartition, store: str, offset: int, end: int, reason: SuspendReason
    ) -> object:
        """The copy is not read on: its task runs here now (promoted), or the copy goes."""


class Observer(Protocol):
    """Observes what a worker does (the supervisor's pipe, a notebook, a test)."""

    @property
    def copying(self) -> Callable[[RestoreProgress], None] | None:
        """Takes the progress of copies, on the thread that reads them; None: it is not wanted."""
        ...

    def state_changed(self, state: str, tasks: tuple[TaskId, ...]) -> None:
        """The worker's state (Kafka Streams' names) or the set of running tasks changed."""
        ...

    def restoring(self, progress: RestoreProgress) -> None:
        """A store is being restored."""
        ...

    def produced(self, outputs: list[Output]) -> None:
        """Take outputs that were handed to the producer."""
        ...

    def settled(self, counts: bool) -> None:
        """Learn whether what was produced since the last call is committed, or never will be.

        Called where outputs are committed by transactions.
        """
        ...


@attrs.define
class Listeners:
    """The listeners of an application."""

    state: StateListener | None = None
    restore: StateRestoreListener | None = None
    standby: StandbyUpdateListener | None = None

    def around(self, observer: Observer) -> Observer:
        """An observer of one worker that tells them as well."""
        if self.state is None and self.restore is None and self.standby is None:
            return observer
        return _Listening(self, observer)


@attrs.define
class _Listening:
    """Passes everything on, and tells the listeners what concerns them."""

    listeners: Listeners
    observer: Observer
    state: str = "CREATED"

    def state_changed(self, state: str, tasks: tuple[TaskId, ...]) -> None:
        """The worker's state or tasks changed."""
        self.observer.state_changed(state, tasks)
        old, self.state = self.state, state
        listener = self.listeners.state
        if listener is None or old == state:
            return
        with _checked(f"the state listener failed on {old} -> {state}", state in _ENDING):
            listener(state, old)

    def restoring(self, progress: RestoreProgress) -> None:
        """A store is being restored."""
        self.observer.restoring(progress)
        if self.listeners.restore is None:
            return
        where = f"{progress.phase} of store {progress.store} of task {progress.task}"
        with _checked(f"the restore listener failed on {where}", progress.phase == "suspended"):
            _tell(self.listeners.restore, progress)

    @property
    def copying(self) -> Callable[[RestoreProgress], None] | None:
        """Takes the progress of copies, if there is a listener for that."""
        return self.observer.copying if self.listeners.standby is None else self._copying

    def _copying(self, progress: RestoreProgress) -> None:
        if self.observer.copying is not None:
            self.observer.copying(progress)
        assert self.listeners.standby is not None
        where = f"{progress.phase} of the copy of store {progress.store} of task {progress.task}"
        with _checked(f"the standby listener failed on {where}", progress.phase == "suspended"):
            _tell_of_copy(self.listeners.standby, progress)

    def produced(self, outputs: list[Output]) -> None:
        """Take outputs that were handed to the producer."""
        self.observer.produced(outputs)

    def settled(self, counts: bool) -> None:
        """Learn whether what was produced since the last call is committed, or never will be."""
        self.observer.settled(counts)


@contextmanager
def _checked(what: str, ending: bool) -> Iterator[None]:
    """End the worker with an error of a listener; while it is ending already, log the error."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        text = f"{what}: {error_text(error)}"
        if not ending:
            raise ListenerError(text) from error
        log.exception("%s", text)


def _tell(listener: StateRestoreListener, progress: RestoreProgress) -> None:
    partition, store = progress.partition, progress.store
    if progress.phase == "start":
        listener.on_restore_start(partition, store, progress.position, progress.end)
        return
    if progress.batch:
        listener.on_batch_restored(partition, store, progress.position, progress.batch)
    if progress.phase == "end":
        listener.on_restore_end(partition, store, progress.restored)
    elif progress.phase == "suspended":
        listener.on_restore_suspended(partition, store, progress.restored)


def _tell_of_copy(listener: StandbyUpdateListener, progress: RestoreProgress) -> None:
    where = progress.partition, progress.store
    if progress.phase == "start":
        listener.on_update_start(*where, progress.position)
        return
    if progress.batch:
        counts = progress.position, progress.batch, progress.end
        listener.on_batch_loaded(*where, str(progress.task), *counts)
    if progress.phase != "batch":
        reason: SuspendReason = "promoted" if progress.phase == "end" else "migrated"
        listener.on_update_suspended(*where, progress.position, progress.end, reason)
