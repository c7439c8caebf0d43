"""How a worker's loop waits: for records, for news, or not at all."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TypeAlias, cast

import attrs
import pytest

from streamlet.kafka.ports import PartitionBatch, RecordSource
from streamlet.processing.edges.held_writer import HeldWriter, Period
from streamlet.processing.outputs import Output
from streamlet.processing.policy import ErrorPolicy
from streamlet.processing.record_collector import RecordCollector
from streamlet.runtime import record_loop
from streamlet.runtime.record_loop import (
    IDLE_MS,
    POLL_BUSY_RECORDS,
    POLL_MS,
    POLL_RECORDS,
    QUIET_MS,
    ROOM_MS,
)
from streamlet.runtime.worker import Worker
from streamlet.tasks.active import ActiveTask, Unsent
from streamlet.tasks.rebalance_events import RebalanceEvents
from streamlet.tasks.task_events import GiveUp
from streamlet.tasks.task_record import Unit
from streamlet.tasks.task_registry import Prefetcher
from streamlet.types import TaskId, TopicPartition
from tests.unit.processing.test_record_collector import SmallSink, output
from tests.unit.runtime.members import Group
from tests.unit.runtime.test_stream_thread_rounds import Commits

WORDS = TopicPartition("words", 0)


class Played:
    """A source and rebalance events that note what they were asked, in order."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, ...] | int] = []
        self.there = 0

    def poll(self, max_records: int, timeout_ms: int, idle_ms: int = 0) -> list[PartitionBatch]:
        """So many records as are there."""
        self.asked.append((max_records, timeout_ms, idle_ms))
        n = min(self.there, max_records)
        if not n:
            return []
        return [PartitionBatch("words", 0, range(n), [None] * n, [None] * n, [0] * n)]

    def wait(self, timeout_ms: int) -> None:
        """As for news."""
        self.asked.append(timeout_ms)


@pytest.fixture
def played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Worker, Played, Commits]]:
    """A worker that runs a task, as far as it knows."""
    group = Group(tmp_path)
    with group.cluster:
        worker = group.idle_member("a").worker
        source, commits = Played(), Commits(0)
        with monkeypatch.context() as patch:
            patch.setattr(worker._records, "_source", cast(RecordSource, source))
            patch.setattr(worker._records, "_rebalance_events", cast(RebalanceEvents, source))
            patch.setattr(worker._records, "_commit", commits)
            patch.setattr(worker.registry, "by_partition", {WORDS: cast(ActiveTask, None)})
            yield worker, source, commits
        worker.close()


def test_a_quiet_worker_waits_for_the_first_record_and_for_no_other(
    played: tuple[Worker, Played, Commits],
) -> None:
    worker, source, _ = played
    worker._records._poll()
    assert source.asked == [(POLL_RECORDS, 0, QUIET_MS)]


def test_a_commit_that_is_prepared_and_records_that_wait_are_gone_on_with(
    played: tuple[Worker, Played, Commits],
) -> None:
    worker, source, commits = played
    commits.left = 1
    worker._records._poll()
    commits.left, worker._records._waiting = 0, True
    worker._records._poll()
    assert source.asked == [(POLL_RECORDS, 0, POLL_MS)] * 2


