"""Positions of running tasks that the log does not hold: one task is concerned, and no other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import streamlet as sl
from streamlet.config import Settings
from streamlet.errors import PositionsMismatchError
from streamlet.processing.policy import ErrorPolicy
from streamlet.testing.memory_ports import MemorySource
from streamlet.topology.graph import Topology
from streamlet.types import TaskId, TopicPartition
from tests.unit.runtime.members import PARTITIONS, Group, Member, wait_for

WORDS = TopicPartition("words", 0)
T0 = TaskId(0, 0)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[list[Group]]:
    """Groups that end with the test."""
    groups: list[Group] = []
    yield groups
    for group in groups:
        group.end()
        group.cluster.__exit__(None, None, None)


def working(
    made: list[Group], root: Path, policy: str = "earliest", topology: Topology | None = None
) -> tuple[Group, Member]:
    """A group with one member, which has counted everything twice, and has this policy now.

    A record that fails is tried again and again.
    """
    group = Group(root, topology)
    group.policy = ErrorPolicy.of(sl.Retry(1_000, backoff=1, longest=1))
    group.cluster.__enter__()
    made.append(group)
    member = group.member("a")
    group.produce(2)
    wait_for(lambda: group.put_out == 80, "the first counts")
    wait_for(lambda: all_committed(member), "they are committed")
    settings = Settings.load(overrides=[f"auto.offset.reset={policy}"])
    member.worker._out_of_range._settings = settings
    return group, member


def counting_unless(broken: threading.Event) -> Topology:
    """Counts as those of ``counting``; while it is set, no value ``bad`` passes."""

    def checked(value: str) -> str:
        if value == "bad" and broken.is_set():
            raise ValueError(value)
        return value

    app = sl.App("app")
    words = app.stream("words", key=str, value=str).map_values(checked)
    words.group_by_key().count(store="counts").to_stream().to("counts")
    return app.topology()


def all_committed(member: Member) -> bool:
    """Whether nothing is left to commit."""
    return not any(one.changed for one in list(member.worker.registry.tasks.values()))


def overtake(group: Group, member: Member) -> int:
    """Delete what a task is about to read before it does; how many records."""
    source = member.worker._source
    assert isinstance(source, MemorySource)
    source.pause([WORDS])
    position = source.positions([WORDS])[WORDS]
    group.produce(2)
    cut = group.log.end(WORDS) - 3
    group.log.raise_start(WORDS, cut)
    source.resume([WORDS])
    return cut - position


def put_out(group: Group, task: int) -> int:
    """Counts that a task has put out; an output has the partition of its key, as the input."""
    return group.log.end(TopicPartition("counts", task))


def test_it_goes_on_at_the_start_of_what_is_left(
    made: list[Group], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    group, member = working(made, tmp_path)
    lost = overtake(group, member)
    wait_for(lambda: group.put_out == 160 - lost, "what is left is counted")
    wait_for(lambda: all_committed(member), "and committed")
    assert member.worker.registry.tasks[T0].committed[WORDS] == group.log.end(WORDS)
    assert member.worker.meters.out_of_range == {"earliest": 1}
    assert "task 0_0: words-0 holds" in caplog.text
    assert member.failed is None


def test_it_goes_on_at_the_end(made: list[Group], tmp_path: Path) -> None:
    group, member = working(made, tmp_path, "latest")
    group.produce(1)
    lost = overtake(group, member)
    assert lost > 0
    wait_for(lambda: member.worker.meters.out_of_range == {"latest": 1}, "it is overtaken")
    wait_for(lambda: all_committed(member), "all is committed")
    end = group.log.end(WORDS)
    assert member.worker.registry.tasks[T0].committed[WORDS] == end
    group.produce(1)
    wait_for(lambda: all_committed(member) and group.log.end(WORDS) > end, "it reads on")
    assert member.failed is None


def test_without_a_policy_it_is_halted_and_can_be_handed_over(
    made: list[Group], tmp_path: Path
) -> None:
    group, member = working(made, tmp_path, "none")
    before = put_out(group, 0)
    overtake(group, member)
    active = member.worker.registry.tasks[T0]
    wait_for(lambda: active.halted, "it is halted")
    ends = {p: group.log.end(TopicPartition("words", p)) for p in range(1, PARTITIONS)}
    wait_for(lambda: all(put_out(group, p) == end for p, end in ends.items()), "the others go on")
    assert put_out(group, 0) == before
    assert "auto.offset.reset is none" in active.halted
    group.member("b")
    wait_for(lambda: group.shares() == [2, 2], "b has its share")
    assert member.failed is None


def test_a_record_that_is_tried_again_is_counted_though_its_task_is_halted(
    made: list[Group], tmp_path: Path
) -> None:
    """Else the task could not be handed over: it would wait for that record for ever."""
    broken = threading.Event()
    broken.set()
    group, member = working(made, tmp_path, "none", counting_unless(broken))
    before, active = put_out(group, 0), member.worker.registry.tasks[T0]
    group.log.append(WORDS, [group.log.records(WORDS)[0].key], [b"bad"])
    wait_for(lambda: active.retrying, "the record is tried again")
    overtake(group, member)
    wait_for(lambda: active.halted, "it is halted")
    wait_for(lambda: active.retrying, "it is still tried")
    broken.clear()
    wait_for(lambda: not active.changed, "the record is counted and committed")
    assert put_out(group, 0) == before + 1
    group.member("b")
    wait_for(lambda: group.shares() == [2, 2], "b has its share")
    assert member.failed is None


def test_a_log_that_lost_its_end_has_the_task_restart_from_its_commit(
    made: list[Group], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The commit is beyond the end too: ``state.mismatch.policy`` decides."""
    group, member = working(made, tmp_path)
    group.log.lose_tail(WORDS, group.log.end(WORDS) - 1)
    wait_for(lambda: member.failed is not None, "it restarts")
    assert "it restarts from its commit" in caplog.text
    assert member.worker.meters.out_of_range["restarted"] == 1
    assert isinstance(member.failed, PositionsMismatchError)


def test_a_task_that_was_taken_over_is_not_read_on(
    made: list[Group], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its new owner has records deleted that it has read, before we hear of it."""
    group, member = working(made, tmp_path)
    active = member.worker.registry.tasks[T0]
    active.processor.epoch -= 1  # as if the last commit were another's
    overtake(group, member)
    wait_for(lambda: "another member has taken the task over" in caplog.text, "it is late")
    assert member.worker.meters.out_of_range == {}
    assert member.failed is None
