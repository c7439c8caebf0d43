"""Members whose processes are dead are taken out of their group."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

import attrs
import pytest

from streamlet.admin.dead_members import DeadMembers
from streamlet.coordinator.events import FailureKind
from streamlet.coordinator.messages import Answer, LeaveGroup, LeaveGroupAnswer, Request
from streamlet.coordinator.ports import TransportError
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog
from tests.windows import window

WAIT_S = 300.0


@attrs.define
class Coordinator:
    """Answers each LeaveGroup the same way, once ``answers`` is set."""

    answer: int | TransportError = 0
    asked: list[LeaveGroup] = attrs.field(factory=list)
    open_connections: int = 0
    answers: threading.Event = attrs.field(factory=threading.Event)

    def connect(self) -> Coordinator:
        self.open_connections += 1
        return self

    def ask(self, request: Request, timeout_ms: int) -> Future[Answer]:
        assert isinstance(request, LeaveGroup)
        self.asked.append(request)
        assert self.answers.wait(WAIT_S)
        done: Future[Answer] = Future()
        if isinstance(self.answer, TransportError):
            done.set_exception(self.answer)
        else:
            done.set_result(LeaveGroupAnswer(self.answer))
        return done

    def close(self) -> None:
        self.open_connections -= 1

    def removed(self, dead: DeadMembers) -> list[str]:
        """The members it was asked to remove, once all answers are there."""
        self.answers.set()
        dead.close(WAIT_S)
        assert self.open_connections == 0
        return [request.member_id for request in self.asked]


def members(coordinator: Coordinator, at_once: Callable[[], bool] = lambda: True) -> DeadMembers:
    unused = MemoryAdmin(MemoryLog())
    return DeadMembers(lambda: window(coordinator.connect(), unused, "g"), at_once)


def test_a_member_is_removed_by_its_id_and_the_caller_waits_for_no_answer() -> None:
    coordinator = Coordinator()
    dead = members(coordinator)
    dead.died(0, "a-1", replaced_at_once=True)
    dead.died(1, "a-2", replaced_at_once=False)
    assert sorted(coordinator.removed(dead)) == ["a-1", "a-2"]
    assert {(r.group, r.instance_id) for r in coordinator.asked} == {("g", None)}


def test_where_others_gain_nothing_a_member_stays_until_its_successor_joins() -> None:
    """So one rebalance has both, and the tasks go back to where their state is."""
    coordinator = Coordinator()
    coordinator.answers.set()
    dead = members(coordinator, at_once=lambda: False)
    dead.died(0, "a-1", replaced_at_once=True)
    dead.succeeded(1)
    assert coordinator.asked == []
    dead.succeeded(0)
    dead.succeeded(0)
    assert coordinator.removed(dead) == ["a-1"]


def test_a_member_whose_successor_comes_late_or_never_is_removed_at_once() -> None:
    coordinator = Coordinator()
    dead = members(coordinator, at_once=lambda: False)
    dead.died(0, "a-1", replaced_at_once=True)
    dead.died(0, "a-2", replaced_at_once=False)
    assert sorted(coordinator.removed(dead)) == ["a-1", "a-2"]


def test_the_end_of_the_instance_removes_what_waited() -> None:
    coordinator = Coordinator()
    dead = members(coordinator, at_once=lambda: False)
    dead.died(0, "a-1", replaced_at_once=True)
    assert coordinator.removed(dead) == ["a-1"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (0, "removed the dead member a-1 from group g"),
        (25, "removed the dead member a-1 from group g"),  # its session was over already
        (30, "stays in group g until its session.timeout.ms is over: GROUP_AUTHORIZATION_FAILED"),
        (TransportError(FailureKind.TIMEOUT, "no answer"), "session.timeout.ms is over: no answer"),
    ],
)
def test_what_became_of_it_is_logged(
    answer: int | TransportError, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    coordinator = Coordinator(answer)
    dead = members(coordinator)
    dead.died(0, "a-1", replaced_at_once=True)
    coordinator.removed(dead)
    (message,) = caplog.messages
    assert said in message
