"""Whoever leads plans by its own settings: others that differ are named."""

from __future__ import annotations

from streamlet.config import Settings
from streamlet.control.agreement import PLANNING, disagreement, planning_settings, settings_of
from streamlet.control.records import decode, encode_key, encode_value, place_of
from streamlet.control.values import MemberKey, MemberProgress
from streamlet.control.view import ControlView

A, B, C, OLD = (MemberKey(name, 0) for name in ("a", "b", "c", "old"))
STANDBY = (("num.standby.replicas", "1"),)


def view(**plans_by: tuple[tuple[str, str], ...] | None) -> ControlView:
    said = [
        MemberProgress(name, 0, f"{name}-0", "", 0, plans_by=what)
        for name, what in plans_by.items()
    ]
    return ControlView(progress={one.key: one for one in said})


def test_what_is_not_the_default_is_said() -> None:
    assert planning_settings(Settings()) == ()
    given = {"num.standby.replicas": 1, "learner.partial.rebalance": False, "commit.interval.ms": 7}
    assert planning_settings(Settings.load(given)) == (
        ("num.standby.replicas", "1"),
        ("learner.partial.rebalance", "false"),
    )
    assert set(PLANNING) <= {name.replace("_", ".") for name in Settings.__slots__}


def test_members_that_differ_are_named_with_what_they_have() -> None:
    everybody = [A, B, C, OLD]
    assert disagreement(view(a=(), b=(), c=()), A, everybody) == ""
    found = disagreement(view(a=(), b=STANDBY, c=STANDBY, old=None), A, everybody)
    assert found == "num.standby.replicas is the default here, 1 at b-0, c-0"
    found = disagreement(view(a=STANDBY, b=(), c=STANDBY), A, everybody)
    assert found == "num.standby.replicas is 1 here, the default at b-0"


def test_the_settings_that_a_leader_plans_by_can_be_read_back() -> None:
    given = Settings.load(
        {
            "num.standby.replicas": 2,
            "rack.aware.assignment.tags": ("zone", "rack"),
            "learner.partial.rebalance": False,
            "scheduled.rebalance.max.delay.ms": "5s",
        }
    )
    found = settings_of(view(a=planning_settings(given)), A)
    assert found is not None
    assert [found[key] for key in PLANNING] == [given[key] for key in PLANNING]
    assert settings_of(view(a=()), A) == Settings.load()
    assert settings_of(view(a=None), A) is None
    assert settings_of(view(), A) is None
    assert settings_of(view(a=(("a.setting.to.come", "1"),)), A) is None


def test_who_is_not_in_the_group_or_says_nothing_counts_for_nothing() -> None:
    assert disagreement(view(a=(), b=STANDBY), A, [A]) == ""
    assert disagreement(view(a=None, b=STANDBY), A, [A, B]) == ""
    assert disagreement(view(b=STANDBY), A, [A, B]) == ""


def test_it_travels_in_the_control_topic() -> None:
    (said,) = view(b=STANDBY).progress.values()
    change = decode(encode_key(place_of(said)), encode_value(said))
    assert change is not None
    assert change.entry == said
