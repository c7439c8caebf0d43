"""The leader's advice: only while it leads, and of more than one look."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from streamlet.admin.status_look import StatusLook
from streamlet.coordinator.messages import (
    Answer,
    GroupDescription,
    MemberDescription,
    OffsetFetch,
    OffsetFetchAnswer,
    Request,
)
from streamlet.errors import UnreachableError
from streamlet.rebalance.values import Assignment, Subscription
from streamlet.rebalance.wire import encode_assignment, encode_subscription
from streamlet.runtime.metrics.advisor import Advisor
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog
from streamlet.types import TaskId
from tests.futures import done
from tests.unit.runtime.members import wait_for
from tests.windows import window

MEMBER = MemberDescription(
    "id-h1-0",
    None,
    "h1",
    "localhost",
    encode_subscription(Subscription("process", "h1", 0, 1.0, 1, ())),
    encode_assignment(Assignment(active=frozenset({TaskId(0, 0)}), leader="id-h1-0", generation=3)),
)


class Coordinator:
    """Describes one member, but for the first time, when it is away."""

    def __init__(self) -> None:
        self.asked = 0

    def describe_group(self, group: str, timeout_ms: int) -> Future[GroupDescription]:
        self.asked += 1
        if self.asked == 1:
            raise UnreachableError("the broker restarts")
        return done(GroupDescription(group, "Stable", "stream", "streamlet", (MEMBER,)))

    def ask(self, request: Request, timeout_ms: int) -> Future[Answer]:
        assert isinstance(request, OffsetFetch)
        return done(OffsetFetchAnswer(0, {}))


def test_who_leads_advises_until_it_leads_no_more() -> None:
    leads, coordinator, opened = [False], Coordinator(), list[bool]()

    @contextmanager
    def look() -> Iterator[StatusLook]:
        opened.append(True)
        yield StatusLook(window(coordinator, MemoryAdmin(MemoryLog()), "flights"), history=deque())
        opened.append(False)

    advisor = Advisor(look, lambda: leads[0], look_s=0.001)
    advisor.start()
    try:
        assert advisor.advice is None
        leads[0] = True
        wait_for(lambda: advisor.advice is not None, "advice, also after a failure")
        assert advisor.advice is not None
        assert (advisor.advice["instances"], advisor.advice["current"]) == (1, 1)
        assert coordinator.asked >= 3  # one failed, and one look shows no trend
        leads[0] = False
        wait_for(lambda: advisor.advice is None, "no advice any more")
        wait_for(lambda: opened[-1] is False, "connections are closed")
    finally:
        advisor.close()
