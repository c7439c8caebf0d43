"""What the status command asks for, waits for and refuses, without a broker."""

from __future__ import annotations

import io
import json
import signal
from collections import deque
from concurrent.futures import Future
from typing import Any

import attrs
import pytest
from rich.console import Console

from streamlet.admin.status_look import StatusLook
from streamlet.clock import ManualClock
from streamlet.control.values import MemberProgress, TaskProgress
from streamlet.control.view import ControlView
from streamlet.coordinator.messages import (
    Answer,
    Committed,
    GroupDescription,
    MemberDescription,
    OffsetFetch,
    OffsetFetchAnswer,
    Request,
)
from streamlet.errors import BrokerError, NotFoundError, TimedOutError
from streamlet.kafka.ports import TopicInfo
from streamlet.rebalance.values import Assignment, Subscription
from streamlet.rebalance.wire import encode_assignment, encode_subscription
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog
from streamlet.tools.command import Common
from streamlet.tools.output import CommandOutput
from streamlet.tools.status import look_on, look_once
from streamlet.tools.status_view import view
from streamlet.types import TaskId, TopicPartition
from tests.futures import done
from tests.windows import window

MEMBER = MemberDescription(
    "id-h1-0",
    None,
    "h1",
    "localhost",
    encode_subscription(Subscription("process", "h1", 0, 1.0, 1, ())),
    encode_assignment(
        Assignment(active=frozenset({TaskId(0, 0)}), leader="id-h1-0", generation=3, reason="join")
    ),
)


@attrs.define
class Coordinator:
    """Answers with one description after the other, the last one for ever."""

    descriptions: list[GroupDescription]
    committed: dict[TopicPartition, Committed] = attrs.field(factory=dict)
    error: int = 0
    clock: ManualClock = attrs.field(factory=ManualClock)

    def describe_group(self, group: str, timeout_ms: int) -> Future[GroupDescription]:
        self.clock.advance(1_000)
        more = len(self.descriptions) > 1
        return done(self.descriptions.pop(0) if more else self.descriptions[0])

    def ask(self, request: Request, timeout_ms: int) -> Future[Answer]:
        assert isinstance(request, OffsetFetch)
        assert not request.require_stable
        found = {tp: self.committed.get(tp, Committed(-1, "")) for tp in request.partitions}
        return done(OffsetFetchAnswer(self.error, found))


def described(state: str, *members: MemberDescription, error: int = 0) -> GroupDescription:
    return GroupDescription("flights", state, "stream", "streamlet", members, error)


def look(coordinator: Coordinator, log: MemoryLog | None = None, check: bool = False) -> StatusLook:
    admin = MemoryAdmin(log or MemoryLog())
    seen = window(coordinator, admin, "flights", clock=coordinator.clock, poll_s=0)
    return StatusLook(seen, check)


def with_admin(look: StatusLook, admin: MemoryAdmin) -> StatusLook:
    """The same over another admin client."""
    return attrs.evolve(look, window=attrs.evolve(look.window, open_admin=lambda: admin))


def text_of(document: dict[str, Any], checked: bool = False) -> str:
    out = io.StringIO()
    Console(file=out, width=200).print(view(document, checked))
    return out.getvalue()


def test_lag_is_counted_for_committed_partitions_only() -> None:
    log = MemoryLog()
    log.create("flights", 2)
    log.create("other", 1)
    for _ in range(5):
        log.append(TopicPartition("flights", 0), [b"k"], [b"v"])
    committed = {
        TopicPartition("flights", 0): Committed(2, ""),
        TopicPartition("other", 0): Committed(7, ""),
    }
    coordinator = Coordinator([described("Stable", MEMBER)], committed)
    lag = look(coordinator, log).now()["input_lag"]
    assert lag == {"flights": {"0": 3}, "other": {"0": 0}}


def test_kafkas_own_topics_are_not_asked_for() -> None:
    class Admin(MemoryAdmin):
        def topics(self) -> dict[str, TopicInfo]:
            return {"__consumer_offsets": TopicInfo("__consumer_offsets", 50, internal=True)}

    coordinator = Coordinator([described("Empty")])
    found = with_admin(look(coordinator), Admin(MemoryLog())).now()
    assert found["input_lag"] == {}


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (described("Dead"), "there is no application 'flights'"),
        (described("Stable", attrs.evolve(MEMBER, metadata=b"other")), "a group of other clients"),
    ],
)
def test_what_is_no_application_is_not_found(description: GroupDescription, message: str) -> None:
    with pytest.raises(NotFoundError, match=message) as caught:
        look(Coordinator([description])).now()
    assert caught.value.exit_code == 3


def test_applications_that_are_called_alike_are_named() -> None:
    log = MemoryLog()
    for name in ("flight-streamlet-control", "flights", "trains-streamlet-control"):
        log.create(name, 1)
    unknown = Coordinator([described("Dead")])
    with pytest.raises(NotFoundError, match=r"'flights' on this cluster, did you mean flight\?$"):
        look(unknown, log).now()


