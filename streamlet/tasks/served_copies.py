"""Copies of tasks, to be read by those who take state of a moment ago.

The thread that reads changelogs makes a view of a copy when a reader has asked for it, between two
of its writes, once it has read all that the log had at some time. Each store is then exactly as of
the newest commit that counts there, with the input positions that the log has beside it. Of the
commit held back (``state.holding_reader``) nothing is shown.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

import attrs

from streamlet.state.read_views import Contents, StateView
from streamlet.tasks.open_task import OpenTask
from streamlet.tasks.opening import blamed
from streamlet.types import TaskId, TopicPartition

#: How long a view that is not read is kept at least, ms: what the store had then stays on disk.
UNREAD_MS = 60_000


@attrs.frozen(eq=False)
class ServedCopy:
    """One store of a copy.

    Attributes:
        view: of the task's stores.
        position: the input positions of the commit that the store is as of.
        at_ms: wall-clock time until which no later commit was in its changelog.
    """

    view: StateView
    position: Mapping[TopicPartition, int]
    at_ms: int


class ServedCopies:
    """The copies of this process that can be read; readers ask, the state updater answers."""

    def __init__(self) -> None:
        #: The tasks that are copied here; the worker says so.
        self.followed: frozenset[TaskId] = frozenset()
        self._lock = threading.Lock()
        self._shown: dict[TaskId, dict[str, ServedCopy]] = {}
        self._asked: set[TaskId] = set()
        #: Tasks shown or read since the last look for views that are not, and when the next is.
        self._read: set[TaskId] = set()
        self._look_ms = 0

    # For readers.

    def get(self, task: TaskId, store: str) -> ServedCopy | None:
        """The newest view of a store of a copy; None: there is none yet."""
        with self._lock:
            found = self._shown.get(task, {}).get(store)
            if found is None or found.view.closed:
                return None
            self._read.add(task)
            return found

    def ask(self, task: TaskId) -> None:
        """Have a newer view made."""
        with self._lock:
            self._asked.add(task)

    # The worker's.

    def end(self) -> None:
        """Forget all copies: the worker has ended, and another one of this process has others."""
        self.followed = frozenset()
        with self._lock:
            self._shown, self._asked = {}, set()

    # The state updater's.

    def show_asked(self, kept: Mapping[TaskId, OpenTask | None], now_ms: int) -> None:
        """Make the views that are asked for, of these copies, and let go of those not read.

        Raises:
            StateError: a store cannot be written; it names the task.
        """
        if self._shown and now_ms >= self._look_ms:
            self._look_ms = now_ms + UNREAD_MS
            with self._lock:
                self._shown = {task: self._shown[task] for task in self._shown.keys() & self._read}
                self._read.clear()
        if not self._asked:
            return
        with self._lock:
            asked, self._asked = sorted(self._asked), set()
        for task in asked:
            copy = kept.get(task)
            if copy is not None and copy.followed and copy.begun and not copy.parked:
                with blamed(task):
                    self.show(copy)

    def show(self, copy: OpenTask) -> None:
        """Write what was read of a copy, and let readers see those stores that are whole then.

        Raises:
            StateError: a store cannot be written.
        """
        whole = {}
        for part in copy.parts:
            part.flush()
        latest = {name: store.commits.latest for name, store in copy.state.stores.items()}
        view = copy.state.views.of_copy(Contents(None, latest))
        for part in copy.parts:
            position = part.contained or copy.state.inputs
            if part.at_ms is not None and position is not None:
                whole[part.store] = ServedCopy(view, position, part.at_ms)
        with self._lock:
            self._read.add(copy.task)
            self._shown[copy.task] = {**self._shown.get(copy.task, {}), **whole}

    def forget(self, task: TaskId) -> None:
        """Let go of the views of a task: they are closed."""
        with self._lock:
            self._shown.pop(task, None)

    def is_ours(self, task: TaskId) -> None:
        """Note that a task is ours now: it is no copy, also once it has gone elsewhere."""
        self.followed -= {task}
        self.forget(task)
