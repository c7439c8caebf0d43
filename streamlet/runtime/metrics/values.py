"""A worker's report of itself, once a second: plain values that fit a line of JSON."""

from __future__ import annotations

from typing import Any, NamedTuple

import attrs


class Sample(NamedTuple):
    """One value of a metric. ``labels`` are its own, in the order of the table.

    The value of a histogram is a list: how many fell into each bucket, one more for those above all
    bounds, and the sum.
    """

    metric: str
    labels: tuple[str, ...]
    value: float | list[float]


@attrs.frozen
class MemberHealth:
    """A member's health, as seen from inside.

    Args:
        state: of the worker, with Kafka Streams' names.
        generation: of the membership, -1 for none.
        heartbeat_age_ms: since the last heartbeat that was answered was sent.
        linked: whether the group coordinator can be reached.
        waiting: active tasks that do not run yet.
    """

    state: str = "CREATED"
    generation: int = -1
    heartbeat_age_ms: int = 0
    linked: bool = True
    waiting: tuple[str, ...] = ()


@attrs.frozen
class Snapshot:
    """A member at one moment."""

    samples: tuple[Sample, ...] = ()
    health: MemberHealth = attrs.field(factory=MemberHealth)

    def to_event(self) -> dict[str, Any]:
        """The event with this sample for the supervisor."""
        return {
            "event": "measured",
            "samples": [list(sample) for sample in self.samples],
            "health": attrs.asdict(self.health),
        }

    @classmethod
    def from_event(cls, event: dict[str, Any]) -> Snapshot:
        """Read what ``to_event`` made, once it went through JSON."""
        health = dict(event["health"])
        health["waiting"] = tuple(health["waiting"])
        samples = ((name, tuple(labels), value) for name, labels, value in event["samples"])
        return cls(tuple(Sample(*sample) for sample in samples), MemberHealth(**health))
