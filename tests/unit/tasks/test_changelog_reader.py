"""Restoring tasks from a log in memory: what counts, what is believed, what is told."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from streamlet.clock import ManualClock
from streamlet.errors import (
    BrokerError,
    MissingTopicError,
    OutOfRangeError,
    TaskCorruptedError,
    UnreachableError,
)
from streamlet.kafka.ports import PartitionBatch
from streamlet.state.backing import Columns
from streamlet.state.changelog import encode_column
from streamlet.state.task_state import TaskState
from streamlet.tasks.changelog_reader import PREFERRED_RECORDS, StoreChangelogReader
from streamlet.tasks.open_task import OpenTask, RestoreProgress
from streamlet.tasks.target import Target
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog, MemorySource
from streamlet.types import NO_STATE, StateNumber, TaskId, TopicPartition
from tests.unit.state.support import Spec, changelog
from tests.unit.tasks.counting import CountingSource

T0, T1 = TaskId(0, 0), TaskId(0, 1)
S0, S1 = changelog("s", 0), changelog("s", 1)


def number(value: int | None) -> bytes | None:
    """The row of a count, which has no time."""
    return None if value is None else bytes(8) + value.to_bytes(8, "big")


def tasks(jobs: list[OpenTask]) -> list[TaskId]:
    return [job.task for job in jobs]


class World:
    """A log, a restorer over it, and tasks with one store ``s`` each."""

    def __init__(self, folder: Path | None = None) -> None:
        self.log = MemoryLog()
        self.log.create(S0.topic, 2)
        self.clock = ManualClock()
        self.told: list[RestoreProgress] = []
        self.source = CountingSource(self.log, headers=True)
        self.folder = folder
        self.restorer = StoreChangelogReader(
            *(self.source, MemoryAdmin(self.log), self.clock, self.told.append)
        )

    def flush(
        self, epoch: int, commit: int, tp: TopicPartition = S0, **entries: int | None
    ) -> None:
        values, headers = encode_column(
            StateNumber(epoch, commit), [number(v) for v in entries.values()]
        )
        self.log.append(tp, [k.encode() for k in entries], values, headers=headers)

    def state(self, task: TaskId = T0, persistent: bool = True) -> TaskState:
        folder = self.folder / str(task) if self.folder else None
        spec = Spec("s", persistent=persistent)
        return TaskState(folder, [spec], 1 << 20, {"s": changelog("s", task.partition)})

    def job(
        self, state: TaskState, limit: tuple[int, int] | None = None, task: TaskId = T0
    ) -> OpenTask:
        partitions, admin = list(state.changelogs.values()), MemoryAdmin(self.log)
        commit = None if limit is None else StateNumber(*limit)
        ids = admin.topic_ids([tp.topic for tp in partitions])
        target = Target(ends=admin.end_offsets(partitions), limit=commit, topic_ids=ids)
        return OpenTask(task, state).restore(target)

    def run(self, *jobs: OpenTask, steps: int = 1000) -> list[TaskId]:
        for job in jobs:
            self.restorer.add(job)
        done: list[TaskId] = []
        while not self.restorer.idle:
            steps -= 1
            assert steps >= 0, "does not end"
            done += tasks(self.restorer.step(100))
            self.clock.advance(10)
        return done

    def entries(self, state: TaskState) -> dict[str, int]:
        return dict(state.stores["s"].range())


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_new_task_reads_everything_committed(world: World) -> None:
    world.flush(1, 1, a=1, b=1)
    world.flush(1, 2, a=2, b=None)
    world.flush(1, 3, a=3, c=3)
    state = world.state()
    assert world.run(world.job(state, limit=(1, 2))) == [T0]
    assert world.entries(state) == {"a": 2}
    assert state.state == StateNumber(1, 2)
    assert state.positions == {S0: 4}, "not past what was skipped"
    assert state.topic_ids == {S0.topic: "id-1"}
    columns = state.drain().columns["s"]
    assert dict(zip(columns.keys, columns.values, strict=True)) == {b"a": number(2), b"c": None}
    state.close()


def test_without_a_commit_everything_counts_and_the_newest_number_is_known(world: World) -> None:
    world.flush(1, 1, a=1)
    world.flush(2, 7, b=2)
    state = world.state()
    world.run(world.job(state))
    assert (world.entries(state), state.state) == ({"a": 1, "b": 2}, StateNumber(2, 7))
    assert state.epochs == {S0: 2}
    state.close()


def test_a_restart_reads_only_the_tail(world: World) -> None:
    world.flush(1, 1, a=1, b=1)
    state = world.state()
    world.run(world.job(state, limit=(1, 1)))
    state.close()
    world.flush(1, 2, a=2)
    state = world.state()
    world.told.clear()
    world.run(world.job(state, limit=(1, 2)))
    assert sum(p.restored for p in world.told if not p.remaining) == 1
    assert world.entries(state) == {"a": 2, "b": 1}
    state.close()


def test_a_store_in_memory_is_read_from_the_start_again(world: World) -> None:
    world.flush(1, 1, a=1, b=1)
    for _ in range(2):
        state = world.state(persistent=False)
        world.run(world.job(state, limit=(1, 1)))
        assert world.entries(state) == {"a": 1, "b": 1}
        state.close()


def test_a_record_of_a_replaced_owner_behind_the_local_position_is_skipped(world: World) -> None:
    """The highest epoch met is part of what is written down."""
    world.flush(2, 1, a=1)
    state = world.state()
    world.run(world.job(state, limit=(2, 1)))
    state.close()
    world.flush(1, 9, a=9)
    state = world.state()
    world.run(world.job(state, limit=(2, 1)))
    assert world.entries(state) == {"a": 1}
    assert state.has_dirty(), "a is to be written again"
    state.close()


def test_nothing_is_read_behind_the_end_of_a_table_over_a_source_topic(world: World) -> None:
    source = TopicPartition("input", 0)
    world.log.create("input", 1)
    world.log.append(source, [b"a", None, b"b", b"a"], [n.to_bytes(8, "big") for n in (1, 0, 2, 3)])
    spec = Spec("s", source_topic="input")
    state = TaskState(None, [spec], 1 << 20, {"s": source})
    world.run(OpenTask(T0, state).restore(Target(ends={source: 3}, limit=StateNumber(1, 1))))
    assert world.entries(state) == {"a": 1, "b": 2}
    assert state.positions == {source: 3}


def test_gaps_at_the_end_do_not_hold_a_restore_up(world: World) -> None:
    world.flush(1, 1, a=1)
    world.log.gap(S0, 2)
    state = world.state()
    world.run(world.job(state, limit=(1, 1)))
    assert state.positions == {S0: 3}
    state.close()


def test_without_positions_a_gap_at_the_end_is_waited_for_and_never_guessed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    restorer = world.restorer
    monkeypatch.setattr(world.source, "positions", lambda partitions: {})
    world.flush(1, 1, a=1)
    world.log.gap(S0)
    state = world.state()
    restorer.add(world.job(state, limit=(1, 1)))
    assert [restorer.step(100) for _ in range(5)] == [[]] * 5
    world.flush(1, 2, a=2)
    world.source.assign({S0: 0})
    assert tasks(restorer.step(100)) == [T0]
    assert world.entries(state) == {"a": 1}
    restorer.close()
    state.close()


@pytest.mark.parametrize("how", ["anew", "cut at the start", "lost at the end", "ahead"])
def test_state_that_does_not_go_with_the_log_is_wiped_and_rebuilt(world: World, how: str) -> None:
    for i in range(1, 4):
        world.flush(1, i, a=i, gone=i)
    state = world.state()
    world.run(world.job(state, limit=(1, 3)))
    state.close()
    limit = (1, 9)
    if how == "anew":
        world.log.delete(S0.topic)
        world.log.create(S0.topic, 2)
        for i in range(1, 8):
            world.flush(1, i, a=50)
    elif how == "cut at the start":
        world.flush(1, 4, gone=None)
        world.flush(1, 5, a=50)
        world.log.raise_start(S0, 7)
    elif how == "lost at the end":
        world.log.lose_tail(S0, 0)
        world.flush(1, 4, a=50)
    else:
        limit = (1, 2)
    state = world.state()
    world.run(world.job(state, limit))
    wanted = {"a": 2, "gone": 2} if how == "ahead" else {"a": 50}
    assert world.entries(state) == wanted
    state.close()


def test_a_log_cut_off_while_it_is_read_begins_again(world: World) -> None:
    for i in range(1, 30):
        world.flush(1, i, a=i, b=i)
    state, other = world.state(), world.state(T1)
    world.flush(1, 1, S1, a=1)
    world.flush(1, 2, S1, a=2)
    small = SmallPolls(world.log)
    restorer = StoreChangelogReader(small, MemoryAdmin(world.log), world.clock)
    restorer.add(world.job(state, (1, 29)))
    restorer.add(world.job(other, (1, 2), T1))
    restorer.step(0)
    world.log.raise_start(S0, 57)
    done = []
    while not restorer.idle:
        done += tasks(restorer.step(0))
    assert sorted(done) == [T0, T1]
    assert (world.entries(state), world.entries(other)) == ({"b": 29}, {"a": 2})
    world.log.delete(S0.topic)
    restorer.add(OpenTask(T0, state).restore(Target(ends={S0: 99})))
    with pytest.raises(MissingTopicError):
        restorer.step(0)
    for one in (state, other):
        one.close()


class SmallPolls(MemorySource):
    """Returns two records at a time, so that a restore takes many steps."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(log, headers=True)

    def poll(self, max_records: int, timeout_ms: int, idle_ms: int = 0) -> list[PartitionBatch]:
        return super().poll(2, timeout_ms)


