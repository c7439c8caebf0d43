"""Partitions that were added to an input and that no task reads, in status and its check."""

from __future__ import annotations

from collections import deque
from typing import Any

import attrs
import pytest

from streamlet.admin.status_look import StatusLook
from streamlet.control.values import MemberProgress
from streamlet.control.view import ControlView
from streamlet.coordinator.messages import Committed
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog
from streamlet.types import TopicPartition
from tests.unit.tools.test_status_command import (
    MEMBER,
    Coordinator,
    described,
    look,
    text_of,
    with_admin,
)

#: Written to each partition that was added.
WAITING = 200


def grown(inputs: dict[str, int] | None, *, state: str = "Stable") -> StatusLook:
    """An application that read two partitions of ``flights``, which has four by now.

    ``inputs`` are what its leader reports that it reads; None: it reports nothing of them.
    """
    log = MemoryLog()
    log.create("flights", 4)
    log.create("before", 4)  # an earlier version read its first partition
    for partition in range(4):
        tp = TopicPartition("flights", partition)
        log.append(tp, [b"k"] * WAITING, [b"v"] * WAITING)
    read = [("flights", 0), ("flights", 1), ("before", 0)]
    committed = {TopicPartition(*tp): Committed(WAITING, "") for tp in read}
    members = (MEMBER,) if state == "Stable" else ()
    said = None if inputs is None else tuple(inputs.items())
    word = MemberProgress("process", 0, "h1-0", "id-h1-0", 1, "RUNNING", 3, inputs=said)
    view = ControlView(progress={word.key: word}) if members else ControlView()
    found = look(Coordinator([described(state, *members)], committed), log, check=True)
    return attrs.evolve(found, control=lambda: view, confirm_s=0.0)


def unread(document: dict[str, Any]) -> list[Any]:
    """The lag of the input, the partitions not read, and the violations of T3."""
    found = [one for one in document["violations"] if one["rule"] == "T3"]
    return [document["input_lag"]["flights"], document["unread"], [one["text"] for one in found]]


def test_added_partitions_are_lag_and_violate_t3() -> None:
    document = grown({"flights": 2}).now()
    lag, parts, texts = unread(document)
    assert lag == {"0": 0, "1": 0, "2": WAITING, "3": WAITING}
    assert parts == {"flights": {"2": WAITING, "3": WAITING}}
    [text] = texts
    assert text.startswith("partitions 2 and 3 of flights are not read (400 records wait there)")
    shown = text_of(document, checked=True)
    assert "not read: flights 2 3 (400 records)" in shown
    assert "violated T3: partitions 2 and 3" in shown
    assert "all checks hold" not in shown


def test_nothing_is_unread_where_tasks_have_just_been_planned() -> None:
    """Their first commit is still to come."""
    assert unread(grown({"flights": 4}).now()) == [{"0": 0, "1": 0}, {}, []]


def test_without_an_instance_those_behind_the_last_commit_are_unread() -> None:
    """Instances that start are refused."""
    document = grown(None, state="Empty").now()
    assert document["unread"]["flights"] == {"2": WAITING, "3": WAITING}
    assert document["input_lag"]["flights"]["3"] == WAITING


def test_nothing_is_guessed_beside_a_leader_that_does_not_report_what_it_reads() -> None:
    """It has another version, or too many inputs."""
    document = grown(None).now()
    assert (document["unread"], document["violations"]) == ({}, [])


def test_records_that_the_broker_deleted_are_no_lag() -> None:
    found = grown({"flights": 2})
    found.window.admin.delete_records({TopicPartition("flights", 3): 150})
    assert found.now()["unread"] == {"flights": {"2": WAITING, "3": WAITING - 150}}


def test_advice_and_metrics_are_told_how_many_are_unread() -> None:
    found = attrs.evolve(grown({"flights": 2}), history=deque())
    assert found.now()["advice"]["unread"] == 2 * WAITING
    assert found.now()["advice"]["lag"] == 0, "more instances would not read them"


@pytest.mark.parametrize(("said", "lag"), [(True, 30), (False, WAITING), (None, WAITING)])
def test_lag_ends_where_the_members_read_to(said: bool | None, lag: int) -> None:
    """By an application's id alone a command does not know its settings."""
    found = grown({"flights": 2})
    log, tp = MemoryLog(), TopicPartition("flights", 3)
    log.create("flights", 4)
    for partition in range(4):
        log.append(tp._replace(partition=partition), [b"k"] * WAITING, [b"v"] * WAITING)
    held = {TopicPartition("flights", 0): 170, tp: 30}
    word = next(iter(found.control().progress.values()))
    older = attrs.evolve(word, number=1, at_ms=0, read_committed=not said)
    if said is None:
        older = attrs.evolve(older, read_committed=None)
    newest = attrs.evolve(word, read_committed=said)
    view = ControlView(progress={one.key: one for one in (newest, older)})
    committed = {TopicPartition("flights", partition): Committed(140, "") for partition in (0, 1)}
    assert isinstance(found.window.transport, Coordinator)
    found.window.transport.committed = committed
    found = attrs.evolve(with_admin(found, MemoryAdmin(log, held)), control=lambda: view)
    document = found.now()
    readable = 170 if said else WAITING
    assert document["input_lag"]["flights"] == {
        **{"0": readable - 140, "1": WAITING - 140, "2": WAITING},
        "3": lag,
    }
    assert document["unread"]["flights"]["3"] == lag
    assert found.observe().lag()[TopicPartition("flights", 0)] == readable - 140, "for advice"
