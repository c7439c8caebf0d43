"""Whether steps speak of instances that can be there at that point.

A drained instance leaves when it is done, so from then on it may be there or not.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from streamlet.testing.simulation import events as ev
from streamlet.testing.simulation.events import Event, Held, InstanceSpec, Step
from streamlet.testing.simulation.reading import Reader


class _Presence(enum.Enum):
    HERE = "in the group"
    PERHAPS = "leaving"
    GONE = "not in the group"


def check_presence(
    reader: Reader,
    steps: Iterable[Step],
    instances: Mapping[str, InstanceSpec],
    start: Mapping[str, Held],
) -> None:
    """Note joins of instances that are there, and whatever happens to those that are not."""
    there = {
        name: _Presence.HERE if spec.member_names[0] in start else _Presence.GONE
        for name, spec in instances.items()
    }
    for number, step in enumerate(steps):
        for event in step.events:
            _check(reader, f"steps[{number}]", event, there)


def _check(reader: Reader, where: str, event: Event, there: dict[str, _Presence]) -> None:
    match event:
        case ev.Join(names):
            for name in names:
                if there[name] is _Presence.HERE:
                    reader.problem(f"{where}.join", f"{name} is in the group already")
                there[name] = _Presence.HERE
        case ev.Leave(names) | ev.Crash(names) | ev.Restart(names) | ev.Drain(names):
            key = type(event).__name__.lower()
            for name in names:
                _must_be_there(reader, f"{where}.{key}", name, there)
                if not isinstance(event, ev.Restart) and there[name] is not _Presence.GONE:
                    drain = isinstance(event, ev.Drain)
                    there[name] = _Presence.PERHAPS if drain else _Presence.GONE
        case ev.DrainPercent():
            for name, presence in there.items():
                if presence is _Presence.HERE:
                    there[name] = _Presence.PERHAPS
        case ev.Pause(names) | ev.Resume(names):
            for name in names:
                _must_be_there(reader, f"{where}.{type(event).__name__.lower()}", name, there)
        case _:
            pass


def _must_be_there(reader: Reader, where: str, name: str, there: Mapping[str, _Presence]) -> None:
    if there[name] is _Presence.GONE:
        here = ", ".join(n for n, presence in there.items() if presence is not _Presence.GONE)
        text = f"{name} is not in the group at this step, expected one of {here or 'none'}"
        reader.problem(where, text)
