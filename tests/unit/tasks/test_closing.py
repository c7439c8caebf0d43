"""When stores of tasks that were given up are closed."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import cast

import pytest

from streamlet.clock import SystemClock
from streamlet.errors import StateError
from streamlet.state.directory import StateDirectory
from streamlet.state.task_state import TaskState
from streamlet.tasks.open_task import OpenTask
from streamlet.tasks.opening import Closer
from streamlet.types import TaskId

LONG_MS = 3_600_000
SOON_S = 300.0


class Stores:
    """Stands for opened stores; tells when they are closed."""

    task = TaskId(0, 0)

    def __init__(self, error: StateError | None = None) -> None:
        self.closed = threading.Event()
        self._error = error

    def close(self) -> None:
        self.closed.set()
        if self._error is not None:
            raise self._error


def give(closer: Closer, error: StateError | None = None) -> Stores:
    stores = Stores(error)
    closer.close(cast(OpenTask, stores))
    return stores


def test_without_a_pause_stores_are_closed_by_and_by() -> None:
    closer = Closer(SystemClock())
    stores = give(closer)
    assert stores.closed.wait(SOON_S)
    closer.finish()


def test_all_that_wait_are_closed_when_somebody_may_want_them() -> None:
    closer = Closer(SystemClock(), LONG_MS)
    first, second = give(closer), give(closer)
    assert not first.closed.is_set()
    closer.hurry()
    assert first.closed.wait(SOON_S)
    assert second.closed.wait(SOON_S)
    later = give(closer)
    assert not later.closed.is_set(), "the hurry was over"
    closer.finish()
    assert later.closed.is_set()


def test_a_store_that_refuses_does_not_keep_the_next(caplog: pytest.LogCaptureFixture) -> None:
    closer = Closer(SystemClock())
    give(closer, StateError("disk full"))
    after = give(closer)
    closer.finish()
    assert after.closed.is_set()
    assert "disk full" in caplog.text


def test_stores_that_cannot_be_closed_do_not_stay_locked(tmp_path: Path) -> None:
    """Whoever wants the task next would wait for the folder until this process ends."""

    class Refusing:
        def close(self) -> None:
            raise StateError("no space left")

    directory, task = StateDirectory(tmp_path, "app"), TaskId(0, 0)
    opened = OpenTask(task, cast(TaskState, Refusing()), directory.lock_task(task))
    with pytest.raises(StateError, match="no space left"):
        opened.close()
    directory.lock_task(task).release()
