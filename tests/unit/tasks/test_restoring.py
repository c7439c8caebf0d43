"""Tasks of ours that are restored beside copies: first, with progress told, ended in any way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.errors import BrokerError, StateLockedError, UnreachableError
from streamlet.kafka.ports import PartitionBatch
from streamlet.tasks.open_task import OpenTask
from streamlet.tasks.opening import TaskOpener
from streamlet.tasks.target import Target
from streamlet.tasks.task_events import CopyLag, Restored, RestoreFailed
from streamlet.types import StateNumber, TaskId
from tests.unit.runtime.members import counting, wait_for
from tests.unit.tasks.updating import C0, C1, T0, T1, World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.copies.close()


def opened(world: World, task: TaskId = T0) -> OpenTask:
    return TaskOpener(counting(), world.directory, 1_000)(task)


def restored(world: World, task: TaskId = T0) -> Restored:
    event = world.see(lambda e: isinstance(e, Restored) and e.opened.task == task)
    assert isinstance(event, Restored)
    return event


def await_progress(world: World, phase: str) -> None:
    def told() -> bool:
        world.told += world.copies.take()
        return any(one.phase == phase for one in world.progress)

    wait_for(told, phase)


def is_free(world: World, task: TaskId) -> bool:
    """True if nobody has the task's folder."""
    try:
        world.directory.lock_task(task).release()
    except StateLockedError:
        return False
    return True


def test_a_task_is_restored_to_its_commit_and_not_beyond(world: World) -> None:
    world.flush(1, a=1, b=1)
    world.flush(2, a=2)
    world.flush(3, b=3)  # its commit never came
    mine = opened(world)
    world.copies.restore(mine, Target(limit=StateNumber(1, 2), ends={C0: world.log.end(C0)}))
    event = restored(world)
    assert event.opened is mine
    assert (mine.target.limit, mine.beyond) == (StateNumber(1, 2), None)
    assert dict(mine.state.stores["counts"].range()) == {"a": 2, "b": 1}
    assert mine.state.state == StateNumber(1, 2)
    mine.close()
    told = world.progress
    assert [(one.phase, one.task) for one in (told[0], told[-1])] == [("start", T0), ("end", T0)]
    assert told[-1].restored == 4


def test_of_copies_no_progress_is_told(world: World) -> None:
    """Kafka Streams' restore listeners hear of active tasks only."""
    world.flush(1, a=1)
    world.copies.set(frozenset({T0}))
    world.see(lambda event: event == CopyLag(T0, 0))
    world.copies.promote(T0, Target(limit=StateNumber(1, 1), ends={C0: 1}))
    world.promoted(T0).opened.close()
    assert world.progress == []


def test_stores_that_prove_a_later_commit_come_back_with_what_they_prove(world: World) -> None:
    """Whoever restores decides: positions were set back, or another member has committed."""
    for number in (1, 2, 3):
        world.flush(number, a=number)
    commit = CommitMetadata(1, "a", 1, state=StateNumber(1, 1))
    ends = {C0: world.log.end(C0)}
    target = Target(metadata=commit, limit=StateNumber(1, 1), ends=ends)
    world.copies.restore(opened(world), target)
    event = restored(world)
    assert event.opened.beyond is not None
    assert event.opened.beyond > StateNumber(1, 1)
    event.opened.close()


def test_a_copy_waits_until_a_task_is_restored(world: World) -> None:
    """No member runs the task meanwhile; the copy's owner runs on."""
    for number in range(1, 6):
        world.flush(number, a=number)
        world.flush(number, C1, a=number)
    world.copies.set(frozenset({T1}))
    world.see(lambda event: event == CopyLag(T1, 0))
    for number in range(6, 11):
        world.flush(number, a=number)
        world.flush(number, C1, a=number)
    before = len(world.source.read)
    world.copies.restore(opened(world), Target(limit=StateNumber(1, 10), ends={C0: 10}))
    restored(world).opened.close()
    read = world.source.read[before:]
    last = len(read) - 1 - read[::-1].index(C0)
    began = read.index(C0)
    assert C1 not in read[began:last]
    wait_for(lambda: world.source.read.count(C1) == 10, "the copy is read on")


def test_copies_go_on_while_no_broker_lets_a_task_be_restored(world: World) -> None:
    world.flush(1, a=1)
    world.flush(1, C1, a=1)
    world.restores.error = UnreachableError("nobody is there")
    world.copies.restore(opened(world), Target(limit=StateNumber(1, 1), ends={C0: 1}))
    world.copies.set(frozenset({T1}))
    world.see(lambda event: event == CopyLag(T1, 0))
    world.restores.error = None
    restored(world).opened.close()


