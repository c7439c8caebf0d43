"""The leader allows a form of records or commits once every member can read it."""

from __future__ import annotations

import pytest

from streamlet.rebalance import wire
from streamlet.rebalance.values import AssignmentError
from tests.unit.rebalance.test_protocol import Bench

BEFORE = wire.PREFIX_VERSION - 1


@pytest.mark.parametrize(
    ("versions", "allowed"),
    [
        ((wire.VERSION, wire.VERSION), True),
        ((wire.VERSION, BEFORE), False),
        ((wire.VERSION,), True),
    ],
)
def test_prefixes_are_allowed_if_all_members_can_read_them(
    versions: tuple[int, ...], allowed: bool
) -> None:
    members = [Bench(latest=latest) for latest in versions]
    said = {name: one.say() for name, one in zip("ab", members, strict=False)}
    answers = members[0].plan(**said)
    assert [answer.prefixes for answer in answers.values()] == [allowed] * len(members)


@pytest.mark.parametrize(
    ("versions", "allowed"),
    [
        ((wire.VERSION, wire.VERSION), True),
        ((wire.VERSION, wire.COMPACT_VERSION - 1), False),
    ],
)
def test_compact_commits_are_allowed_if_all_members_can_read_them(
    versions: tuple[int, ...], allowed: bool
) -> None:
    members = [Bench(latest=latest) for latest in versions]
    said = {name: one.say() for name, one in zip("ab", members, strict=True)}
    answers = members[0].plan(**said)
    assert answers["a"].compact == allowed
    assert not answers["b"].compact or allowed, "an older version knows no such field"
    assert answers["a"].prefixes


def test_a_leader_of_an_earlier_version_allows_none() -> None:
    leader = Bench(latest=BEFORE)
    answers = leader.plan(a=leader.say(), b=Bench(latest=BEFORE).say())
    assert not any(answer.prefixes for answer in answers.values())


def test_a_member_that_cannot_be_read_allows_none() -> None:
    answers = Bench().plan(a=Bench().say(), b=b"\x00")
    assert answers["b"].error == AssignmentError.UNREADABLE
    assert not answers["a"].prefixes


def agreeing() -> Bench:
    """A member that is told that all can read what waits for a commit."""
    found = Bench(waits=True)
    found.protocol.decode(wire.encode_assignment(found.plan(a=found.say())["a"], wire.VERSION))
    return found


def test_a_member_that_cannot_be_read_makes_nothing_plain_that_waits() -> None:
    """It gets no task."""
    leader = agreeing()
    answers = leader.plan(a=leader.say(), b=b"\x00")
    assert answers["b"].error == AssignmentError.UNREADABLE
    assert (answers["a"].prefixes, answers["a"].held) == (True, True)


def test_without_a_plan_it_stays_what_all_can_read() -> None:
    found = agreeing().protocol.decode(b"")
    assert (found.prefixes, found.compact, found.held, found.active) == (True, True, True, {*()})
