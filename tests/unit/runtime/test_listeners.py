"""What listeners are told, and what becomes of a worker whose listener raises."""

from __future__ import annotations

import logging
from typing import Any

import attrs
import pytest

from streamlet.errors import ListenerError
from streamlet.runtime.listeners import Listeners, StandbyUpdateListener, StateRestoreListener
from streamlet.tasks.open_task import Phase, RestoreProgress
from streamlet.types import TaskId, TopicPartition
from tests.unit.runtime.members import Nobody

TP = TopicPartition("app-counts-changelog", 1)
RUNNING = (TaskId(0, 1),)


class Recorder(StateRestoreListener):
    """Notes every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        self.calls.append(("start", partition, store, start, end))

    def on_batch_restored(
        self, partition: TopicPartition, store: str, batch_end: int, restored: int
    ) -> None:
        self.calls.append(("batch", batch_end, restored))

    def on_restore_end(self, partition: TopicPartition, store: str, total: int) -> None:
        self.calls.append(("end", total))

    def on_restore_suspended(self, partition: TopicPartition, store: str, total: int) -> None:
        self.calls.append(("suspended", total))


class Failing(StateRestoreListener):
    """Raises wherever it is told."""

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        raise RuntimeError("no disk for notes")

    def on_restore_suspended(self, partition: TopicPartition, store: str, total: int) -> None:
        raise RuntimeError("no disk for notes")


def progress(phase: Phase, position: int, restored: int, batch: int) -> RestoreProgress:
    return RestoreProgress(TaskId(0, 1), "counts", TP, phase, position, 50, restored, batch, 1.0, 0)


def test_a_change_of_state_is_told_once_with_the_state_before() -> None:
    told: list[tuple[str, str]] = []
    observer = Listeners(state=lambda new, old: told.append((new, old))).around(Nobody())
    observer.state_changed("REBALANCING", ())
    observer.state_changed("RUNNING", ())
    observer.state_changed("RUNNING", RUNNING)  # only its tasks changed
    observer.state_changed("PENDING_SHUTDOWN", RUNNING)
    assert told == [
        ("REBALANCING", "CREATED"),
        ("RUNNING", "REBALANCING"),
        ("PENDING_SHUTDOWN", "RUNNING"),
    ]


def test_a_restore_is_told_from_start_to_end_and_no_record_is_left_out() -> None:
    recorder = Recorder()
    observer = Listeners(restore=recorder).around(Nobody())
    observer.restoring(progress("start", 10, 0, 0))
    observer.restoring(progress("batch", 30, 20, 20))
    observer.restoring(progress("end", 50, 40, 20))
    assert recorder.calls == [
        ("start", TP, "counts", 10, 50),
        ("batch", 30, 20),
        ("batch", 50, 20),
        ("end", 40),
    ]
    recorder.calls.clear()
    observer.restoring(progress("suspended", 30, 20, 0))
    assert recorder.calls == [("suspended", 20)]


def test_a_listener_may_leave_out_what_it_does_not_want() -> None:
    observer = Listeners(restore=StateRestoreListener()).around(Nobody())
    for phase in ("start", "batch", "end", "suspended"):
        observer.restoring(progress(phase, 10, 5, 5))  # type: ignore[arg-type]


def test_an_exception_ends_the_worker_but_not_one_on_its_way_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(new: str, old: str) -> None:
        raise RuntimeError("no disk for notes")

    observer = Listeners(fail, Failing()).around(Nobody())
    with pytest.raises(
        ListenerError, match=r"CREATED -> REBALANCING: .* in fail, .*: RuntimeError: no disk"
    ):
        observer.state_changed("REBALANCING", ())
    with pytest.raises(ListenerError, match=r"start of store counts of task 0_1"):
        observer.restoring(progress("start", 10, 0, 0))
    with caplog.at_level(logging.ERROR, "streamlet"):
        observer.state_changed("ERROR", ())
        observer.restoring(progress("suspended", 30, 20, 0))
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 2


def test_a_copy_is_told_from_start_until_it_is_promoted_or_goes() -> None:
    class Copies(StandbyUpdateListener):
        def __init__(self) -> None:
            self.calls: list[tuple[Any, ...]] = []

        def on_update_start(self, partition: TopicPartition, store: str, start: int) -> None:
            self.calls.append(("start", partition, store, start))

        def on_batch_loaded(self, *given: Any) -> None:
            self.calls.append(("batch", *given[2:]))

        def on_update_suspended(self, *given: Any) -> None:
            self.calls.append(given[2:])

    copies = Copies()
    copying = Listeners(standby=copies).around(Nobody()).copying
    assert copying is not None
    copying(progress("start", 10, 0, 0))
    copying(progress("batch", 30, 20, 20))
    copying(progress("batch", 30, 20, 0))  # nothing came
    copying(progress("end", 50, 40, 20))
    copying(progress("suspended", 40, 30, 0))
    assert copies.calls == [
        ("start", TP, "counts", 10),
        ("batch", "0_1", 30, 20, 50),
        ("batch", "0_1", 50, 20, 50),
        (50, 50, "promoted"),
        (40, 50, "migrated"),
    ]
    nobody = Listeners(restore=StateRestoreListener()).around(Nobody())
    assert nobody.copying is None
    for phase in ("start", "batch", "end", "suspended"):
        copying = Listeners(standby=StandbyUpdateListener()).around(Nobody()).copying
        assert copying is not None
        copying(progress(phase, 10, 5, 5))  # type: ignore[arg-type]


def test_without_listeners_nothing_stands_in_between() -> None:
    nobody = Nobody()
    assert Listeners().around(nobody) is nobody


def test_everything_still_reaches_the_observer() -> None:
    @attrs.define
    class Watching:
        seen: list[str] = attrs.field(factory=list)
        copying: None = None

        def state_changed(self, state: str, tasks: tuple[TaskId, ...]) -> None:
            self.seen.append(state)

        def restoring(self, progress: RestoreProgress) -> None:
            self.seen.append(progress.phase)

        def produced(self, outputs: list[Any]) -> None:
            self.seen.append("produced")

        def settled(self, counts: bool) -> None:
            self.seen.append(f"settled {counts}")

    watching = Watching()
    observer = Listeners(state=lambda new, old: None, restore=Recorder()).around(watching)
    observer.state_changed("RUNNING", ())
    observer.restoring(progress("batch", 30, 20, 20))
    observer.produced([])
    observer.settled(True)
    assert watching.seen == ["RUNNING", "batch", "produced", "settled True"]
