"""Copies are followed, told of, promoted in place, and given up when a store refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from streamlet.clock import SystemClock
from streamlet.config import Settings
from streamlet.errors import BrokerError
from streamlet.group.messages import Committed
from streamlet.kafka.ports import PartitionBatch
from streamlet.runtime.copies import Copies, CopyEvent, CopyFailed, Lag, Promoted
from streamlet.runtime.restore import Restorer
from streamlet.state.changelog import encode_column
from streamlet.state.directory import StateDirectory
from streamlet.testing.ports import MemoryAdmin, MemoryLog, MemorySource
from streamlet.types import StateNumber, TaskId, TopicPartition
from tests.unit.runtime.members import CHANGELOG, PARTITIONS, counting, wait_for

T0, T1 = TaskId(0, 0), TaskId(0, 1)
C0, C1 = TopicPartition(CHANGELOG, 0), TopicPartition(CHANGELOG, 1)


class Source(MemorySource):
    """Breaks while ``broken`` is set; notes what was read in which order."""

    broken = False

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(log, headers=True)
        self.read: list[TopicPartition] = []

    def poll(self, max_records: int, timeout_ms: int) -> list[PartitionBatch]:
        """One record at a time, so that reading takes many steps."""
        if self.broken:
            raise BrokerError("the broker is away")
        batches = super().poll(1, timeout_ms)
        self.read += [TopicPartition(b.topic, b.partition) for b in batches]
        return batches


class World:
    """Changelogs and the copies of one worker."""

    def __init__(self, root: Path) -> None:
        self.log = MemoryLog()
        for topic in ("words", CHANGELOG):
            self.log.create(topic, PARTITIONS)
        self.directory = StateDirectory(root, "app")
        self.source = Source(self.log)
        admin, clock = MemoryAdmin(self.log), SystemClock()
        self.copies = Copies(
            counting(),
            directory=self.directory,
            restorer=Restorer(self.source, admin, clock, positions=self.source.positions),
            positions=self,
            admin=admin,
            settings=Settings.load(),
            clock=clock,
        )
        self.told: list[CopyEvent] = []

    def fetch_committed(
        self, partitions: Sequence[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, Committed]:
        """Nothing is committed; counts need no table."""
        return {tp: Committed(-1, "") for tp in partitions}

    def flush(self, number: int, tp: TopicPartition = C0, **counts: int) -> None:
        """What an owner writes before its commit of that number."""
        raw: list[bytes | None] = [count.to_bytes(8, "big") for count in counts.values()]
        values, headers = encode_column(StateNumber(1, number), raw)
        self.log.append(tp, [key.encode() for key in counts], values, headers=headers)

    def see(self, seen: Callable[[CopyEvent], bool]) -> CopyEvent:
        """The first event like that, waited for."""

        def found() -> bool:
            self.told += self.copies.take()
            return any(map(seen, self.told))

        wait_for(found, f"only {self.told} was told")
        return next(event for event in self.told if seen(event))

    def promoted(self, task: TaskId) -> Promoted:
        event = self.see(lambda e: isinstance(e, Promoted) and e.opened.task == task)
        assert isinstance(event, Promoted)
        return event


def entries(promoted: Promoted) -> Mapping[str, int]:
    return dict(promoted.opened.state.stores["counts"].range())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.copies.close()


def test_a_copy_follows_its_changelog_and_tells_how_far_behind_it_is(world: World) -> None:
    world.flush(1, a=1, b=1)
    world.copies.set(frozenset({T0}))
    world.see(lambda event: event == Lag(T0, 0))


def test_a_promoted_copy_is_as_of_the_commit_and_not_beyond(world: World) -> None:
    world.flush(1, a=1, b=1)
    world.copies.set(frozenset({T0}))
    world.see(lambda event: event == Lag(T0, 0))
    world.flush(2, a=2)
    world.flush(3, b=3, c=3)  # its commit never came
    world.copies.promote(T0, StateNumber(1, 2), {C0: world.log.end(C0)})
    promoted = world.promoted(T0)
    assert entries(promoted) == {"a": 2, "b": 1}
    assert promoted.opened.state.state == StateNumber(1, 2)
    promoted.opened.close()


def test_a_promoted_copy_is_no_copy_any_more(world: World) -> None:
    world.copies.set(frozenset({T0, T1}))
    world.see(lambda event: event == Lag(T1, 0))
    world.copies.promote(T0, None, {C0: 0})
    assert world.copies.wanted == {T1}
    world.promoted(T0).opened.close()


def test_what_is_not_open_cannot_be_promoted(world: World) -> None:
    held = world.directory.lock_task(T0)
    world.copies.set(frozenset({T0, T1}))
    world.see(lambda event: event == Lag(T1, 0))
    world.copies.promote(T0, None, {C0: 0})
    world.see(lambda event: isinstance(event, CopyFailed) and event.task == T0)
    held.release()


def test_a_folder_that_is_held_is_tried_again(world: World) -> None:
    held = world.directory.lock_task(T0)
    world.copies.set(frozenset({T0, T1}))
    world.see(lambda event: event == Lag(T1, 0))
    held.release()
    world.see(lambda event: event == Lag(T0, 0))


def test_a_copy_that_is_wanted_no_more_frees_its_folder(world: World) -> None:
    world.copies.set(frozenset({T0, T1}))
    world.see(lambda event: event == Lag(T0, 0))
    world.copies.set(frozenset({T1}))

    def free() -> bool:
        try:
            world.directory.lock_task(T0).release()
        except Exception:
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
    world.copies.promote(T1, StateNumber(1, 199), {C1: 199})
    promoted = world.promoted(T1)
    assert entries(promoted) == {"a": 199}
    promoted.opened.close()
    read = list(world.source.read)
    assert C0 not in read[: read.index(C1) + 199], "the other one waited"
    world.copies.prefer(frozenset())
    world.see(lambda event: event == Lag(T0, 0))


def test_a_broker_that_is_away_for_a_while_only_delays(world: World) -> None:
    world.source.broken = True
    world.flush(1, a=1)
    world.copies.set(frozenset({T0}))
    world.see(lambda event: event == Lag(T0, 1))
    world.source.broken = False
    world.see(lambda event: event == Lag(T0, 0))


def test_a_store_that_refuses_ends_all_copies_and_each_is_told_of(world: World) -> None:
    world.copies.set(frozenset({T0, T1}))
    world.see(lambda event: event == Lag(T1, 0))
    world.log.append(C0, [b"a"], [b""])  # no number in front: not ours
    failed = {T0, T1}
    for task in failed:
        world.see(lambda event, task=task: isinstance(event, CopyFailed) and event.task == task)  # type: ignore[misc]


def test_closing_frees_what_was_promoted_and_never_taken(world: World, tmp_path: Path) -> None:
    world.copies.set(frozenset({T0}))
    world.see(lambda event: event == Lag(T0, 0))
    world.copies.promote(T0, None, {C0: 0})
    wait_for(lambda: not world.copies._events.empty(), "it was promoted")
    world.copies.close()
    StateDirectory(tmp_path, "app").lock_task(T0).release()