def test_refusals_of_the_broker_are_named() -> None:
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        look(Coordinator([described("", error=30)])).now()
    log = MemoryLog()
    log.create("flights", 1)
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        look(Coordinator([described("Stable", MEMBER)], error=30), log).now()


def test_a_group_that_rebalances_is_waited_for() -> None:
    silent = attrs.evolve(MEMBER, metadata=b"", assignment=b"")
    moving = described("PreparingRebalance", silent)
    found = look(Coordinator([moving, described("Stable", MEMBER)])).now()
    assert found["group"]["state"] == "Stable"


def test_one_that_goes_on_rebalancing_is_shown_as_it_is_but_cannot_be_checked() -> None:
    silent = attrs.evolve(MEMBER, metadata=b"", assignment=b"")
    moving = Coordinator([described("CompletingRebalance", silent)])
    assert look(moving).now()["group"]["state"] == "CompletingRebalance"
    with pytest.raises(TimedOutError, match="still in CompletingRebalance") as caught:
        look(moving, check=True).now()
    assert caught.value.exit_code == 4


def test_people_see_members_lag_and_what_is_wrong() -> None:
    log = MemoryLog()
    log.create("flights", 20)
    for partition in range(20):
        log.append(TopicPartition("flights", partition), [b"k"], [b"v"])
    committed = {TopicPartition("flights", p): Committed(0, "") for p in range(20)}
    found = look(Coordinator([described("Stable", MEMBER)], committed), log).now()
    text = text_of(found)
    assert "flights  Stable, incremental, generation 3, led by h1-0, last rebalance: join" in text
    assert "h1-0" in text
    assert "0_0" in text
    assert "0:1 1:1" in text
    assert "11:1 …" in text
    assert "all checks hold" in text_of(found, checked=True)
    broken = {"rule": "U1", "tasks": ["0_1"], "members": [], "text": "nobody runs it"}
    assert "violated U1: nobody runs it (0_1)" in text_of({**found, "violations": [broken]}, True)


def test_people_see_tasks_without_a_member_and_until_when_they_wait() -> None:
    told = Assignment(
        active=frozenset({TaskId(0, 0)}),
        leader="id-h1-0",
        generation=3,
        unassigned=frozenset({TaskId(0, 1), TaskId(0, 2)}),
        deferral_deadline_ms=1_700_000_000_000,
    )
    waiting = attrs.evolve(MEMBER, assignment=encode_assignment(told))
    found = look(Coordinator([described("Stable", waiting)]), check=True).now()
    text = text_of(found, checked=True)
    assert "unassigned: 0_1 0_2 wait for a member until 2023-11-14 22:13:20 UTC" in text
    assert "all checks hold" in text
    alone = attrs.evolve(told, deferral_deadline_ms=None)
    lost = attrs.evolve(MEMBER, assignment=encode_assignment(alone))
    found = look(Coordinator([described("Stable", lost)]), check=True).now()
    text = text_of(found, checked=True)
    assert "unassigned: 0_1 0_2\n" in text
    assert "violated U1: 0_1 is given to no member (0_1)" in text


def test_violations_have_the_names_of_members_for_people() -> None:
    found = look(Coordinator([described("Stable", MEMBER)])).now()
    wrong = {"rule": "U1", "tasks": ["0_1"], "members": ["id-h1-0"], "text": "id-h1-0 cannot"}
    text = text_of({**found, "violations": [wrong]}, True)
    assert "violated U1: h1-0 cannot (0_1 h1-0)" in text


def test_people_see_that_nobody_runs() -> None:
    text = text_of(look(Coordinator([described("Empty")])).now())
    assert "flights  Empty" in text
    assert "no instance is running" in text


@pytest.mark.parametrize(("check", "code"), [(True, 3), (False, 0)])
def test_a_check_fails_where_no_instance_runs(check: bool, code: int) -> None:
    """The healthcheck of an image passed for an instance that its group had lost."""
    stopped = look(Coordinator([described("Empty")]), check=check)
    common = Common(None, {}, CommandOutput(True, io.StringIO(), io.StringIO()))
    assert look_once(common, stopped, window_s=0) == code
    assert look_on(common, look(Interrupting([described("Empty")]), check=check)) == code
    text = text_of(stopped.now(), checked=check)
    assert "all checks hold" not in text
    assert ("nothing could be checked" in text) == check


def test_people_see_hand_overs() -> None:
    learner = attrs.evolve(
        MEMBER, assignment=encode_assignment(Assignment(learner=frozenset({TaskId(0, 1)})))
    )
    text = text_of(look(Coordinator([described("Stable", learner)])).now())
    assert "HAND-OVER  FROM  TO    STAGE     RESTORED  END  RATE  ETA" in text
    assert "learning" in text
    [handover] = (look(Coordinator([described("Stable", learner)])).now())["handovers"]
    far = {**handover, "restored": 1_200, "end": 3_400, "rate": 100.0, "eta_s": 22.0}
    document = {**look(Coordinator([described("Stable", MEMBER)])).now(), "handovers": [far]}
    assert "1,200     3,400  100/s  22 s" in text_of(document)


