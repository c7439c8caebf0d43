"""State that is older than its log's memory of deletions is not continued over what is gone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from streamlet.state.task_state import TaskState
from streamlet.tasks.changelog_reader import StoreChangelogReader
from streamlet.tasks.open_task import OpenTask
from streamlet.tasks.target import Target
from streamlet.testing.memory_ports import MemoryAdmin, MemorySource
from streamlet.types import StateNumber
from tests.unit.state.support import Spec
from tests.unit.tasks.test_changelog_reader import S0, T0, World

RETENTION_MS = 10_000


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.log.delete(S0.topic)
    made.log.create(S0.topic, 2, {"delete.retention.ms": str(RETENTION_MS)})
    return made


def backup(world: World, **entries: int | None) -> TaskState:
    """State of the first commit, as of now, of a log that goes on afterwards."""
    world.flush(1, 1, **entries)
    state = world.state()
    world.run(world.job(state, limit=(1, 1)))
    state.write(state.drain(), StateNumber(1, 1), {}, {S0: world.clock.wall_ms()})
    return state


@pytest.mark.parametrize("late", [False, True])
def test_deletions_that_are_gone_are_not_missed(
    world: World, late: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where the log ends in a gap: the last deletions may be those that are gone."""
    state = backup(world, a=1, b=1)
    world.flush(1, 2, c=2) if late else world.flush(1, 2, b=None)
    world.flush(1, 3, b=None) if late else world.flush(1, 3, c=2)
    world.log.compact(S0, drop_tombstones=True)
    world.clock.advance(RETENTION_MS + 1_000)
    world.run(world.job(state, limit=(1, 3)))
    assert world.entries(state) == {"a": 1, "c": 2}
    assert "was compacted behind its position, its state is 11 s old" in caplog.text
    assert "keeps deletions for 10 s" in caplog.text
    state.close()


def reads(world: World, state: TaskState, limit: tuple[int, int]) -> int:
    """Records that restoring takes."""
    world.told.clear()
    world.run(world.job(state, limit=limit))
    return world.told[-1].restored


def test_old_state_is_continued_where_nothing_is_gone(world: World) -> None:
    state = backup(world, a=1, b=1)
    world.flush(1, 2, b=None)
    world.clock.advance(RETENTION_MS + 1_000)
    assert reads(world, state, (1, 2)) == 1, "the tail"
    assert world.entries(state) == {"a": 1}
    state.close()


def test_fresh_state_is_continued_over_gaps(world: World) -> None:
    """The broker still has every deletion that came after it."""
    state = backup(world, a=1, b=1)
    world.flush(1, 2, b=None, c=2)
    world.flush(1, 3, c=3)
    world.log.compact(S0)
    world.clock.advance(RETENTION_MS // 2)
    assert reads(world, state, (1, 3)) == 2, "the tail"
    assert world.entries(state) == {"a": 1, "c": 3}
    state.close()


def test_state_that_is_the_commit_is_kept_whatever_is_behind_it(world: World) -> None:
    """What follows was written for commits that never happened."""
    state = backup(world, a=1, b=1)
    world.flush(1, 2, b=None)
    world.flush(1, 3, c=2)
    world.log.compact(S0, drop_tombstones=True)
    world.clock.advance(RETENTION_MS + 1_000)
    world.run(world.job(state, limit=(1, 1)))
    assert world.entries(state) == {"a": 1, "b": 1}
    state.close()


def test_state_that_does_not_say_how_old_it_is_counts_as_old(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    state = backup(world, a=1, b=1)
    state.times = {}
    world.flush(1, 2, b=None)
    world.flush(1, 3, c=2)
    world.log.compact(S0, drop_tombstones=True)
    world.run(world.job(state, limit=(1, 3)))
    assert world.entries(state) == {"a": 1, "c": 2}
    assert "its state does not say how old it is" in caplog.text
    state.close()


def test_a_copy_notes_when_it_was_at_the_end(world: World) -> None:
    """What it holds back it lacks: its time is that of the end before that."""
    world.flush(1, 1, a=1)
    state = world.state()
    source = MemorySource(world.log, headers=True)
    restorer = StoreChangelogReader(source, MemoryAdmin(world.log), world.clock, buffer_records=0)
    ends = MemoryAdmin(world.log).end_offsets([S0])
    restorer.add(OpenTask(T0, state).follow(Target(ends=ends)))
    looks = []
    for commit in (2, 3):
        world.flush(1, commit, a=commit)
        world.clock.advance(1_000)
        looks.append(world.clock.wall_ms())
        restorer.step(60)
    assert (state.positions, state.times) == ({S0: 2}, {S0: looks[0]})
    state.close()


def table(world: World, source_topic: str) -> TaskState:
    spec = Spec("s", source_topic=source_topic)
    return TaskState(None, [spec], 1 << 20, {"s": S0})


@pytest.mark.parametrize(
    ("age_ms", "left"), [(RETENTION_MS + 1_000, {"a": 1}), (1, {"a": 1, "b": 1})]
)
def test_a_table_that_is_older_than_its_topics_deletions_is_built_again(
    world: World, age_ms: int, left: dict[str, int]
) -> None:
    """Its own topic is processed on behind the commit, so the gap would not be met there."""
    rows: Sequence[bytes] = [(1).to_bytes(8, "big")] * 2
    world.log.append(S0, [b"a", b"b"], rows)
    state = table(world, S0.topic)
    world.run(OpenTask(T0, state).restore(Target(ends={S0: 2}, limit=StateNumber(1, 1))))
    state.write(state.drain(), StateNumber(1, 1), {}, {S0: world.clock.wall_ms()})
    world.log.append(S0, [b"b"], [None])
    world.log.append(S0, [b"c"], rows[:1])
    world.log.compact(S0, drop_tombstones=True)
    world.clock.advance(age_ms)
    world.run(OpenTask(T0, state).restore(Target(ends={S0: 2}, limit=StateNumber(1, 1))))
    assert world.entries(state) == left
    state.close()
