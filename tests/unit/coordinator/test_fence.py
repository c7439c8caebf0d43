"""What a worker wrote is taken back, and nothing more written, once others may have its tasks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamlet.clock import ManualClock
from streamlet.coordinator.events import Lost
from streamlet.coordinator.member_config import MembershipConfig
from streamlet.coordinator.session import GroupSession
from streamlet.coordinator.states import MembershipState, MembershipView
from streamlet.testing.coordinator import FakeCoordinator
from tests.coordinator_transport import FakeCluster, FakeTransport
from tests.unit.coordinator.test_session import CLOCK, Member, TwoTasks, cluster, enter

__all__ = ["cluster", "enter"]


def test_what_is_queued_is_fenced_before_a_loss_is_told_of(
    cluster: FakeCluster, enter: Callable[..., Member]
) -> None:
    a = enter()
    before = a.assigned(2)
    assert a.session.may_write()
    fenced: list[bool] = []
    a.session.fence.take_back = lambda: fenced.append(a.events.empty())
    cluster.coordinator.expire("g", before.member_id, CLOCK.now_ms())
    a.next(Lost)
    a.assigned(2)
    assert (fenced, a.session.may_write()) == ([True], False)
    a.session.progress()
    assert a.session.may_write()


class Heard:
    """A session that heard of the group at some time, and what its heartbeats come to."""

    def __init__(self) -> None:
        self.clock = ManualClock(50_000)
        self.fenced = 0
        config = MembershipConfig("g", session_timeout_ms=10_000)
        transport = FakeTransport(FakeCluster(FakeCoordinator(), CLOCK), "g")
        self.session = GroupSession(config, TwoTasks(), transport, self.clock, lambda event: None)
        self.session.fence.take_back = self._fence
        self.hear()

    def _fence(self) -> None:
        self.fenced += 1

    def hear(self) -> None:
        """An answer to a heartbeat that is sent now."""
        self.session.view = MembershipView(
            MembershipState.STABLE, "a", 1, self.clock.now_ms(), "", 0, True
        )


def test_what_is_queued_is_fenced_before_a_session_may_be_over() -> None:
    """Once for each time: a process that was frozen, or one that no answer comes to."""
    heard = Heard()
    for ms in (0, 8_999):
        heard.clock.advance(ms)
        heard.session.fence.look(heard.session.view)
    assert heard.fenced == 0
    for ms in (1, 50, 20_000):
        heard.clock.advance(ms)
        heard.session.fence.look(heard.session.view)
    assert heard.fenced == 1
    heard.hear()
    heard.session.fence.look(heard.session.view)
    heard.clock.advance(9_000)
    heard.session.fence.look(heard.session.view)
    assert heard.fenced == 2


def test_who_was_not_heard_of_for_long_asks_before_it_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard, asked = Heard(), list[int]()
    answers = iter([True, False])

    def heartbeat_now(timeout_ms: int) -> bool:
        asked.append(timeout_ms)
        return next(answers)

    monkeypatch.setattr(heard.session, "heartbeat_now", heartbeat_now)
    heard.clock.advance(8_999)
    assert (heard.session.may_write(), asked) == (True, [])
    heard.clock.advance(1)
    assert [heard.session.may_write(), heard.session.may_write()] == [True, False]
    assert asked == [5_000] * 2
    heard.session.view = MembershipView()
    assert heard.session.may_write(), "what a member without tasks writes is of no task"
