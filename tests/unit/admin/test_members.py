"""Which members an operator's words mean, which are left over, and what a program is told."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, cast

import attrs
import pytest

from streamlet.admin.members import (
    ListedMember,
    Removal,
    left_over,
    listed,
    meaning,
    remove,
    remove_left_over,
    right_to_remove,
)
from streamlet.admin.metadata import instances
from streamlet.admin.snapshot import read
from streamlet.admin.window import ApplicationInfo, GroupWindow
from streamlet.clock import ManualClock
from streamlet.control.values import MemberProgress
from streamlet.control.view import ControlView
from streamlet.coordinator.messages import Answer, GroupDescription, MemberDescription, Request
from streamlet.errors import BrokerError, NotFoundError
from streamlet.rebalance.values import Assignment, Subscription
from streamlet.rebalance.wire import encode_assignment, encode_subscription
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog
from streamlet.types import TaskId
from tests.futures import done

T00, T01 = TaskId(0, 0), TaskId(0, 1)


def member(
    name: str, static: str | None = None, number: int = 0, process: str | None = None, **told
) -> MemberDescription:
    """A member of an instance of that name; ``process`` is its process id."""
    said = Subscription(
        process or f"process-{name}", name, number, 2.0, 2, (bytes(8),), instance_id=static
    )
    return MemberDescription(
        f"id-{name}-{number}",
        static,
        f"client-{name}",
        "localhost",
        encode_subscription(said),
        encode_assignment(Assignment(**told)),
    )


def described(*members: MemberDescription, state: str = "Stable") -> GroupDescription:
    if state != "Stable":  # then a coordinator keeps the bytes to itself
        members = tuple(attrs.evolve(m, metadata=b"", assignment=b"") for m in members)
    return GroupDescription("flights", state, "stream", "streamlet", members)


@attrs.define
class Coordinator:
    """One group, described step by step, the last time for ever; each id's code when removed."""

    descriptions: list[GroupDescription]
    codes: dict[str, int] = attrs.field(factory=dict)
    requests: list[list[str]] = attrs.field(factory=list)

    def describe_group(self, group: str, timeout_ms: int) -> Future[GroupDescription]:
        more = len(self.descriptions) > 1
        return done(self.descriptions.pop(0) if more else self.descriptions[0])

    def ask(self, request: Request, timeout_ms: int) -> Future[Answer]:
        raise AssertionError(f"nobody needs {request}")

    def remove_members(
        self, group: str, instance_ids: Sequence[str], timeout_ms: int, reason: str = ""
    ) -> Future[dict[str, int]]:
        self.requests.append(list(instance_ids))
        return done({one: self.codes.get(one, 0) for one in instance_ids})