class SaysItOnce(SmallPolls):
    """As librdkafka: it tells of an offset that is gone, and reads that partition no further."""

    def poll(self, max_records: int, timeout_ms: int, idle_ms: int = 0) -> list[PartitionBatch]:
        try:
            return super().poll(max_records, timeout_ms)
        except OutOfRangeError as error:
            self.pause([error.partition])
            raise


def test_a_log_cut_off_while_the_broker_goes_away_is_begun_again_when_it_is_back(
    world: World,
) -> None:
    class Restarting(MemoryAdmin):
        away = 0

        def start_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
            if self.away:
                self.away -= 1
                raise UnreachableError("away")
            return super().start_offsets(partitions)

    for i in range(1, 30):
        world.flush(1, i, a=i, b=i)
    state, admin = world.state(), Restarting(world.log)
    restorer = StoreChangelogReader(SaysItOnce(world.log), admin, world.clock)
    restorer.add(world.job(state, (1, 29)))
    restorer.step(0)
    world.log.raise_start(S0, 57)
    admin.away = 2
    for _ in range(2):
        with pytest.raises(UnreachableError):
            restorer.step(0)
    steps = [restorer.step(0) for _ in range(5)]
    assert [T0] in map(tasks, steps)
    assert world.entries(state) == {"b": 29}
    state.close()


