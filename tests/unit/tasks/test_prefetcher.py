"""Input is read before its task runs, and only what the mark says is processed of it."""

from __future__ import annotations

import pytest

from streamlet.tasks import task_registry as module
from streamlet.tasks.task_registry import Prefetcher, from_offset
from streamlet.testing.memory_ports import MemoryLog, MemorySource
from streamlet.types import TaskId, TopicPartition

T0, T1 = TaskId(0, 0), TaskId(0, 1)
A0, B0, A1 = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("a", 1)


class World:
    """A log of two topics, a consumer, and what is read ahead through it."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        for topic in ("a", "b"):
            self.log.create(topic, 2)
        self.source = MemorySource(self.log)
        self.ahead = Prefetcher(self.source)

    def write(self, partition: TopicPartition, count: int) -> None:
        """Records whose values are their offsets."""
        first = self.log.end(partition)
        values: list[bytes | None] = [b"%d" % n for n in range(first, first + count)]
        self.log.append(partition, [b"k"] * count, values)

    def poll(self, limit: int = 100) -> list[tuple[str, list[int]]]:
        """Take what the consumer has; what is not read ahead is returned."""
        others = []
        for batch in self.source.poll(limit, 0):
            if not self.ahead.take(batch):
                others.append((batch.topic, list(batch.offsets)))
        return others

    def give(self, task: TaskId, *starts: tuple[TopicPartition, int]) -> list[int] | None:
        """The offsets given, of which the values tell the same."""
        batches = self.ahead.give(task, dict(starts))
        if batches is None:
            return None
        values = [int(v or b"") for batch in batches for v in batch.values]
        assert values == [offset for batch in batches for offset in batch.offsets]
        assert all(len(batch.keys) == len(batch.timestamps) == len(batch) for batch in batches)
        return values


@pytest.fixture
def world() -> World:
    return World()


def test_the_mark_says_which_records_count_and_the_consumer_goes_on_behind_them(
    world: World,
) -> None:
    world.write(A0, 10)
    world.ahead.read(T0, {A0: 3})
    world.poll(4)
    world.poll(2)
    assert world.give(T0, (A0, 5)) == [5, 6, 7, 8]
    assert world.poll() == [("a", [9])]


def test_a_mark_at_the_end_of_what_was_read_leaves_nothing_to_process(world: World) -> None:
    world.write(A0, 4)
    world.ahead.read(T0, {A0: 0})
    world.poll()
    assert world.give(T0, (A0, 4)) == []
    world.write(A0, 1)
    assert world.poll() == [("a", [4])]


def test_a_mark_where_reading_began_needs_no_record(world: World) -> None:
    world.ahead.read(T0, {A0: 0})
    assert world.give(T0, (A0, 0)) == []
    world.write(A0, 1)
    assert world.poll() == [("a", [0])]


@pytest.mark.parametrize("mark", [2, 7], ids=["before", "behind"])
def test_a_mark_outside_of_what_was_read_has_the_task_begin_the_usual_way(
    world: World, mark: int
) -> None:
    """Records behind what was read would come from before the mark."""
    world.write(A0, 10)
    world.ahead.read(T0, {A0: 3})
    world.poll(3)
    assert world.give(T0, (A0, mark)) is None
    assert world.poll() == []


def test_all_inputs_of_a_task_are_read_or_none(world: World) -> None:
    world.write(A0, 3)
    world.write(B0, 3)
    world.ahead.read(T0, {A0: 0, B0: 1})
    world.poll()
    assert world.give(T0, (A0, 0), (B0, 0)) is None
    assert world.poll() == []
    world.ahead.read(T0, {A0: 1, B0: 1})
    world.poll()
    assert world.give(T0, (A0, 2), (B0, 1)) == [2, 1, 2]


def test_nothing_is_given_of_a_task_that_was_not_read_ahead(world: World) -> None:
    world.ahead.read(T1, {A1: 0})
    assert world.give(T0, (A0, 0)) is None
    world.write(A1, 1)
    world.poll()
    assert world.give(T1, (A1, 0)) == [0]


def test_a_task_nobody_has_committed_is_not_read_ahead(world: World) -> None:
    world.write(A0, 1)
    world.ahead.read(T0, {A0: 0, B0: -1})
    assert world.poll() == []
    assert world.give(T0, (A0, 0), (B0, 0)) is None


def test_a_later_commit_drops_what_is_below_it(world: World) -> None:
    world.write(A0, 10)
    world.ahead.read(T0, {A0: 0})
    world.poll()
    world.ahead.read(T0, {A0: 6})
    assert world.give(T0, (A0, 5)) is None
    world.ahead.read(T0, {A0: 0})
    world.poll()
    world.ahead.read(T0, {A0: 6})
    assert world.give(T0, (A0, 8)) == [8, 9]


def test_a_commit_behind_what_was_read_changes_nothing(world: World) -> None:
    world.write(A0, 10)
    world.ahead.read(T0, {A0: 0})
    world.poll(2)
    world.ahead.read(T0, {A0: 5})
    world.poll()
    assert world.give(T0, (A0, 5)) == [5, 6, 7, 8, 9]


def test_what_waits_is_bounded_until_it_is_dropped_or_given(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_RECORDS", 4)
    world.write(A0, 10)
    world.ahead.read(T0, {A0: 0})
    for _ in range(8):
        world.poll(1)
    world.ahead.read(T0, {A0: 2})
    for _ in range(8):
        world.poll(1)
    assert world.give(T0, (A0, 2)) == [2, 3, 4, 5]
    assert world.poll() == [("a", [6, 7, 8, 9])]


def test_a_task_that_goes_elsewhere_is_let_go(world: World) -> None:
    world.write(A0, 1)
    world.write(A1, 1)
    world.ahead.read(T0, {A0: 0})
    world.ahead.read(T1, {A1: 0})
    world.ahead.only({T1})
    world.poll()
    assert world.give(T0, (A0, 0)) is None
    assert world.give(T1, (A1, 0)) == [0]


def test_a_partition_that_cannot_be_read_is_given_up_with_its_task(world: World) -> None:
    world.write(B0, 1)
    world.ahead.read(T0, {A0: 0, B0: 0})
    assert world.ahead.give_up(A0)
    assert not world.ahead.give_up(A0)
    assert not world.ahead.give_up(A1)
    assert world.poll() == []


def test_a_batch_is_cut_with_all_its_columns(world: World) -> None:
    source = MemorySource(world.log, headers=True)
    world.log.append(A0, [b"a", b"b"], [b"1", b"2"], [7, 8], headers=[[("h", b"1")], None])
    source.assign({A0: 0})
    (batch,) = source.poll(10, 0)
    cut = from_offset(batch, 1)
    assert (cut.offsets[0], cut.keys, cut.values, cut.timestamps) == (1, [b"b"], [b"2"], [8])
    assert cut.headers == [None]
    assert from_offset(batch, 0) is batch
    assert len(from_offset(batch, 2)) == 0