class Pause(threading.Event):
    """Each wait lets its time pass at once."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.advance(int((timeout or 0) * 1000))
        return False


@attrs.frozen
class Reported:
    """A control topic with these reports."""

    view: ControlView

    def latest(self) -> ControlView:
        return self.view


def seen(coordinator: Coordinator, reports: ControlView | None = None) -> GroupWindow:
    clock = ManualClock()
    unused = MemoryAdmin(MemoryLog())
    return GroupWindow(
        ApplicationInfo("flights"),
        cast(Any, coordinator),
        lambda: unused,
        lambda: cast(Any, Reported(reports or ControlView())),
        stopped=Pause(clock),
        clock=clock,
    )


THERE = ["a-0", "a-1", "a-1-0", "b-0", "odd"]


@pytest.mark.parametrize(
    ("asked", "means"),
    [
        ("a-0", ("a-0",)),
        ("a", ("a-0", "a-1")),
        ("a-1", ("a-1",)),  # a member of that name goes before an instance of that name
        ("b", ("b-0",)),
        ("odd", ("odd",)),
        ("nobody", ("nobody",)),
        ("", ("",)),
    ],
)
def test_an_id_is_that_of_a_member_or_of_an_instance(asked: str, means: tuple[str, ...]) -> None:
    assert meaning(asked, THERE) == means


def test_all_are_removed_in_one_request_and_each_id_has_a_result() -> None:
    group = Coordinator(
        [described(member("a", "a-0"), member("a", "a-1", 1), member("b", "b-0"))],
        codes={"a-1": 25, "gone": 25, "b-0": 30},
    )
    assert remove(seen(group), ["a", "gone", "b-0", "a-0", "a"]) == [
        Removal("a", "UNKNOWN_MEMBER_ID"),
        Removal("gone", "UNKNOWN_MEMBER_ID"),
        Removal("b-0", "GROUP_AUTHORIZATION_FAILED"),
        Removal("a-0", None),
    ]
    assert group.requests == [["a-0", "a-1", "gone", "b-0"]]


def test_the_right_that_is_missing_is_named() -> None:
    group = Coordinator([described(member("a", "a-0"))], codes={"a-0": 30, "gone": 30})
    removed = remove(seen(group), ["a-0", "gone"])
    assert [one.error for one in removed] == ["GROUP_AUTHORIZATION_FAILED"] * 2
    assert all(one.refused for one in removed)
    assert "READ on group flights" in right_to_remove("flights")
    assert "--operation Read" in right_to_remove("flights")


def test_an_id_the_coordinator_says_nothing_of_was_not_removed() -> None:
    class Silent(Coordinator):
        def remove_members(self, *request, **more) -> Future[dict[str, int]]:
            return done({})

    silent = Silent([described(member("a", "a-0"))])
    assert remove(seen(silent), ["a-0"]) == [Removal("a-0", "UNKNOWN_SERVER_ERROR")]


def test_without_the_application_nothing_is_asked_for() -> None:
    group = Coordinator([described(state="Dead")])
    with pytest.raises(NotFoundError, match="no application 'flights'"):
        remove(seen(group), ["a"])
    assert remove_left_over(seen(group), ["a-0"], "process-a", "a") == {}
    assert group.requests == []
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        listed(seen(Coordinator([attrs.evolve(described(), error=30)])))


def test_members_are_listed_by_name_once_the_group_has_settled() -> None:
    there = member("b"), member("a", "a-0"), member("a", "a-1", 1)
    group = Coordinator([described(*there, state="PreparingRebalance"), described(*there)])
    assert listed(seen(group)) == [
        ListedMember("a-0", "a-0", "RUNNING"),
        ListedMember("a-1", "a-1", "RUNNING"),
        ListedMember("b-0", None, "RUNNING"),
    ]


def test_while_a_rebalance_hides_names_members_have_those_they_reported() -> None:
    moving = described(member("a", "a-0"), member("b"), state="PreparingRebalance")
    said = MemberProgress("process-a", 0, "a-0", "id-a-0", 1)
    reports = ControlView(progress={said.key: said})
    group = Coordinator([moving])
    assert listed(seen(group, reports)) == [
        ListedMember("id-b-0", None, "REBALANCING"),
        ListedMember("a-0", "a-0", "REBALANCING"),
    ]
    assert listed(seen(Coordinator([described(state="Empty")]))) == []


def test_numbers_beyond_the_workers_that_start_are_left_over() -> None:
    """Three workers before, one now; the state folder may have gone with the last run."""
    group = read(described(*(member("a", f"a-{n}", n, process="old disk") for n in range(3))))
    assert left_over(group, frozenset({"a-0"}), "new disk", "a", frozenset()) == ["a-1", "a-2"]


@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance"])
def test_what_our_folder_ran_under_another_id_is_left_over(state: str) -> None:
    """A static instance becomes dynamic, or is renamed, while others are static too."""
    group = read(described(member("a", "a-0"), member("b", "b-0"), member("c"), state=state))
    recorded = frozenset({"a-0"})
    assert left_over(group, frozenset(), "process-a", None, recorded) == ["a-0"]
    assert left_over(group, frozenset({"x-0"}), "process-a", "x", recorded) == ["a-0"]


def test_an_id_that_somebody_else_took_over_is_not_ours_to_remove() -> None:
    group = read(described(member("b", "a-0", process="process-b")))
    assert left_over(group, frozenset(), "process-a", None, frozenset({"a-0"})) == []


def test_ids_without_a_number_belong_to_no_instance() -> None:
    group = read(described(member("a", "plain"), member("b", "a-1-0")))
    assert left_over(group, frozenset(), "process-x", None, frozenset()) == []
    assert left_over(group, frozenset({"a-0"}), "process-x", "a", frozenset()) == []


def test_a_program_is_told_of_instances_with_their_ids_and_tasks() -> None:
    group = read(
        described(
            member("h1", "a-1", 1, standby=frozenset({T00})),
            member("h1", "a-0", active=frozenset({T00, T01})),
            member("h2", learner=frozenset({T01})),
        )
    )
    h1, h2 = instances(group, "process-h1")
    assert (h1.name, h1.process_id, h1.capacity, h1.local) == ("h1", "process-h1", 2.0, True)
    assert h1.instance_ids == ("a-0", "a-1")
    first, second = h1.members
    assert (first.member, first.member_id, first.state) == ("h1-0", "id-h1-0", "RUNNING")
    assert (first.active_tasks, first.standby_tasks) == ((T00, T01), ())
    assert (second.active_tasks, second.standby_tasks) == ((), (T00,))
    assert (h2.instance_ids, h2.local, h2.members[0].standby_tasks) == ((), False, (T01,))


def test_while_the_group_rebalances_a_program_sees_ids_and_no_tasks() -> None:
    (one,) = instances(read(described(member("h1", "a-0"), state="CompletingRebalance")))
    assert (one.name, one.instance_ids) == ("client-h1", ("a-0",))
    assert (one.members[0].state, one.members[0].tasks) == ("REBALANCING", ())