def test_an_error_of_the_broker_that_is_not_a_cut_off_log_is_raised(world: World) -> None:
    class Broken(SmallPolls):
        def poll(self, max_records: int, timeout_ms: int, idle_ms: int = 0) -> list[PartitionBatch]:
            raise BrokerError("not authorised")

    world.flush(1, 1, a=1)
    state = world.state()
    restorer = StoreChangelogReader(Broken(world.log), MemoryAdmin(world.log), world.clock)
    restorer.add(world.job(state))
    with pytest.raises(BrokerError, match="not authorised"):
        restorer.step(0)
    state.close()


def test_tasks_are_read_side_by_side_and_return_as_they_are_done(world: World) -> None:
    for i in range(1, 11):
        world.flush(1, i, S0, a=i)
    for i in range(1, 4):
        world.flush(1, i, S1, a=i)
    states = {task: world.state(task) for task in (T0, T1)}
    restorer = StoreChangelogReader(SmallPolls(world.log), MemoryAdmin(world.log), world.clock)
    for task, state in states.items():
        restorer.add(world.job(state, None, task))
    steps = []
    while not restorer.idle:
        steps.append(tasks(restorer.step(0)))
    assert steps.index([T1]) == 2, "the shorter one did not wait for the longer one"
    assert steps[-1] == [T0]
    for state in states.values():
        state.close()


def test_a_task_given_up_is_not_restored_further(world: World) -> None:
    world.flush(1, 1, a=1)
    world.flush(1, 2, b=1)
    world.flush(1, 3, c=1)
    state = world.state()
    restorer = StoreChangelogReader(SmallPolls(world.log), MemoryAdmin(world.log), world.clock)
    restorer.add(world.job(state))
    assert restorer.step(0) == []
    restorer.remove(T0)
    restorer.remove(T1)
    assert restorer.idle
    assert restorer.step(0) == []
    restorer.add(world.job(state))
    restorer.close()
    assert restorer.idle
    state.close()


def test_a_task_without_changelogs_is_done_at_once(world: World) -> None:
    state = TaskState(None, [Spec("s")], 1 << 20)
    assert world.run(OpenTask(T0, state).restore(Target())) == [T0]
    assert state.state == NO_STATE