def test_a_restore_that_is_given_up_frees_the_folder_and_tells_of_it(world: World) -> None:
    world.copies.restore(opened(world), Target(limit=StateNumber(1, 9), ends={C0: 9}))
    await_progress(world, "start")
    world.copies.cancel(T0)
    await_progress(world, "suspended")
    wait_for(lambda: is_free(world, T0), "the folder is free")
    world.copies.cancel(T0)  # there is none any more
    world.flush(1, a=1)
    world.copies.restore(opened(world), Target(limit=StateNumber(1, 1), ends={C0: 1}))
    restored(world).opened.close()


def test_stores_that_fail_are_closed_and_their_task_is_named(world: World) -> None:
    world.log.append(C0, [b"a"], [b""])  # no number in front: not ours
    world.copies.restore(opened(world), Target(limit=StateNumber(1, 1), ends={C0: 1}))
    failed = world.see(lambda event: isinstance(event, RestoreFailed))
    assert isinstance(failed, RestoreFailed)
    assert failed.opened.task == T0
    assert is_free(world, T0)


def test_a_refusal_for_good_of_what_is_restored_ends_the_worker(world: World) -> None:
    refusal = BrokerError("not authorized")
    assert not refusal.passing
    world.restores.error = refusal
    world.copies.restore(opened(world), Target(limit=StateNumber(1, 1), ends={C0: 1}))
    wait_for(lambda: world.copies.closed, "it ends")
    with pytest.raises(BrokerError, match="not authorized"):
        world.copies.check()
    wait_for(lambda: is_free(world, T0), "the folder is free")


def test_a_refusal_of_what_a_copy_reads_holds_up_no_restore(world: World) -> None:
    world.copies.set(frozenset({T1}))
    world.see(lambda event: event == CopyLag(T1, 0))
    world.source.error = BrokerError("not authorized")
    world.flush(1, a=1)
    world.copies.restore(opened(world), Target(limit=StateNumber(1, 1), ends={C0: 1}))
    restored(world).opened.close()
    world.copies.check()


def test_what_waits_for_a_restore_does_not_run_round_and_round(world: World) -> None:
    """A copy is to be promoted in a moment, and what is restored has yet to be fetched."""
    world.flush(1, C1, a=1)
    world.copies.set(frozenset({T1}))
    world.see(lambda event: event == CopyLag(T1, 0))
    world.copies.prefer(frozenset({T1}))
    waited: list[int] = []
    poll = world.restores.poll

    def noted(most: int, timeout_ms: int, idle_ms: int = 0) -> list[PartitionBatch]:
        waited.append(timeout_ms)
        return poll(most, timeout_ms, idle_ms)

    world.restores.poll = noted  # type: ignore[method-assign]
    world.copies.restore(opened(world), Target(limit=StateNumber(1, 9), ends={C0: 9}))
    wait_for(lambda: len(waited) >= 10, "it is polled")
    assert all(waited)


def test_what_is_asked_of_an_updater_that_has_ended_is_closed(world: World) -> None:
    world.copies.set(frozenset({T1}))
    world.see(lambda event: event == CopyLag(T1, 0))
    world.copies.close()
    world.copies.restore(opened(world), Target(limit=StateNumber(1, 1), ends={C0: 1}))
    assert [event for event in world.copies.take() if isinstance(event, RestoreFailed)]
    assert is_free(world, T0)


def test_what_is_restored_when_the_updater_is_closed_is_told_to_be_suspended(
    world: World,
) -> None:
    world.copies.restore(opened(world), Target(limit=StateNumber(1, 9), ends={C0: 9}))
    await_progress(world, "start")
    world.copies.close()
    assert (world.progress[-1].phase, world.progress[-1].task) == ("suspended", T0)
    assert is_free(world, T0)


def test_a_promotion_that_is_given_up_leaves_room_for_a_copy(world: World) -> None:
    """Its task went elsewhere, and is to be followed again."""
    world.copies.set(frozenset({T0}))
    world.see(lambda event: event == CopyLag(T0, 0))
    world.copies.promote(T0, Target(limit=StateNumber(1, 9), ends={C0: 9}))
    world.copies.cancel(T0)
    world.told.clear()
    world.copies.set(frozenset({T0}))
    world.see(lambda event: event == CopyLag(T0, 0))


def test_stores_behind_an_error_of_a_listener_are_closed_with_the_updater(world: World) -> None:
    def fails(progress: object) -> None:
        raise RuntimeError("a listener's")

    world.flush(1, a=1)
    world.copies.restoring = fails
    world.copies.restore(opened(world), Target(limit=StateNumber(1, 1), ends={C0: 1}))
    wait_for(lambda: world.copies._events.qsize() == 3, "its begin, its end and its stores")
    with pytest.raises(RuntimeError):
        list(world.copies.take())
    world.copies.restoring = lambda progress: None
    world.copies.close()
    assert is_free(world, T0)
