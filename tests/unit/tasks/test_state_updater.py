"""Copies are followed, told of, promoted in place, and given up when a store refuses."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.coordinator.messages import Committed
from streamlet.errors import (
    BrokerError,
    StateLockedError,
    StreamletError,
)
from streamlet.kafka.ports import PartitionBatch
from streamlet.state.directory import StateDirectory
from streamlet.tasks import copy_opener, lock_waits
from streamlet.tasks.changelog_reader import GENTLE_RECORDS, POLL_RECORDS
from streamlet.tasks.target import Target
from streamlet.tasks.task_events import CopyFailed, CopyLag
from streamlet.types import StateNumber, TopicPartition
from tests.unit.runtime.members import wait_for
from tests.unit.tasks.updating import C0, C1, T0, T1, World, entries


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.copies.close()


def test_a_copy_follows_its_changelog_and_tells_how_far_behind_it_is(world: World) -> None:
    world.flush(1, a=1, b=1)
    world.copies.set(frozenset({T0}))
    world.see(lambda event: event == CopyLag(T0, 0))


@pytest.mark.parametrize(
    ("part", "call"),
    [
        ("admin", "end_offsets"),
        ("admin", "topic_ids"),
        ("admin", "start_offsets"),
        ("source", "assign"),
        ("source", "poll"),
    ],
)
def test_a_broker_that_is_away_while_a_copy_is_opened_only_delays_it(
    tmp_path: Path, part: str, call: str
) -> None:
    world = World(tmp_path, unsteady=True)
    try:
        world.flush(1, a=1, b=1)
        world.flush(1, C1, a=1)
        world.parts[part].fails = call
        world.copies.set(frozenset({T0, T1}))
        world.see(lambda event: event == CopyLag(T0, 0))
        world.see(lambda event: event == CopyLag(T1, 0))
        assert world.parts[part].failed == 1
    finally:
        world.copies.close()


def test_a_promoted_copy_is_as_of_the_commit_and_not_beyond(world: World) -> None:
    world.flush(1, a=1, b=1)
    world.copies.set(frozenset({T0}))
    world.see(lambda event: event == CopyLag(T0, 0))
    world.flush(2, a=2)
    world.flush(3, b=3, c=3)  # its commit never came
    world.copies.promote(T0, Target(limit=StateNumber(1, 2), ends={C0: world.log.end(C0)}))
    promoted = world.promoted(T0)
    assert entries(promoted) == {"a": 2, "b": 1}
    assert promoted.opened.state.state == promoted.opened.target.limit == StateNumber(1, 2)
    promoted.opened.close()


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities on Linux only")
@pytest.mark.skipif(
    os.getpriority(os.PRIO_PROCESS, 0) == 19, reason="these tests run behind all others already"
)
def test_copies_are_read_behind_others_while_nobody_waits_for_them(world: World) -> None:
    """A worker without tasks learns in the background, and nowhere else while it has some."""
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    world.copies.set(frozenset({T0}))
    wait_for(lambda: world.source.priority > usual, "nothing was read in the background")
    world.copies.prefer(frozenset({T0}))
    wait_for(lambda: world.source.priority == usual, "what is awaited is still read there")
    world.copies.prefer(frozenset())
    wait_for(lambda: world.source.priority > usual, "it did not go back")
    world.copies.has_actives = True
    wait_for(lambda: world.source.priority == usual, "it is not the tasks' thread that waits")


def test_beside_tasks_that_run_copies_are_read_little_at_a_time(world: World) -> None:
    world.copies.set(frozenset({T0}))
    wait_for(lambda: world.source.most == POLL_RECORDS, "nothing was read")
    world.copies.has_actives = True
    wait_for(lambda: world.source.most == GENTLE_RECORDS, "the tasks' thread waits for much")


def test_a_promoted_copy_is_no_copy_any_more(world: World) -> None:
    world.copies.set(frozenset({T0, T1}))
    world.see(lambda event: event == CopyLag(T1, 0))
    world.copies.promote(T0, Target(ends={C0: 0}))
    assert world.copies.wanted == {T1}
    world.promoted(T0).opened.close()


def test_what_is_not_open_cannot_be_promoted(world: World) -> None:
    held = world.directory.lock_task(T0)
    world.copies.set(frozenset({T0, T1}))
    world.see(lambda event: event == CopyLag(T1, 0))
    world.copies.promote(T0, Target(ends={C0: 0}))
    world.see(lambda event: isinstance(event, CopyFailed) and event.task == T0)
    held.release()


def test_a_folder_that_is_held_is_tried_again(world: World) -> None:
    held = world.directory.lock_task(T0)
    world.copies.set(frozenset({T0, T1}))
    world.see(lambda event: event == CopyLag(T1, 0))
    assert world.copies.problems == {}
    held.release()
    world.see(lambda event: event == CopyLag(T0, 0))


def test_a_copy_whose_folder_is_held_for_long_says_by_whom(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lock_waits, "QUIET_MS", 0)
    held = world.directory.lock_task(T0)
    world.copies.set(frozenset({T0}))
    wait_for(lambda: T0 in world.copies.problems, "it says what it waits for")
    said = f"waits for a lock: state of task 0_0 in .* is held by process {os.getpid()} "
    assert re.match(said, world.copies.problems[T0])
    assert "the copy of task 0_0 has waited for 0 s: it waits for a lock" in caplog.text
    held.release()
    world.see(lambda event: event == CopyLag(T0, 0))
    assert world.copies.problems == {}


def test_a_copy_that_is_wanted_no_more_frees_its_folder(world: World) -> None:
    world.copies.set(frozenset({T0, T1}))
    world.see(lambda event: event == CopyLag(T0, 0))
    world.copies.set(frozenset({T1}))

    def free() -> bool:
        try:
            world.directory.lock_task(T0).release()
        except StateLockedError:
            return False
        return True

    wait_for(free, "the folder is free")


def test_what_is_about_to_be_promoted_is_read_before_everything_else(world: World) -> None:
    for number in range(1, 200):
        world.flush(number, C0, a=number)
        world.flush(number, C1, a=number)
    world.copies.prefer(frozenset({T1}))
    world.copies.set(frozenset({T0, T1}))
    wait_for(lambda: C1 in world.source.read, "reading begins")
    world.copies.promote(T1, Target(limit=StateNumber(1, 199), ends={C1: 199}))
    promoted = world.promoted(T1)
    assert entries(promoted) == {"a": 199}
    promoted.opened.close()
    read = list(world.source.read)
    assert C0 not in read[: read.index(C1) + 199], "the other one waited"
    world.copies.prefer(frozenset())
    world.see(lambda event: event == CopyLag(T0, 0))


def test_a_broker_that_is_away_for_a_while_only_delays(world: World) -> None:
    world.source.error = BrokerError("the broker is away")
    world.flush(1, a=1)
    world.copies.set(frozenset({T0}))
    world.see(lambda event: event == CopyLag(T0, 1))
    world.source.error = None
    world.see(lambda event: event == CopyLag(T0, 0))


def test_a_changelog_that_lost_records_makes_no_copy_until_it_was_written_again(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A copy of what is left would be told to be caught up."""
    monkeypatch.setattr(copy_opener, "AGAIN_MS", 1)
    world.flush(1, a=1, b=1)
    ends = {C0: 4}
    world.commit = Committed(9, CommitMetadata(1, "m", 1, ends, StateNumber(1, 2)).to_text())
    world.copies.set(frozenset({T0}))
    wait_for(lambda: "no copy of task 0_0 is made" in caplog.text, "it says so")
    assert f"{C0} ends at 2, the commit was made when it ended at 4" in caplog.text
    assert CopyLag(T0, 0) not in world.copies.take()
    world.flush(2, a=2, b=2)
    world.see(lambda event: event == CopyLag(T0, 0))


