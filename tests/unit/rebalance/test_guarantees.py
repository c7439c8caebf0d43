"""Members of both guarantees run side by side where all of it is exact; else some are refused."""

from __future__ import annotations

import attrs
import pytest

from streamlet.errors import RefusedError
from streamlet.rebalance import wire
from streamlet.rebalance.values import AssignmentError, Subscription
from tests.unit.rebalance.test_protocol import ACTIVE, T00, T01, Bench


@pytest.mark.parametrize("exactly_once", [True, False])
def test_members_of_another_guarantee_may_join_where_all_say_that_they_may(
    exactly_once: bool,
) -> None:
    runs = Bench(exactly_once=exactly_once, may_mix=True)
    joins = Bench(exactly_once=not exactly_once, may_mix=True)
    answers = runs.plan(a=runs.say({T00: ACTIVE}), b=joins.say())
    assert [answers[name].error for name in "ab"] == [AssignmentError.NONE] * 2


@pytest.mark.parametrize("leader", ["a", "b"])
@pytest.mark.parametrize("exactly_once", [True, False])
def test_elsewhere_who_joins_is_refused_and_who_runs_goes_on(
    exactly_once: bool, leader: str
) -> None:
    """Also if it leads, or says that it may."""
    runs = Bench(exactly_once=exactly_once, started_ms=5)
    joins = Bench(exactly_once=not exactly_once, may_mix=True, started_ms=3)
    leads = runs if leader == "a" else joins
    answers = leads.plan(leader=leader, a=runs.say({T00: ACTIVE}), b=joins.say())
    assert (answers["a"].error, answers["a"].active) == (AssignmentError.NONE, {T00})
    assert answers["b"].error == AssignmentError.MOVED
    own, theirs = (
        ("at_least_once", "exactly_once") if exactly_once else ("exactly_once", "at_least_once")
    )
    said = rf"processing\.guarantee={own}: host-0 runs under {theirs}.*This instance does not join"
    with pytest.raises(RefusedError, match=said):
        joins.protocol.decode(wire.encode_assignment(answers["b"]))


def test_of_several_that_run_tasks_who_began_first_goes_on_and_of_none_the_last() -> None:
    first = Bench(exactly_once=False, started_ms=1)
    second = Bench(exactly_once=True, started_ms=2)
    running = first.plan(a=first.say({T00: ACTIVE}), b=second.say({T01: ACTIVE}))
    assert [running[name].error for name in "ab"] == [AssignmentError.NONE, AssignmentError.MOVED]
    starting = first.plan(a=first.say(), b=second.say())
    assert [starting[name].error for name in "ab"] == [AssignmentError.MOVED, AssignmentError.NONE]


def test_a_leader_that_knows_no_guarantees_is_not_followed() -> None:
    old = Bench(latest=wire.GUARANTEE_VERSION - 1)
    for exactly_once in (False, True):
        joins = Bench(exactly_once=exactly_once, may_mix=True)
        joins.protocol._version = wire.GUARANTEE_VERSION - 1
        (answer,) = old.plan(a=joins.say()).values()
        data = wire.encode_assignment(
            answer, wire.GUARANTEE_VERSION - 1, wire.GUARANTEE_VERSION - 1
        )
        if exactly_once:
            with pytest.raises(RefusedError, match="Upgrade all instances first"):
                joins.protocol.decode(data)
        else:
            assert joins.protocol.decode(data) == answer


def test_it_travels_with_the_subscription_and_a_restart_under_the_other_takes_nothing_over() -> (
    None
):
    said = Subscription("process", "host", exactly_once=True, may_mix=True)
    assert wire.decode_subscription(wire.encode_subscription(said)) == said
    older = wire.decode_subscription(wire.encode_subscription(said, version=9))
    assert (older.exactly_once, older.may_mix) == (False, False)
    other = attrs.evolve(said, exactly_once=False)
    assert not wire.same_program(wire.identity_of(said), wire.identity_of(other))