def test_fewer_records_are_polled_while_outputs_wait_for_room(
    played: tuple[Worker, Played, Commits], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, source, _ = played
    loop, sink = worker._records, worker._records._collector.sink
    monkeypatch.setattr(worker.registry, "by_partition", {})
    waits = iter([0, 2_000, 1_000, ROOM_MS, 0, 0, 0, 0, 0, 0])

    def wait(ahead: Prefetcher, batch: PartitionBatch) -> None:
        sink.waited_ms += next(waits)

    monkeypatch.setattr(Prefetcher, "take", wait)
    monkeypatch.setattr(type(worker.registry), "idle", False)
    source.there = POLL_RECORDS
    for _ in range(10):
        loop.process()
    polled = [asked[0] for asked in source.asked if isinstance(asked, tuple)]
    assert polled == [10_000, 10_000, 500, 50, 57, 65, 74, 84, 95, 107]


def test_nothing_is_polled_while_the_producers_queue_is_full(
    played: tuple[Worker, Played, Commits], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, source, _ = played
    hurries: list[bool] = []
    sink = worker._records._collector.sink
    monkeypatch.setattr(sink, "has_room", lambda hurried: hurries.append(hurried))
    worker._records.process()
    worker._actions.urgent = True
    worker._records.process()
    worker._actions.urgent = False
    worker._actions._perform([GiveUp(Unit(1, 1, (TaskId(0, 0),)))])
    worker._records.process()
    assert (source.asked, hurries) == ([POLL_MS] * 3, [False, True, True])


def test_a_batch_that_is_under_way_waits_for_nothing(
    played: tuple[Worker, Played, Commits],
) -> None:
    worker, source, _ = played
    worker._records._waiting = worker._records._under_way = True
    worker._records._poll()
    worker._actions.urgent = True
    worker._records._poll()
    assert source.asked == [(POLL_RECORDS, 0, 0), (POLL_BUSY_RECORDS, 0, 0)]


def test_a_worker_with_calls_waits_for_their_results(
    played: tuple[Worker, Played, Commits], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, source, _ = played
    monkeypatch.setattr(record_loop, "call_loop", lambda: source)
    worker._records._calling = True
    worker._records._poll()
    worker._records._under_way = True
    worker._records._poll()
    assert source.asked == [POLL_MS, (POLL_RECORDS, 0, 0), (POLL_RECORDS, 0, 0)]


def test_who_is_waited_for_waits_for_news(played: tuple[Worker, Played, Commits]) -> None:
    worker, source, _ = played
    worker._actions.urgent = True
    worker._records._poll()
    assert source.asked == [POLL_MS, (POLL_BUSY_RECORDS, 0, 0)]


def test_a_backlog_is_worked_off_without_a_wait_also_then(
    played: tuple[Worker, Played, Commits],
) -> None:
    worker, source, _ = played
    worker._actions.urgent = True
    source.there = POLL_BUSY_RECORDS
    worker._records._poll()
    source.there = POLL_BUSY_RECORDS - 1
    worker._records._poll()
    worker._records._poll()
    poll = (POLL_BUSY_RECORDS, 0, 0)
    assert source.asked == [POLL_MS, poll, poll, POLL_MS, poll]


@pytest.mark.parametrize(
    ("busy", "urgent", "wait_ms"),
    [(True, True, POLL_MS), (True, False, QUIET_MS), (False, False, IDLE_MS)],
)
def test_a_worker_that_runs_nothing_waits_for_news_only(
    played: tuple[Worker, Played, Commits], busy: bool, urgent: bool, wait_ms: int
) -> None:
    worker, source, _ = played
    worker.registry.by_partition.clear()
    worker._actions.busy, worker._actions.urgent = busy, urgent
    worker._records._poll()
    assert source.asked == [wait_ms, (POLL_RECORDS, 0, 0)]


@attrs.define
class Batches:
    """A task's processor and state, as far as a batch without outputs looks at them."""

    under_way: bool = False
    trimmed: int = 0
    outputs: list[Output] = attrs.field(factory=list)
    waiting: int = 0

    calling = pausing = False
    calls: None = None

    def process(self, *_: object) -> list[Output]:
        return self.outputs

    resume = process

    def settle(self, *, release: bool) -> list[Output]:
        return self.outputs

    def waits(self, now_ms: int) -> bool:
        return True

    def buffered(self) -> dict[TopicPartition, int]:
        return {WORDS: self.waiting}

    def trim(self) -> None:
        self.trimmed += 1


def active_of(batches: Batches) -> ActiveTask:
    """The running task of that processor."""
    active = SimpleNamespace(
        task=TaskId(0, 0),
        processor=batches,
        state=batches,
        halted=False,
        stands=False,
        unsent=None,
        kept=[],
        subtopology=SimpleNamespace(
            source_of=lambda topic: SimpleNamespace(name="", partitioner="murmur2_random"),
            stateful=False,
        ),
        retrying=True,  # so its position is not looked at
        edge_writer=None,
        held=None,
    )
    return cast(ActiveTask, active)


@pytest.mark.parametrize(("under_way", "trimmed"), [(False, 1), (True, 0)])
def test_the_cache_is_trimmed_after_a_batch_that_is_done(
    played: tuple[Worker, Played, Commits],
    monkeypatch: pytest.MonkeyPatch,
    under_way: bool,
    trimmed: int,
) -> None:
    worker, _, _ = played
    batches = Batches(under_way)
    active = active_of(batches)
    batch = PartitionBatch("words", 0, range(1), [b"k"], [b"v"], [0])
    with monkeypatch.context() as patch:
        patch.setattr(Played, "known_end", None, raising=False)
        worker._records._process_batch(active, batch, 0)
    assert batches.trimmed == trimmed


@pytest.mark.parametrize(("under_way", "trimmed"), [(False, 1), (True, 0)])
def test_it_is_trimmed_after_the_last_part_of_a_batch_too(
    played: tuple[Worker, Played, Commits],
    monkeypatch: pytest.MonkeyPatch,
    under_way: bool,
    trimmed: int,
) -> None:
    worker, _, _ = played
    batches = Batches(under_way)
    active = active_of(batches)
    with monkeypatch.context() as patch:
        patch.setattr(worker.registry, "bound", lambda active: False)
        worker._records._process_waiting(active, 0)
    assert batches.trimmed == trimmed


@pytest.mark.parametrize(("waiting", "poll_ms"), [(1, POLL_MS), (0, QUIET_MS)])
def test_a_task_of_several_inputs_hurries_the_worker_only_while_a_record_waits(
    played: tuple[Worker, Played, Commits],
    monkeypatch: pytest.MonkeyPatch,
    waiting: int,
    poll_ms: int,
) -> None:
    worker, source, _ = played
    active = active_of(Batches(waiting=waiting))
    monkeypatch.setattr(worker.registry, "of_stage", lambda stage: [active])
    worker._records.process()
    worker._records._poll()
    assert source.asked == [(POLL_RECORDS, 0, QUIET_MS), (POLL_RECORDS, 0, poll_ms)]


class Pushed(SmallSink):
    """A producer that counts how often it is to send what it has."""

    pushed = 0

    def push(self) -> None:
        self.pushed += 1


Sending: TypeAlias = tuple[Worker, Played, Batches, Pushed]


@pytest.fixture
def sending(
    played: tuple[Worker, Played, Commits], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Worker, Played, Batches, Pushed]]:
    """The worker of ``played`` whose task has one output for each batch."""
    worker, source, _ = played
    sink, batches = Pushed(), Batches(outputs=[output((b"k", b"v"))])
    active = active_of(batches)
    with monkeypatch.context() as patch:
        patch.setattr(Played, "known_end", None, raising=False)
        patch.setattr(worker.registry, "by_partition", {WORDS: active})
        collector = RecordCollector(sink, ErrorPolicy(), "app")
        for part in (worker._records, worker._records.outputs):
            patch.setattr(part, "_collector", collector)
        yield worker, source, batches, sink


def test_outputs_do_not_linger_once_no_record_is_there(sending: Sending) -> None:
    worker, source, _, sink = sending
    pushed = []
    for source.there in (3, 5, 0, 0, 1, 0):
        worker._records.process()
        pushed.append(sink.pushed)
    assert pushed == [0, 0, 1, 1, 1, 2]
    assert len(sink.taken) == 3
    now, wait = (POLL_RECORDS, 0, 0), (POLL_RECORDS, 0, QUIET_MS)
    assert source.asked == [wait, now, now, wait, wait, wait, now, wait]


def test_a_round_without_outputs_pushes_nothing(sending: Sending) -> None:
    worker, source, batches, sink = sending
    batches.outputs = []
    for source.there in (3, 0):
        worker._records.process()
    assert not sink.pushed


def test_outputs_linger_while_more_of_their_batch_is_to_come(sending: Sending) -> None:
    worker, source, _, sink = sending
    source.there = 3
    worker._records.process()
    source.there, worker._records._under_way = 0, True
    worker._records.process()
    assert not sink.pushed
    worker._records._under_way = False
    worker._records.process()
    assert sink.pushed == 1


def test_outputs_that_are_sent_at_a_second_try_do_not_linger(sending: Sending) -> None:
    worker, _, batches, sink = sending
    active = active_of(batches)
    active.unsent = Unsent(deque([output((b"k", b"again"))]), 2, 0, [])
    worker._records.outputs.send_rest(active)
    worker._records._poll()
    assert [value for _, _, value, _ in sink.taken] == [b"again"]
    assert sink.pushed == 1


def test_who_is_waited_for_takes_little_before_outputs_are_pushed(sending: Sending) -> None:
    worker, source, _, sink = sending
    worker._actions.urgent = True
    source.there = POLL_BUSY_RECORDS
    worker._records.process()
    worker._records.process()
    source.there = 0
    worker._records.process()
    assert sink.pushed == 1
    poll = (POLL_BUSY_RECORDS, 0, 0)
    assert source.asked == [POLL_MS, poll, poll, poll, POLL_MS, poll]


def test_the_first_commit_covers_what_opens_the_period_of_records_that_wait(
    sending: Sending,
) -> None:
    """A base tells the last period that committed only: that one's own base must be there."""
    worker, _, batches, sink = sending
    active = active_of(batches)
    batches.outputs = []
    active.held = HeldWriter(Period(TaskId(0, 0), 1), {"between": 3})
    active.held.claimed()
    sink._most = 100
    worker._records.settle(active)
    assert len(sink.taken) == 3
    assert not active.held.silent


def test_what_several_tasks_owe_is_one_record_of_each_partition(sending: Sending) -> None:
    worker, sink = sending[0], sending[3]
    writers = [HeldWriter(Period(TaskId(0, number), 1), {"between": 3}) for number in range(2)]
    for one in writers:
        one.claimed()
    sink._most = 200
    tasks = [SimpleNamespace(held=one) for one in writers]
    worker._records.outputs.tell(*tasks)  # type: ignore[arg-type]
    assert len(sink.taken) == 3
