"""Rebalancing modes in whole workers: everybody stops, or the group changes its type in flight."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamlet.tasks.task_record import TaskStage
from streamlet.testing.coordinator import GroupView
from tests.unit.runtime.members import PARTITIONS, Group, Member, wait_for
from tests.unit.runtime.test_task_manager import assert_exact, running


def view(group: Group) -> GroupView:
    found = group.cluster.coordinator.view("app")
    assert found is not None
    return found


def is_of(group: Group, protocol_type: str) -> bool:
    """Whether the group is of this type and all living members have claimed their share in it."""
    alive = [member for member in group.members if member.thread.is_alive()]
    there = view(group)
    return (
        there.protocol_type == protocol_type
        and len(there.members) == len(alive)
        and sum(group.shares()) == PARTITIONS
        and all(member.running for member in alive)
        and all(
            one.claimed or one.stage is TaskStage.COPIED
            for member in alive
            for one in list(member.manager.records.values())
        )
    )


def test_eager_members_stop_everything_and_nothing_is_lost_or_repeated(tmp_path: Path) -> None:
    with running(Group(tmp_path, stream_rebalancing_mode="eager")) as group:
        group.produce(3)
        a = group.member("a")
        wait_for(lambda: len(a.running) == PARTITIONS, "a runs all")
        before = dict(a.open_tasks())
        group.member("b")
        wait_for(lambda: is_of(group, "consumer"), "both have a share")
        after = dict(a.open_tasks())
        assert after
        assert all(state is not before[task] for task, state in after.items()), (
            "what it still has was closed and opened again"
        )
        group.produce(3)
        wait_for(lambda: group.put_out >= 240, "all counts")
        group.end()
    assert_exact(group, 6)


@pytest.mark.parametrize(
    ("before", "between", "after"),
    [("upgrading", "incremental", "stream"), ("incremental", "upgrading", "consumer")],
)
def test_a_group_goes_over_into_the_other_type_with_its_tasks_held_open(
    tmp_path: Path, before: str, between: str, after: str
) -> None:
    """The last member that needs the old type leaves; the others do not open a store again."""
    with running(Group(tmp_path)) as group:
        group.produce(3)
        last = group.member("last", before)
        wait_for(lambda: len(last.running) == PARTITIONS, "it runs all")
        old_type = view(group).protocol_type
        a, b = group.member("a", between), group.member("b", between)
        wait_for(lambda: is_of(group, str(old_type)), "all three make do with its type")
        mine, epochs = owned(a) | owned(b), epochs_of(a) | epochs_of(b)
        last.told.set()
        wait_for(lambda: is_of(group, after), f"over: {view(group)}")
        assert mine.items() <= (owned(a) | owned(b)).items()
        now = epochs_of(a) | epochs_of(b)
        assert {task: now[task] for task in epochs} == {t: one + 1 for t, one in epochs.items()}
        group.produce(3)
        wait_for(lambda: group.put_out >= 240, "all counts")
        group.end()
    assert_exact(group, 6)


def epochs_of(member: Member) -> dict[str, int]:
    """The epochs of the active periods it is in, by task."""
    tasks = list(member.worker.registry.tasks.values())
    return {f"{member.name} {one.task}": one.epoch for one in tasks}


def owned(member: Member) -> dict[str, int]:
    """The stores it has open, by the task and which object it is."""
    return {f"{member.name} {task}": id(state) for task, state in member.open_tasks().items()}
