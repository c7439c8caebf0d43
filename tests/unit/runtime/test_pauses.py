"""Tasks that an operator pauses stand still, keep their member, and go on where they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest

from streamlet.control.values import ALL, PauseMark
from streamlet.control.view import ControlView
from streamlet.runtime.control_link import ControlLink
from streamlet.runtime.pauses import Pauses
from streamlet.tasks.task_record import TaskStage
from tests.unit.runtime.members import PARTITIONS, Group, Member, wait_for


@attrs.define
class Operator:
    """The control topic as each member has it; ``looks`` counts how often one looked."""

    link: Any = attrs.field(factory=lambda: SimpleNamespace(view=ControlView()))
    looks: int = 0

    def tells(self, member: Member) -> Member:
        pauses = Pauses(member.worker.registry, cast(ControlLink, self.link))

        def look() -> None:
            self.looks += 1
            pauses.look()

        member.worker._records._pauses = look
        member.thread.start()
        return member

    def pause(self, *whats: str) -> None:
        self.link.view = ControlView(pauses={what: PauseMark(what) for what in whats})

    def rounds(self, count: int = 20) -> None:
        """Wait until members have been round so often."""
        until = self.looks + count
        wait_for(lambda: self.looks >= until, "rounds")


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    group = Group(tmp_path)
    with group.cluster:
        yield group
        group.end()


def join(group: Group, operator: Operator, name: str) -> Member:
    group.members.append(group.idle_member(name))
    return operator.tells(group.members[-1])


def tasks(member: Member) -> list[bool]:
    """Of each task that a member runs, whether it is paused."""
    running = list(member.worker.registry.tasks.values())
    return [one.paused for one in running if one.stage is TaskStage.RUNNING]


@pytest.mark.parametrize("what", [ALL, "0"])
def test_a_paused_task_processes_nothing_and_goes_on_where_it_was(group: Group, what: str) -> None:
    operator = Operator()
    member = join(group, operator, "a")
    group.produce(2)
    wait_for(lambda: group.put_out == 80, "the first counts")
    operator.pause(what)
    wait_for(lambda: tasks(member) == [True] * PARTITIONS, "all are paused")
    group.produce(3)
    operator.rounds()
    assert group.put_out == 80
    assert len(member.running) == PARTITIONS
    operator.pause()
    wait_for(lambda: group.put_out == 200, "the others")
    assert set(map(tuple, group.counts().values())) == {(1, 2, 3, 4, 5)}


def test_a_pause_of_another_subtopology_changes_nothing(group: Group) -> None:
    operator = Operator()
    operator.pause("1")
    member = join(group, operator, "a")
    group.produce(2)
    wait_for(lambda: group.put_out == 80, "the counts")
    assert not any(tasks(member))


def test_paused_tasks_are_handed_over_and_stay_paused(group: Group) -> None:
    operator = Operator()
    first = join(group, operator, "a")
    group.produce(2)
    wait_for(lambda: group.put_out == 80, "the first counts")
    operator.pause(ALL)
    wait_for(lambda: tasks(first) == [True] * PARTITIONS, "all are paused")
    group.produce(1)
    second = join(group, operator, "b")
    wait_for(lambda: tasks(second) == [True] * (PARTITIONS // 2), "half of them moved")
    operator.rounds()
    assert group.put_out == 80
    operator.pause()
    wait_for(lambda: group.put_out == 120, "the others")
    assert set(map(tuple, group.counts().values())) == {(1, 2, 3)}
