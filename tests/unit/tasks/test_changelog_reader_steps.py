"""How much one step of a restore takes at once, and what it tells."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from streamlet.kafka.ports import PartitionBatch
from streamlet.kafka.waiting_partitions import LONG_MS
from streamlet.state.changelog import encode_column
from streamlet.state.task_state import TaskState
from streamlet.tasks.changelog_reader import GENTLE_POLLS, GENTLE_RECORDS, StoreChangelogReader
from streamlet.tasks.open_task import OpenTask
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog, MemorySource
from streamlet.types import StateNumber
from tests.unit.state.support import Spec
from tests.unit.tasks.test_changelog_reader import S0, T0, World, number


class Polls(MemorySource):
    """Notes how many records it was asked for."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(log, headers=True)
        self.asked: list[int] = []

    def poll(self, max_records: int, timeout_ms: int, idle_ms: int = 0) -> list[PartitionBatch]:
        self.asked.append(max_records)
        return super().poll(max_records, timeout_ms)


def test_beside_tasks_that_run_little_is_read_and_written_at_once(tmp_path: Path) -> None:
    """The interpreter is held while the client lists a poll, and while a chunk is written."""
    world = World(tmp_path)
    for i in range(1, 12):
        keys = [f"{i}-{n}".encode() for n in range(GENTLE_RECORDS)]
        values, _ = encode_column(StateNumber(1, i), [number(n) for n in range(GENTLE_RECORDS)])
        world.log.append(S0, keys, values)
    state, source = world.state(), Polls(world.log)
    restorer = StoreChangelogReader(source, MemoryAdmin(world.log), world.clock)
    restorer.add(world.job(state, (1, 11)))
    written: list[int] = []
    while not restorer.idle:
        restorer.step(0, gentle=True)
        written.append(state.positions.get(S0, 0))
    chunks = [b - a for a, b in pairwise(written) if b > a]
    assert set(source.asked) == {GENTLE_RECORDS}
    assert max(chunks) <= (GENTLE_POLLS + 1) * GENTLE_RECORDS
    assert len(world.entries(state)) == 11 * GENTLE_RECORDS
    state.close()


def test_a_step_tells_whether_there_was_anything_to_read(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.flush(1, 1, a=1)
    state = world.state()
    world.restorer.add(OpenTask(T0, state).follow(world.job(state).target))
    world.restorer.step(0)
    assert not world.restorer.quiet
    world.restorer.step(0)
    assert world.restorer.quiet
    world.restorer.close()
    state.close()


def test_a_copy_without_a_changelog_lacks_nothing(tmp_path: Path) -> None:
    world, state = World(tmp_path), TaskState(None, [Spec("s", logged=False)], 1 << 20)
    world.restorer.add(OpenTask(T0, state).follow(world.job(state).target))
    world.restorer.step(0)
    assert world.restorer.lags() == {T0: 0}
    world.restorer.close()
    state.close()


class Stuck(MemorySource):
    """Gets no records: those of both partitions are of transactions that are open."""

    def poll(self, max_records: int, timeout_ms: int, idle_ms: int = 0) -> list[PartitionBatch]:
        return []


def test_a_wait_for_an_open_transaction_is_told_once_it_takes_long(
    tmp_path: Path,
) -> None:
    """Only that for what is still to be read: others may write behind it."""
    world = World(tmp_path)
    world.flush(1, 1, a=1, b=1)
    source = Stuck(world.log)
    restorer = StoreChangelogReader(source, MemoryAdmin(world.log), world.clock)
    restorer.add(world.job(world.state()))
    restorer.step(0)
    source.held = {S0: 1}
    assert restorer.held() == {}
    world.clock.advance(LONG_MS)
    assert "open since offset 1 of app-s-changelog-0" in restorer.held()[T0]
    source.held = {S0: 2}
    assert restorer.held() == {}
    world.clock.advance(LONG_MS)
    assert restorer.held() == {}
    restorer.remove(T0)
