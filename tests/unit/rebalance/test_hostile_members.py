"""Members that say what cannot be: bytes that unpack to too much, forged numbers and tasks."""

from __future__ import annotations

import io
import math
import struct
import zlib
from typing import Any

import attrs
import fastavro
import pytest

from streamlet.admin import snapshot
from streamlet.assignor.assign import assign
from streamlet.assignor.values import Copy, GroupState, Plan, Role, Rules, TaskInfo
from streamlet.coordinator.messages import GroupDescription, MemberDescription
from streamlet.rebalance import leader, wire
from streamlet.rebalance import wire_schemas as schemas
from streamlet.rebalance.values import (
    Assignment,
    AssignmentError,
    JoinedMember,
    RunAssignor,
    Subscription,
    TypeMigration,
)
from streamlet.types import TaskId

HASHES = (b"12345678",)
TASKS = tuple(TaskInfo(TaskId(0, number), stateful=True) for number in range(4))
HONEST = Subscription("p1", "one", 0, 1.0, 1, HASHES, {TaskId(0, 0): Copy(Role.ACTIVE, 1)})
ROGUE = Subscription("p2", "two", 0, 1.0, 1, HASHES)
MANY = 300_000


def packed(schema: Any, record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, record)
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    return struct.pack(">ii", 7, 7) + squeeze.compress(out.getvalue()) + squeeze.flush()


def copies(*tasks: int, lags: tuple[int, ...] = ()) -> dict[str, Any]:
    return {"role": 3, "generation": 0, "ready": False, "tasks": list(tasks), "lags": list(lags)}


@pytest.mark.parametrize(
    "fields",
    [
        {"copies": [copies(1, 0, *[1] * MANY)]},
        {"copies": [copies(1, 0, *[1] * 60_000), copies(1, 70_000, *[1] * 60_000)]},
        {"copies": [copies(1, 0, 0, 0)]},
        {"copies": [copies(1, 3_000_000)]},
        {"copies": [copies(2**40, 5)]},
        {"copies": [copies(0, 5)]},
        {"copies": [copies()] * MANY},
        {"belongings": [b""] * 2 * MANY},
        {"copies": [copies(1, *[2**62] * 3)]},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_subscription_with_more_than_there_can_be_is_refused(fields: dict[str, Any]) -> None:
    record = {**wire._subscription_record(ROGUE, 7), **fields}
    with pytest.raises(wire.WireError):
        wire.decode_subscription(packed(schemas.SUBSCRIPTIONS[7], record))


@pytest.mark.parametrize("name", ["active", "unassigned"])
def test_an_assignment_with_more_tasks_than_there_can_be_is_refused(name: str) -> None:
    record = {**wire._assignment_record(Assignment(), 7), name: [1, 0, *[1] * MANY]}
    with pytest.raises(wire.WireError, match="more than"):
        wire.decode_assignment(packed(schemas.ASSIGNMENTS[7], record))


def test_an_order_about_a_task_that_cannot_be_is_refused() -> None:
    order = {"subtopology": 0, "partition": 2**31 - 1, "member": b"\0m"}
    record = {**wire._assignment_record(Assignment(), 7), "pending": [order]}
    with pytest.raises(wire.WireError):
        wire.decode_assignment(packed(schemas.ASSIGNMENTS[7], record))


def test_a_hundred_thousand_tasks_fit() -> None:
    every = frozenset(TaskId(0, number) for number in range(100_000))
    assert wire.decode_assignment(wire.encode_assignment(Assignment(unassigned=every))) == (
        Assignment(unassigned=every)
    )


FORGED = (
    {"capacity": math.nan},
    {"capacity": math.inf},
    {"capacity": 0.0},
    {"capacity": -1.0},
    {"capacity": 5e-324},
    {"imbalance": math.nan, "started_ms": 2**62},
    {"imbalance": math.inf, "started_ms": 2**62},
    {"imbalance": -0.5, "started_ms": 2**62},
    {"name": "x" * 250},
)


def planned(*said: Subscription, assignor: leader.Assignor = assign) -> dict[str, Assignment]:
    members = tuple(
        JoinedMember(f"m{number}", None, wire.encode_subscription(one))
        for number, one in enumerate(said)
    )
    view = leader.LeaderView(TASKS, HASHES, Rules(), 1_000)
    answers = leader.plan(RunAssignor(2, members, member_id="m0"), view, assignor)
    return {member: wire.decode_assignment(data) for member, data in answers.items()}


@pytest.mark.parametrize("forged", FORGED, ids=str)
def test_a_member_with_a_forged_number_gains_nothing_by_name(
    forged: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    rogue = attrs.evolve(ROGUE, **forged)
    with pytest.raises(wire.WireError):
        wire.decode_subscription(wire.encode_subscription(rogue))
    told = planned(HONEST, rogue)
    assert told["m0"].active == {TaskId(0, 0)}
    assert (told["m1"].error, told["m1"].active) == (AssignmentError.UNREADABLE, frozenset())
    assert "'m1'" in caplog.text


def test_a_forged_migration_that_never_ends_holds_no_task() -> None:
    rogue = attrs.evolve(ROGUE, migration=TypeMigration("stream", 2**31 - 1, 2**62))
    told = planned(HONEST, rogue)
    assert told["m0"].migration is told["m1"].migration is None
    active = [task for one in told.values() for task in (*one.active, *one.learner)]
    assert {*active} == {task.task for task in TASKS}


def test_a_long_reason_is_read_as_far_as_people_do() -> None:
    talks = attrs.evolve(ROGUE, reason="x" * 2_000)
    assert wire.decode_subscription(wire.encode_subscription(talks)).reason == "x" * 1_000


def test_a_member_that_no_plan_can_be_made_with_gains_nothing_by_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def failing(group: GroupState) -> Plan:
        if any(member.tags for member in group.members):
            raise ZeroDivisionError("a share of nothing")
        return assign(group)

    told = planned(HONEST, attrs.evolve(ROGUE, tags={"x": "y"}), assignor=failing)
    assert told["m0"].active == {TaskId(0, 0)}
    assert told["m1"].error == AssignmentError.UNREADABLE
    assert "generation 2 has no plan" in caplog.text
    assert "'m1'" in caplog.text


def test_an_assignor_that_always_fails_is_no_fault_of_a_member() -> None:
    def broken(group: GroupState) -> Plan:
        raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        planned(HONEST, ROGUE, assignor=broken)


def test_a_claim_on_a_task_that_is_none_is_not_counted() -> None:
    rogue = attrs.evolve(ROGUE, copies={TaskId(0, 150_000): Copy(Role.DORMANT)})
    answers = planned(HONEST, rogue)
    described = tuple(
        MemberDescription(
            f"m{number}",
            None,
            "c",
            "h",
            wire.encode_subscription(said),
            wire.encode_assignment(answers[f"m{number}"]),
        )
        for number, said in enumerate((HONEST, rogue))
    )
    group = snapshot.read(GroupDescription("g", "Stable", "stream", "p", described, 0))
    assert snapshot.tasks(group) == TASKS
