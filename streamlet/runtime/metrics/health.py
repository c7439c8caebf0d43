"""Liveness and readiness of an instance: pure functions of its members' last reports.

Alive: restarting it would not help. Every loop goes round (a user function may take
``max.poll.interval.ms``, then the member leaves the group anyway) and, as long as the group
coordinator can be reached, heartbeats are answered. A broker that is away makes no instance
unhealthy: a restart would not bring it back. Nor is a member unhealthy before its loop begins, so a
start waits for a broker for as long as it takes. A member whose process ended is being started
again by the supervisor; when that gives up, the instance ends.

Ready: every member is in the group and every active task it was given runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from streamlet.config import Settings
from streamlet.runtime.metrics.values import MemberHealth

#: A member that reported nothing yet, and one whose process ended.
STARTING = MemberHealth(state="STARTING")
RESTARTING = MemberHealth(state="RESTARTING")
#: States of members that have no loop yet, or none any more: what they wait for (a broker, the
#: copies of global tables, their successor's start), a restart of the instance would not bring.
_WITHOUT_LOOP = frozenset({STARTING.state, RESTARTING.state, "CREATED", "NOT_RUNNING", "ERROR"})


@attrs.frozen
class HealthLimits:
    """The ages beyond which an instance is unhealthy, ms."""

    loop_ms: int
    heartbeat_ms: int

    @classmethod
    def from_settings(cls, settings: Settings) -> HealthLimits:
        """Take the settings of an application."""
        return cls(settings.max_poll_interval_ms, settings.session_timeout_ms)


@attrs.frozen
class MemberReport:
    """The last report of a member, and its age."""

    health: MemberHealth
    age_ms: int


def alive(members: Mapping[str, MemberReport], limits: HealthLimits) -> dict[str, Any]:
    """The document of the liveness probe; ``ok`` says whether it passes."""
    return _document(members, lambda known: _dead(known, limits))


def ready(members: Mapping[str, MemberReport], limits: HealthLimits) -> dict[str, Any]:
    """The document of the readiness probe; ``ok`` says whether it passes."""
    return _document(members, lambda known: _unready(known, limits))


def _document(members: Mapping[str, MemberReport], judge: Any) -> dict[str, Any]:
    judged = {name: (known, judge(known)) for name, known in sorted(members.items())}
    return {
        "ok": not any(problems for _, problems in judged.values()),
        "members": {
            name: {
                "state": known.health.state,
                "loop_age_s": known.age_ms / 1000,
                "heartbeat_age_s": known.health.heartbeat_age_ms / 1000,
                "problems": problems,
            }
            for name, (known, problems) in judged.items()
        },
    }


def _dead(known: MemberReport, limits: HealthLimits) -> list[str]:
    health, problems = known.health, []
    if health.state in _WITHOUT_LOOP:
        return []
    if known.age_ms > limits.loop_ms:
        problems.append(f"the loop has not gone round for {known.age_ms / 1000:.0f} s")
    silent = health.heartbeat_age_ms > limits.heartbeat_ms and health.linked
    if silent and health.state in ("RUNNING", "REBALANCING"):
        problems.append(f"no heartbeat for {health.heartbeat_age_ms / 1000:.0f} s")
    return problems


def _unready(known: MemberReport, limits: HealthLimits) -> list[str]:
    health, problems = known.health, []
    if health.state != "RUNNING":
        problems.append(f"state {health.state}")
    if health.generation < 0:
        problems.append("not in the group")
    elif health.heartbeat_age_ms > limits.heartbeat_ms:
        problems.append(f"no heartbeat for {health.heartbeat_age_ms / 1000:.0f} s")
    if health.waiting:
        problems.append(f"on their way up: {' '.join(health.waiting)}")
    if known.age_ms > limits.loop_ms:
        problems.append(f"the loop has not gone round for {known.age_ms / 1000:.0f} s")
    return problems