def test_memory_is_bounded_by_writing_the_largest_chunk(world: World) -> None:
    written: list[tuple[str, int]] = []

    class Watched(TaskState):
        def load(self, columns: Columns, partition: TopicPartition, *rest: Any) -> None:
            written.append((str(partition.partition), len(columns.keys)))
            super().load(columns, partition, *rest)

    states = {
        task: Watched(None, [Spec("s")], 1 << 20, {"s": tp}) for task, tp in ((T0, S0), (T1, S1))
    }
    for i in range(1, 41):
        world.flush(1, i, S0, **{f"k{i}": i})
    world.flush(1, 1, S1, a=1, b=2, c=3)
    restorer = StoreChangelogReader(
        SmallPolls(world.log), MemoryAdmin(world.log), world.clock, buffer_records=10
    )
    for task, state in states.items():
        restorer.add(world.job(state, None, task))
    while not restorer.idle:
        restorer.step(100)
    assert max(count for _, count in written) <= 10 + 2, "the bound and one poll"
    assert [w for w in written if w[0] == "1"] == [("1", 3)], "the small one waited for its end"
    assert len(world.entries(states[T0])) == 40


def test_a_bound_on_bytes_holds_too(world: World) -> None:
    for i in range(1, 101):
        world.flush(1, i, **{f"k{i}": i})
    state = world.state()
    restorer = StoreChangelogReader(
        SmallPolls(world.log), MemoryAdmin(world.log), world.clock, buffer_bytes=50
    )
    restorer.add(world.job(state))
    restorer.step(0)
    for _ in range(4):
        restorer.step(0)
    assert state.positions[S0] >= 4
    restorer.close()
    state.close()


def test_progress_is_told_with_rate_and_time_left(world: World) -> None:
    for i in range(1, 101):
        world.flush(1, i, a=i)
    state = world.state()
    restorer = StoreChangelogReader(
        SmallPolls(world.log), MemoryAdmin(world.log), world.clock, world.told.append
    )
    restorer.add(world.job(state))
    while not restorer.idle:
        world.clock.advance(100)
        restorer.step(0)
    start, first, last = world.told[0], world.told[1], world.told[-1]
    assert (start.phase, start.partition, start.position, start.end) == ("start", S0, 0, 100)
    assert {p.phase for p in world.told[1:-1]} == {"batch"}
    assert last.phase == "end"
    assert sum(p.batch for p in world.told) == 100
    assert (first.task, first.store, first.restored + first.remaining) == (T0, "s", 100)
    assert first.rate == pytest.approx(20, rel=0.5)
    assert first.eta_s == pytest.approx(first.remaining / first.rate)
    assert (last.restored, last.remaining, last.eta_s) == (100, 0, 0.0)
    assert len(world.told) < 25, "no more often than asked for"
    state.close()


def test_a_restore_that_is_given_up_is_told_as_suspended(world: World) -> None:
    for i in range(1, 101):
        world.flush(1, i, a=i)
    state = world.state()
    restorer = StoreChangelogReader(
        SmallPolls(world.log), MemoryAdmin(world.log), world.clock, world.told.append
    )
    restorer.add(world.job(state))
    restorer.step(0)
    restorer.remove(T0)
    assert [p.phase for p in world.told] == ["start", "suspended"]
    assert 0 < world.told[-1].batch == world.told[-1].restored < 100
    state.close()


def test_damage_met_while_restoring_starts_over_once(world: World) -> None:
    damaged = 1

    class Damaged(TaskState):
        def load(self, columns: Columns, *rest: Any) -> None:
            nonlocal damaged
            if columns.keys and damaged:
                damaged -= 1
                raise TaskCorruptedError("a damaged block")
            super().load(columns, *rest)

    world.flush(1, 1, a=1)
    state = Damaged(None, [Spec("s")], 1 << 20, {"s": S0})
    assert world.run(world.job(state)) == [T0]
    assert world.entries(state) == {"a": 1}
    state.wipe()
    damaged = 2
    with pytest.raises(TaskCorruptedError):
        world.run(world.job(state))


def following(world: World, state: TaskState) -> OpenTask:
    ends = MemoryAdmin(world.log).end_offsets(list(state.changelogs.values()))
    return OpenTask(T0, state).follow(Target(ends=ends))


