"""Compares the settings of members by which a leader plans. Pure.

A leader plans with its own. Where members differ, plans change when the lead does, and no member
sees why. The band is not among these settings: it travels with the subscriptions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from streamlet.config import Settings
from streamlet.config.sources import printed
from streamlet.control.values import MemberKey
from streamlet.control.view import ControlView
from streamlet.errors import ConfigError

PLANNING = (
    "num.standby.replicas",
    "rack.aware.assignment.tags",
    "learner.handover",
    "learner.partial.rebalance",
    "acceptable.recovery.lag",
    "max.learners.per.member",
    "max.learners.per.source",
    "max.learners.per.group",
    "max.moves.per.rebalance",
    "rebalance.move.interval.ms",
    "scheduled.rebalance.max.delay.ms",
    "initial.assignment.delay.ms",
)


def planning_settings(settings: Settings) -> tuple[tuple[str, str], ...]:
    """The planning settings that are not the default, in order."""
    default = Settings()
    return tuple((key, printed(settings[key])) for key in PLANNING if settings[key] != default[key])


def settings_of(view: ControlView, leader: MemberKey) -> Settings | None:
    """The settings that a leader plans by, as it reported them; None where it did not.

    Those of a later version that this one does not know count as not reported.
    """
    report = view.progress.get(leader)
    if report is None or report.plans_by is None:
        return None
    try:
        return Settings.load(dict(report.plans_by))
    except ConfigError:
        return None


def disagreement(view: ControlView, us: MemberKey, members: Iterable[MemberKey]) -> str:
    """The settings that differ between members; empty if none, or before our first report.

    Members of a version that does not say what it plans by are left out.
    """
    mine = view.progress.get(us)
    if mine is None or mine.plans_by is None:
        return ""
    ours = dict(mine.plans_by)
    others: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for key in sorted(members):
        report = view.progress.get(key)
        if report is None or report.plans_by is None:
            continue
        theirs = dict(report.plans_by)
        for name in PLANNING:
            if theirs.get(name) != ours.get(name):
                others[name, theirs.get(name, "the default")].append(report.member)
    return "; ".join(
        f"{name} is {ours.get(name, 'the default')} here, {value} at {', '.join(members)}"
        for (name, value), members in others.items()
    )
