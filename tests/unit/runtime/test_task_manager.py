"""Workers carry out the hand-over rules: tasks move warm, exactly, and come back when it fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import streamlet as sl
from streamlet.coordinator.ports import fetch_committed
from streamlet.coordinator.states import MembershipState
from streamlet.state.task_state import TaskState
from streamlet.types import TaskId, TopicPartition
from tests.unit.runtime.members import CLOCK, PARTITIONS, Group, Member, wait_for


@contextmanager
def running(group: Group) -> Iterator[Group]:
    with group.cluster:
        try:
            yield group
        finally:
            group.end()


def assert_exact(group: Group, count: int) -> None:
    """Each key was counted 1, 2, 3, … once, whoever did it."""
    assert group.counts() == {f"k{i}": list(range(1, count + 1)) for i in range(40)}
    assert [member.failed for member in group.members] == [None] * len(group.members)


@pytest.mark.parametrize("mode", ["release", "surrender"])
def test_tasks_move_to_a_new_member_and_nothing_is_lost_or_repeated(
    tmp_path: Path, mode: str
) -> None:
    with running(Group(tmp_path, learner_handover=mode)) as group:
        group.produce(5)
        group.member("a")
        wait_for(lambda: group.put_out == 200, "the first counts")
        group.member("b")
        for turn in range(10):
            group.produce(1)
            due = 200 + 40 * turn
            wait_for(lambda due=due: group.put_out >= due, "counting goes on")  # type: ignore[misc]
        wait_for(lambda: group.shares() == [2, 2], f"shares: {group.shares()}")
        group.produce(5)
        wait_for(lambda: group.put_out >= 800, "all counts")
        group.end()
    assert_exact(group, 20)


def test_a_task_is_promoted_where_it_was_learned(tmp_path: Path) -> None:
    """The new owner's stores are the copy's: they are not opened a second time."""
    with running(Group(tmp_path)) as group:
        group.produce(3)
        group.member("a")
        wait_for(lambda: group.put_out == 120, "the first counts")
        learner = group.member("b")
        copies: dict[TaskId, TaskState] = {}

        def moved() -> bool:
            copies.update(learner.open_copies())
            return len(learner.running) == 2

        wait_for(moved, "b has its share")
        assert learner.open_tasks() == copies
        group.end()
    assert_exact(group, 3)


def test_a_task_moves_whose_store_has_no_changelog(tmp_path: Path) -> None:
    app = sl.App("app")
    words = app.stream("words", key=str, value=str).group_by_key()
    words.count(store=sl.Materialized("counts", logged=False)).to_stream().to("counts")
    with running(Group(tmp_path, app.topology())) as group:
        group.produce(1)
        group.member("a")
        wait_for(lambda: group.put_out == 40, "the first counts")
        learner = group.member("b")
        wait_for(lambda: learner.failed or group.shares() == [2, 2], "b runs its share")
        assert learner.failed is None


def test_an_owner_that_stops_leaves_its_tasks_to_the_others(tmp_path: Path) -> None:
    with running(Group(tmp_path)) as group:
        group.produce(2)
        a = group.member("a")
        wait_for(lambda: len(a.running) == PARTITIONS, "a runs all")
        b = group.member("b")
        wait_for(lambda: group.shares() == [2, 2], "both have a share")
        a.told.set()
        wait_for(lambda: len(b.running) == PARTITIONS, "b runs all")
        group.produce(2)
        wait_for(lambda: group.put_out == 160, "all counts")
        group.end()
    assert_exact(group, 4)


def test_a_standby_takes_over_in_place(tmp_path: Path) -> None:
    with running(Group(tmp_path, num_standby_replicas="1")) as group:
        group.produce(2)
        a, b = group.member("a"), group.member("b")
        wait_for(lambda: group.shares() == [2, 2], "both have a share")

        def warm() -> bool:
            records = [list(m.manager.records.values()) for m in (a, b)]
            copies = [[one.copy for one in of if one.copy is not None] for of in records]
            return all(len(of) == 2 and all(copy.lag == 0 for copy in of) for of in copies)

        wait_for(warm, "each keeps copies of the other's tasks")
        copies = b.open_copies()
        a.told.set()
        wait_for(lambda: len(b.running) == PARTITIONS, "b runs all")
        held = b.open_tasks()
        assert len(copies) == 2
        assert {task: held[task] for task in copies} == copies
        group.produce(3)
        wait_for(lambda: group.put_out == 200, "all counts")
        group.end()
    assert_exact(group, 5)


def committed(group: Group) -> dict[TopicPartition, int]:
    """The group's positions, read by somebody outside of it."""
    found = fetch_committed(
        group.cluster.transport("reader"),
        "app",
        [TopicPartition("words", p) for p in range(PARTITIONS)],
        timeout_ms=5_000,
        clock=CLOCK,
        pause=threading.Event().wait,
    )
    return {partition: position.offset for partition, position in found.items()}


def test_a_worker_told_to_stop_after_a_loss_it_has_not_seen_commits_nothing(tmp_path: Path) -> None:
    """Its member was expired and had joined anew while the worker's last round was busy."""
    with running(Group(tmp_path, commit_interval_ms="60000")) as group:
        group.produce(1)
        member = Member(group, "a")
        group.members.append(member)
        session, commit_step = member.session, member.worker._commits.step
        positions: list[dict[TopicPartition, int]] = []

        def last_round() -> None:
            if group.put_out < 40:
                commit_step()
                return
            positions.append(committed(group))
            before = session.view.member_id
            group.cluster.coordinator.expire("app", before, CLOCK.now_ms())
            wait_for(
                lambda: (
                    session.view.member_id not in ("", before)
                    and session.view.state is MembershipState.STABLE
                ),
                "the member is back",
            )
            member.told.set()

        member.worker._commits.step = last_round  # type: ignore[method-assign]
        member.thread.start()
        member.thread.join(60)

        assert member.failed is None
        assert positions == [committed(group)]