def test_a_followed_task_is_read_on_and_holds_the_newest_number_back() -> None:
    world = World()
    world.flush(1, 1, a=1)
    world.flush(1, 2, a=2)
    state = world.state()
    world.restorer.add(following(world, state))
    assert world.restorer.step(10) == []
    assert world.restorer.lags() == {T0: 0}
    world.flush(1, 3, b=3)
    assert world.restorer.lags() == {T0: 1}
    assert world.restorer.step(10) == []
    assert world.restorer.promote(T0, Target(limit=StateNumber(1, 2), ends={S0: 3}))
    assert tasks(world.restorer.step(10)) == [T0]
    assert dict(state.stores["s"].range()) == {"a": 2}
    assert state.state == StateNumber(1, 2)
    assert set(state.again["s"]) == {b"b"}, "an uncommitted record is written again"


def test_a_promoted_task_counts_what_the_commit_says_and_reads_to_its_end_only() -> None:
    world = World()
    world.flush(1, 1, a=1)
    state = world.state()
    world.restorer.add(following(world, state))
    world.restorer.step(10)
    world.flush(1, 2, a=2, b=2)
    assert world.restorer.promote(T0, Target(limit=StateNumber(1, 2), ends={S0: 3}))
    world.flush(2, 1, a=9)
    assert tasks(world.restorer.step(10)) == [T0]
    assert dict(state.stores["s"].range()) == {"a": 2, "b": 2}
    assert state.positions == {S0: 3}
    assert world.restorer.idle


def test_tasks_that_are_promoted_together_are_taken_from_the_client_in_one_call() -> None:
    world = World()
    for task in (T0, T1):
        state = world.state(task, persistent=False)
        job = world.job(state, task=task)
        world.restorer.add(OpenTask(task, state).follow(job.target))
    world.restorer.step(10)
    for task, tp in ((T0, S0), (T1, S1)):
        assert world.restorer.promote(task, Target(limit=StateNumber(1, 1), ends={tp: 0}))
    assert world.source.unassigned == []
    assert tasks(world.restorer.step(10)) == [T0, T1]
    assert world.source.unassigned == [[S0, S1]]


def test_a_task_that_is_promoted_before_it_was_begun_is_restored_like_any_other() -> None:
    world = World()
    world.flush(1, 1, a=1)
    world.flush(1, 2, a=2)
    state = world.state()
    world.restorer.add(following(world, state))
    assert world.restorer.promote(T0, Target(limit=StateNumber(1, 1), ends={S0: 2}))
    assert tasks(world.restorer.step(10)) == [T0]
    assert dict(state.stores["s"].range()) == {"a": 1}
    assert not world.restorer.promote(T1, Target())


def test_a_promoted_table_over_a_source_topic_is_read_to_the_commit_it_is_promoted_to() -> None:
    """It was read to an earlier commit: nothing was left to read until the order to promote."""
    world = World()
    source = TopicPartition("input", 0)
    world.log.create("input", 1)
    world.log.append(source, [b"a", b"b"], [bytes(7) + b"\1", bytes(7) + b"\2"])
    spec = Spec("s", source_topic="input")
    state = TaskState(None, [spec], 1 << 20, {"s": source})
    world.restorer.add(OpenTask(T0, state).follow(Target(ends={source: 0})))
    assert world.restorer.step(10) == []
    assert world.restorer.lags() == {T0: 0}
    assert world.restorer.promote(T0, Target(limit=StateNumber(1, 1), ends={source: 2}))
    assert tasks(world.restorer.step(10)) == [T0]
    assert world.entries(state) == {"a": 1, "b": 2}


def test_how_far_a_task_is_that_waits_for_a_preferred_one_is_not_known() -> None:
    """Nobody asks meanwhile where its changelog ends."""
    world = World()
    states = {task: world.state(task, persistent=False) for task in (T0, T1)}
    for task, state in states.items():
        job = world.job(state, task=task)
        world.restorer.add(OpenTask(task, state).follow(job.target))
    world.restorer.step(0)
    assert world.restorer.lags() == {T0: 0, T1: 0}
    world.restorer.prefer(frozenset({T0}))
    assert world.restorer.lags() == {T0: 0}
    world.restorer.prefer(frozenset())
    assert world.restorer.lags() == {T0: 0, T1: 0}


def test_of_a_preferred_task_little_is_left_to_write() -> None:
    world = World()
    state = world.state(persistent=False)
    job = world.job(state)
    world.restorer.add(OpenTask(T0, state).follow(job.target))
    world.flush(1, 1, **{f"k{n}": n for n in range(PREFERRED_RECORDS + 1)})
    world.flush(1, 2, a=1)
    world.restorer.step(1)
    assert world.entries(state) == {}, "it waits in memory"
    world.restorer.prefer(frozenset({T0}))
    world.restorer.step(1)
    assert len(world.entries(state)) == PREFERRED_RECORDS + 1