def test_a_copy_that_was_read_to_the_ends_is_promoted_though_its_changelog_lost_them(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for task, tp in ((T0, C0), (T1, C1)):
        world.flush(1, tp, a=1)
        world.flush(2, tp, a=2)
        world.copies.set(world.copies.wanted | {task})
        world.see(lambda event, task=task: event == CopyLag(task, 0))  # type: ignore[misc]
    world.log.lose_tail(C0, 1)
    wait_for(
        lambda: f"the copy of task 0_0 is kept: {C0} lost records" in caplog.text, "it is kept"
    )
    world.copies.promote(T0, Target(limit=StateNumber(1, 2), rewrite=frozenset({C0}), ends={C0: 2}))
    promoted = world.promoted(T0)
    assert entries(promoted) == {"a": 2}
    promoted.opened.close()
    world.copies.promote(T1, Target(limit=StateNumber(1, 3), rewrite=frozenset({C1}), ends={C1: 3}))
    failed = world.see(lambda event: isinstance(event, CopyFailed))
    reason = "its changelogs lost records, or bear epochs without a claim"
    assert failed == CopyFailed(T1, reason)


def test_a_copy_that_is_ahead_of_the_commit_is_not_promoted_and_stays(world: World) -> None:
    """The committed positions were set back; what to do about it is not decided here."""
    for number in (1, 2, 3):
        world.flush(number, a=number)
    world.copies.set(frozenset({T0}))
    world.see(lambda event: event == CopyLag(T0, 0))
    world.copies.promote(T0, Target(limit=StateNumber(1, 1), ends={C0: world.log.end(C0)}))
    failed = world.see(lambda event: isinstance(event, CopyFailed))
    assert isinstance(failed, CopyFailed)
    assert "ahead of the commit" in failed.reason
    (folder,) = world.directory.tasks()
    contents = folder.contents()
    assert contents is not None
    assert contents.positions, "the copy is still there"


def test_a_copy_whose_store_refuses_is_closed_alone_and_opened_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes back by itself: the worker asks for each copy once."""
    monkeypatch.setattr(copy_opener, "AGAIN_MS", 1)
    world.copies.set(frozenset({T0, T1}))
    world.see(lambda event: event == CopyLag(T1, 0))
    world.log.append(C0, [b"a"], [b""])  # no number in front: not ours
    other = world.copies.kept[T1]
    world.see(lambda event: isinstance(event, CopyFailed))
    world.told.clear()
    world.log.lose_tail(C0, world.log.end(C0) - 1)  # what was not ours is gone
    world.see(lambda event: event == CopyLag(T0, 0))
    assert world.copies.kept[T1] is other, "the other copy was read on"
    assert not any(isinstance(e, CopyFailed) and e.task == T1 for e in world.told)


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities on Linux only")
def test_threads_of_the_database_do_not_stay_behind_others(tmp_path: Path) -> None:
    """They outlast the copies: active tasks of the process are flushed and compacted by them too.

    In a process of its own, since whoever opens the first database of a process has them started.
    """
    found = subprocess.run(
        [sys.executable, "-c", _DATABASE_THREADS, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    assert found.split("\n")[:-1] == [f"rocksdb:high {usual}", f"rocksdb:low {usual}"]


_DATABASE_THREADS = """
import os, sys
from pathlib import Path
from streamlet.tasks.task_events import CopyLag
from tests.unit.runtime.members import wait_for
from tests.unit.tasks.updating import T0, T1, World

world, turns = World(Path(sys.argv[1])), []
keep = world.copies.runner._keep
world.copies.runner._keep = lambda background: (turns.append(background), keep(background))
world.copies.prefer(frozenset({T1}))
wait_for(lambda: True in turns, "it is the background thread that opens the first")
world.copies.set(frozenset({T0}))
world.see(lambda event: event == CopyLag(T0, 0))
tasks = Path("/proc/self/task").iterdir()
threads = {int(task.name): (task / "comm").read_text().strip() for task in tasks}
of_rocksdb = {thread: name for thread, name in threads.items() if name.startswith("rocksdb")}
for thread, name in sorted(of_rocksdb.items(), key=lambda one: one[1]):
    print(name, os.getpriority(os.PRIO_PROCESS, thread))
world.copies.close()
"""


def test_when_the_thread_breaks_all_who_wait_hear_of_it_and_nothing_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for the other thread's turn, nor for a copy that nobody brings up any more."""

    def bug(*_: object) -> list[PartitionBatch]:
        raise RuntimeError("a bug")

    def refused(partitions: Sequence[TopicPartition]) -> None:
        raise BrokerError("not in this state")

    world = World(tmp_path)
    world.copies.set(frozenset({T0, T1}))
    world.see(lambda event: event == CopyLag(T1, 0))
    monkeypatch.setattr(world.source, "unassign", refused)
    monkeypatch.setattr(world.source, "poll", bug)
    both = world.copies.runner._threads
    wait_for(lambda: not any(map(threading.Thread.is_alive, both)), "both threads end")
    world.told.clear()
    world.copies.promote(T0, Target(ends={C0: 0}))
    world.see(lambda event: isinstance(event, CopyFailed) and event.task == T0)
    for task in (T0, T1):
        world.directory.lock_task(task).release()
    with pytest.raises(StreamletError, match=r"the thread that reads changelogs broke: .*a bug"):
        world.copies.check()
    world.copies.close()


def test_closing_frees_what_was_promoted_and_never_taken(world: World, tmp_path: Path) -> None:
    world.copies.set(frozenset({T0}))
    world.see(lambda event: event == CopyLag(T0, 0))
    world.copies.promote(T0, Target(ends={C0: 0}))
    wait_for(lambda: not world.copies._events.empty(), "it was promoted")
    world.copies.close()
    StateDirectory(tmp_path, "app").lock_task(T0).release()
