"""Tasks on their way up while brokers are away: the loop goes round, and they come up later."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from streamlet.app import App
from streamlet.clock import ManualClock
from streamlet.config import Settings
from streamlet.errors import BrokerError, UnreachableError
from streamlet.group.commit_metadata import CommitMetadata
from streamlet.group.handover_values import Positions
from streamlet.group.messages import Committed
from streamlet.runtime.activation import ASK_AGAIN_MS, Activation
from streamlet.runtime.active import ActiveTask
from streamlet.runtime.policy import ErrorPolicy
from streamlet.runtime.restore import Restorer
from streamlet.state.directory import StateDirectory
from streamlet.testing.ports import MemoryAdmin, MemoryLog, MemorySource
from streamlet.types import TaskId, TopicPartition

TASK = TaskId(0, 0)
INPUT, CHANGELOG = TopicPartition("words", 0), TopicPartition("app-counts-changelog", 0)


class Away(MemoryAdmin):
    """A cluster that does not answer, then says that it is not there, then is."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(log)
        self.asked, self.answers = threading.Event(), threading.Event()
        self.error: BrokerError | None = None

    def topic_ids(self, names: Sequence[str]) -> dict[str, str]:
        self.asked.set()
        assert self.answers.wait(30)
        if self.error is not None:
            raise self.error
        return super().topic_ids(names)


class Bench:
    def __init__(self, folder: Path) -> None:
        app = App("app")
        stream = app.stream("words", key=str, value=str)
        stream.group_by_key().count(store="counts")
        log = MemoryLog()
        log.create("words")
        log.create("app-counts-changelog")
        self.clock, self.admin = ManualClock(1_000), Away(log)
        self.activation = Activation(
            app.topology(),
            directory=StateDirectory(folder, "app"),
            restorer=Restorer(MemorySource(log, headers=True), self.admin, self.clock),
            positions=self,
            admin=self.admin,
            settings=Settings.load(),
            counts={},
            policy=ErrorPolicy(),
            clock=self.clock,
        )

    def fetch_committed(
        self, partitions: Sequence[TopicPartition], timeout_ms: int
    ) -> Mapping[TopicPartition, Committed]:
        return dict.fromkeys(partitions, Committed(0, ""))

    def step_until_asked_again(self) -> None:
        """The answer that was given is taken, and another is asked for after a pause."""
        self.admin.asked.clear()
        deadline = time.monotonic() + 30
        while not self.admin.asked.is_set():
            assert self.activation.step(10) == []
            assert time.monotonic() < deadline
            self.clock.advance(ASK_AGAIN_MS)

    def ready(self) -> ActiveTask:
        deadline = time.monotonic() + 30
        while not (found := self.activation.step(10)):
            assert time.monotonic() < deadline
            self.clock.advance(ASK_AGAIN_MS)
        return found[0]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.admin.answers.set()
    made.activation.close()


#: A mark tells positions and ends, so nobody is asked for them; topics' ids it does not tell.
MARK = Positions({INPUT: 0}, (CommitMetadata(1, "a", 2, {CHANGELOG: 0}, release_to="b"),))


@pytest.mark.parametrize("mark", [None, MARK])
def test_the_loop_goes_round_while_nobody_answers(bench: Bench, mark: Positions | None) -> None:
    bench.activation.want(TASK, mark)
    while not bench.admin.asked.is_set():
        assert bench.activation.step(10) == []
    assert [bench.activation.step(10) for _ in range(100)] == [[]] * 100
    assert bench.activation.tasks == {TASK}

    bench.admin.error = UnreachableError("nobody is there")
    bench.admin.answers.set()
    bench.step_until_asked_again()
    bench.admin.error = None
    active = bench.ready()
    assert (active.task, bench.activation.idle) == (TASK, True)
    active.opened.close()


def test_what_will_not_pass_ends_the_worker(bench: Bench) -> None:
    bench.admin.error = BrokerError("TOPIC_AUTHORIZATION_FAILED")
    bench.admin.answers.set()
    bench.activation.want(TASK)
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        bench.ready()


def test_an_answer_for_a_task_that_was_taken_away_is_dropped(bench: Bench) -> None:
    bench.activation.want(TASK)
    while not bench.admin.asked.is_set():
        bench.activation.step(10)
    bench.activation.cancel(TASK)
    bench.activation.want(TASK, MARK)  # it comes back while the old question is still open
    bench.admin.answers.set()
    active = bench.ready()
    assert bench.activation.idle
    assert bench.activation.step(10) == []
    active.opened.close()
