"""Advises how many instances an application needs, from how its lag moves; pure.

Two or more observations of committed and end offsets tell what arrives per second, what is
processed per second, and how the lag moves. While there is a lag, members work as fast as they can,
so what they process is what they are able to: needed is what arrives plus the lag, worked off in a
given time. Without a lag only how busy the members are tells whether fewer would do; where they do
not say that, nothing is taken away. No more instances are advised than have a task to run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from streamlet.types import TopicPartition

#: The time in which a lag is to be worked off, seconds.
_CATCH_UP_S = 300.0
#: The share of their time that members should work, so that there is room for a peak.
_BUSY = 0.7
#: A lag of so many seconds' arrivals is none: commits come once in a while.
_LAG_S = 5.0
#: A partition with this share of the lag holds the others up.
_HOT = 0.8


@attrs.frozen
class Observation:
    """Offsets at one moment, of every partition the application has committed."""

    at_ms: int
    committed: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]

    def lag(self) -> dict[TopicPartition, int]:
        """Records that are not processed, by partition."""
        known = self.committed.keys() & self.ends.keys()
        return {tp: max(0, self.ends[tp] - self.committed[tp]) for tp in sorted(known)}


@attrs.frozen
class InstanceSample:
    """One instance; those that are ``leaving`` are not counted on.

    ``busy`` is the share of the time that its members work, None: not known.
    """

    name: str
    capacity: float = 1.0
    members: int = 1
    busy: float | None = None
    leaving: bool = False


@attrs.frozen
class Advice:
    """The advised number of instances, and the reasons. Rates are in records per second."""

    instances: int
    current: int
    most: int
    tasks: int
    lag: int
    lag_per_s: float
    arriving_per_s: float
    processed_per_s: float
    window_s: float
    reasons: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The values as a dict that JSON can write."""
        return {**attrs.asdict(self), "reasons": list(self.reasons)}


@attrs.frozen
class _Rates:
    window_s: float
    arriving: float
    processed: float
    lag: int
    trend: float
    hot: tuple[TopicPartition, float] | None  # and its share of the lag


def advise(
    observations: Sequence[Observation], instances: Sequence[InstanceSample], tasks: int
) -> Advice:
    """Advice on the number of instances, from the first and the last of these observations.

    ``tasks`` is how many there are.
    """
    rates = _rates(observations)
    staying = [one for one in instances if not one.leaving]
    current = len(staying)
    most = _most(staying, tasks)
    wanted, reasons = _wanted(staying, rates)
    if wanted > most:
        reasons.append(f"{tasks} tasks: with more than {most} some would have nothing to run")
    if rates.hot is not None and wanted > current:
        partition, share = rates.hot
        reasons.append(
            f"{share:.0%} of the lag is in {partition}, "
            "which one member runs: others cannot help it"
        )
    return Advice(
        instances=max(1, min(wanted, most)),
        current=current,
        most=most,
        tasks=tasks,
        lag=rates.lag,
        lag_per_s=rates.trend,
        arriving_per_s=rates.arriving,
        processed_per_s=rates.processed,
        window_s=rates.window_s,
        reasons=tuple(reasons),
    )


def _most(staying: Sequence[InstanceSample], tasks: int) -> int:
    """Instances of the usual number of members whose members all have a task."""
    members = sum(one.members for one in staying) / len(staying) if staying else 1.0
    return max(1, math.ceil(tasks / max(members, 1.0)))


def _rates(observations: Sequence[Observation]) -> _Rates:
    if not observations:
        return _Rates(0.0, 0.0, 0.0, 0, 0.0, None)
    first, last = observations[0], observations[-1]
    lag = last.lag()
    total = sum(lag.values())
    worst = max(lag, key=lambda tp: (lag[tp], tp), default=None)
    hot = None
    if worst is not None and total and len(lag) > 1 and lag[worst] >= _HOT * total:
        hot = (worst, lag[worst] / total)
    window_s = (last.at_ms - first.at_ms) / 1000
    if window_s <= 0:
        return _Rates(0.0, 0.0, 0.0, total, 0.0, hot)
    # A partition that was committed for the first time meanwhile has no rate yet.
    both = first.lag().keys() & lag.keys()
    arrived = sum(last.ends[tp] - first.ends[tp] for tp in both)
    processed = sum(last.committed[tp] - first.committed[tp] for tp in both)
    return _Rates(
        window_s,
        max(0, arrived) / window_s,
        max(0, processed) / window_s,
        total,
        (arrived - processed) / window_s,
        hot,
    )


def _wanted(staying: Sequence[InstanceSample], rates: _Rates) -> tuple[int, list[str]]:
    """The number of instances, before the tasks' limit."""
    current = len(staying)
    if not staying:
        return 1, ["no instance runs that stays"]
    if rates.window_s <= 0:
        return current, ["one look shows no trend: look for longer"]
    busy = _busy(staying)
    if rates.lag <= max(1.0, rates.arriving * _LAG_S):
        return _without_lag(current, busy)
    reason = (
        f"lag {rates.lag:,} {'grows' if rates.trend > 0 else 'changes'} by {rates.trend:+,.0f}/s: "
        f"{rates.arriving:,.0f}/s arrive, {rates.processed:,.0f}/s are processed"
    )
    if not rates.processed:
        return current, [reason, "nothing is processed: more instances would not mend that"]
    able = rates.processed / busy if busy is not None and 0.1 < busy < 1 else rates.processed
    needed = rates.arriving + rates.lag / _CATCH_UP_S
    each = able / current
    wanted = max(current, math.ceil(round(needed / each, 6)))
    return wanted, [
        reason,
        f"{needed:,.0f}/s would work it off in {_CATCH_UP_S:,.0f} s, "
        f"and an instance is able to {each:,.0f}/s",
    ]


def _without_lag(current: int, busy: float | None) -> tuple[int, list[str]]:
    if busy is None:
        return current, ["no lag; how busy the members are is not known, so none is taken away"]
    wanted = max(1, math.ceil(round(current * busy / _BUSY, 6)))
    return wanted, [f"no lag; members work {busy:.0%} of the time, {_BUSY:.0%} is aimed at"]


def _busy(staying: Sequence[InstanceSample]) -> float | None:
    """Mean share of the time worked, by capacity; None unless all members report it."""
    reported = [(one.busy, one.capacity) for one in staying if one.busy is not None]
    if len(reported) < len(staying):
        return None
    total = sum(capacity for _, capacity in reported)
    return sum(busy * capacity for busy, capacity in reported) / total if total > 0 else None