@attrs.define
class Interrupting(Coordinator):
    """Fails at first, then answers, and gets Ctrl-C when it is asked for the last time."""

    asked: int = 0

    def describe_group(self, group: str, timeout_ms: int) -> Future[GroupDescription]:
        self.asked += 1
        if self.asked == 1:
            raise BrokerError("the broker restarts")
        if self.asked == 3:
            signal.raise_signal(signal.SIGINT)
        return super().describe_group(group, timeout_ms)


def test_watching_prints_a_document_a_line_and_outlives_a_broker_that_restarts() -> None:
    out, err = io.StringIO(), io.StringIO()
    common = Common(None, {}, CommandOutput(True, out, err))
    assert look_on(common, look(Interrupting([described("Stable", MEMBER)]))) == 0
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["group"]["state"] for line in lines] == ["Stable", "Stable"]
    assert "the broker restarts" in err.getvalue()


def test_watching_waits_for_an_application_that_is_not_there_yet() -> None:
    @attrs.define
    class Late(Coordinator):
        asked: int = 0

        def describe_group(self, group: str, timeout_ms: int) -> Future[GroupDescription]:
            self.asked += 1
            if self.asked == 4:
                signal.raise_signal(signal.SIGINT)
            return super().describe_group(group, timeout_ms)

    out, err = io.StringIO(), io.StringIO()
    common = Common(None, {}, CommandOutput(True, out, err))
    late = Late([described("Dead"), described("Dead"), described("Stable", MEMBER)])
    assert look_on(common, look(late)) == 0
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["group"]["state"] for line in lines] == ["Stable", "Stable"]
    assert err.getvalue().count("there is no application 'flights' on this cluster; waiting") == 1


def test_watching_does_not_wait_for_what_is_no_application() -> None:
    foreign = described("Stable", attrs.evolve(MEMBER, metadata=b"other"))
    common = Common(None, {}, CommandOutput(True, io.StringIO(), io.StringIO()))
    with pytest.raises(NotFoundError, match="a group of other clients"):
        look_on(common, look(Coordinator([foreign])), every_s=0)


@attrs.define
class Growing(Coordinator):
    """Each time it is asked for positions, 100 more records are committed and 300 have come."""

    log: MemoryLog = attrs.field(factory=MemoryLog)

    def ask(self, request: Request, timeout_ms: int) -> Future[Answer]:
        tp = TopicPartition("flights", 0)
        self.log.append(tp, [b"k"] * 300, [b"v"] * 300)
        before = self.committed.get(tp, Committed(0, "")).offset
        self.committed[tp] = Committed(before + 100, "")
        return super().ask(request, timeout_ms)


def test_advice_is_made_of_two_looks_and_shown_with_its_reasons() -> None:
    growing = Growing([described("Stable", MEMBER)])
    growing.log.create("flights", 1)
    growing.log.append(TopicPartition("flights", 0), [b"k"] * 5_000, [b"v"] * 5_000)
    out, err = io.StringIO(), io.StringIO()
    advised = attrs.evolve(look(growing, growing.log), history=deque())
    assert look_once(Common(None, {}, CommandOutput(True, out, err)), advised, window_s=0) == 0
    document = json.loads(out.getvalue())
    found = document["advice"]
    assert (found["current"], found["tasks"], found["most"]) == (1, 1, 1)
    assert found["arriving_per_s"] == 3 * found["processed_per_s"] > 0
    assert found["lag"] == 5_400
    text = text_of(document)
    assert "advice: 1 instance as now" in text
    assert "with more than 1 some would have nothing to run" in text
    plain = look(growing, growing.log).now()
    assert "advice" not in plain


def test_what_members_say_for_a_moment_is_no_violation() -> None:
    """One says later than the other that a task has moved."""
    two = tuple(
        MemberDescription(
            f"id-{name}-0",
            None,
            name,
            "localhost",
            encode_subscription(Subscription(f"process-{name}", name, 0, 1.0, 1, ())),
            encode_assignment(
                Assignment(
                    active=frozenset({TaskId(0, number)}),
                    leader="id-h1-0",
                    generation=3,
                )
            ),
        )
        for number, name in enumerate(("h1", "h2"))
    )
    runs = TaskProgress("0_1", "active", "running", generation=3)
    words = [
        MemberProgress(f"process-{n}", 0, f"{n}-0", f"id-{n}-0", 1, "RUNNING", 3, tasks=(runs,))
        for n in ("h1", "h2")
    ]
    both = ControlView(progress={one.key: one for one in words})
    one = ControlView(progress={words[1].key: words[1]})
    checking = attrs.evolve(
        look(Coordinator([described("Stable", *two)]), check=True), confirm_s=0.0
    )
    told = iter([both, one])
    assert attrs.evolve(checking, control=lambda: next(told)).now()["violations"] == []
    found = attrs.evolve(checking, control=lambda: both).now()["violations"]
    assert [violation["rule"] for violation in found] == ["U1"]
