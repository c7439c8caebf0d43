"""Tasks that a worker holds, and what the client is told of their inputs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from streamlet.tasks.active import ActiveTask
from streamlet.tasks.input_bound import InputBound
from streamlet.tasks.task_record import OpeningStage, TaskStage
from streamlet.tasks.task_registry import TaskRegistry
from streamlet.testing.memory_ports import MemoryLog
from streamlet.types import NO_STATE, TaskId, TopicPartition
from tests.unit.tasks.counting import CountingSource

#: One input, no store.
PART = SimpleNamespace(stateful=False, stores=())


def running(partition: int) -> ActiveTask:
    """A task of one input, from its beginning."""
    task, tp = TaskId(0, partition), TopicPartition("in", partition)
    state = SimpleNamespace(cache_bytes=0)
    opened = cast(Any, SimpleNamespace(task=task, state=state))
    at = {tp: 0}
    processor = cast(Any, SimpleNamespace(received=at, positions=at, edges=None, epoch=4))
    active = ActiveTask(task, opening=OpeningStage.RESTORING)
    active.begin(opened, cast(Any, PART), processor, NO_STATE)
    return active


def test_tasks_that_begin_or_stop_together_take_one_call_of_the_client() -> None:
    log = MemoryLog()
    log.create("in", 4)
    source = CountingSource(log)
    registry = TaskRegistry(
        source, cache_bytes=1, input_bound=InputBound(1, 1 << 20), forget=lambda active: None
    )
    tasks = [running(partition) for partition in range(4)]
    registry.add(*tasks)
    registry.resume(tasks)
    assert source.assigned == [[TopicPartition("in", partition) for partition in range(4)]]
    registry.stop(tasks[:3])
    assert source.unassigned == [[TopicPartition("in", partition) for partition in range(3)]]
    assert [active.stage for active in tasks] == [*3 * [TaskStage.STOPPED], TaskStage.RUNNING]
    assert list(registry.by_partition) == [TopicPartition("in", 3)]


def test_a_partition_that_is_read_from_elsewhere_is_paused_again_when_too_much_waits() -> None:
    log, tp = MemoryLog(), TopicPartition("in", 0)
    log.create("in")
    log.append(tp, [b"k"] * 3, [b"v"] * 3)
    source = CountingSource(log)
    registry = TaskRegistry(
        source, cache_bytes=1, input_bound=InputBound(1, 1 << 20), forget=lambda active: None
    )
    active = running(0)
    waiting = {tp: 2}
    active.processor.skip_to = lambda partition, offset: None  # type: ignore[method-assign]
    active.processor.buffered = lambda: waiting  # type: ignore[method-assign]
    registry.add(active)
    registry.resume([active])
    assert registry.bound(active)
    assert source.poll(10, 0) == []
    registry.skip_to(active, tp, 1)
    registry.bound(active)
    assert source.poll(10, 0) == []
    waiting[tp] = 0
    assert not registry.bound(active)
    assert [batch.offsets[0] for batch in source.poll(10, 0)] == [1]


def test_a_partition_of_large_records_is_paused_long_before_its_number_is_reached() -> None:
    log, tp = MemoryLog(), TopicPartition("in", 0)
    log.create("in")
    log.append(tp, [b"k"], [b"v"])
    source = CountingSource(log)
    registry = TaskRegistry(
        source, cache_bytes=1, input_bound=InputBound(10_000, 1 << 20), forget=lambda active: None
    )
    active = running(0)
    waiting = {tp: 3}
    active.processor.buffered = lambda: waiting  # type: ignore[method-assign]
    registry.add(active)
    registry.resume([active])
    registry.input_bound.read("in", 500_000)
    assert registry.bound(active)
    assert source.poll(10, 0) == []
    assert registry.waiting_bytes() == 1_500_000
    waiting[tp] = 1
    registry.bound(active)
    assert len(source.poll(10, 0)) == 1


def test_operators_know_the_epoch_of_each_active_period() -> None:
    active = running(0)
    assert active.processor.epoch == 4
    active.begin_again()
    assert active.processor.epoch == active.epoch == 5


def test_a_task_that_is_dropped_is_garbage() -> None:
    log = MemoryLog()
    log.create("in")
    source = CountingSource(log)
    registry = TaskRegistry(
        source, cache_bytes=1, input_bound=InputBound(1, 1 << 20), forget=lambda active: None
    )
    active = running(0)
    active.processor.close = lambda: None  # type: ignore[method-assign]
    registry._close = lambda opened: None
    registry.add(active)
    ended: list[str] = []
    registry.garbage.closed = lambda: ended.append("closed")  # type: ignore[method-assign]
    registry.drop(active)
    assert (ended, registry.tasks) == (["closed"], {})
