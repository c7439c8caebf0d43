"""Checks that steps name instances that can be there at that point.

A drained instance leaves when it is done, so from then on it may be there or not.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from streamlet.testing.simulation import events as ev
from streamlet.testing.simulation.events import Event, Held, InstanceSpec, Step
from streamlet.testing.simulation.reading import ProblemCollector


class _Presence(enum.Enum):
    HERE = "in the group"
    PERHAPS = "leaving"
    GONE = "not in the group"


def check_presence(
    reader: ProblemCollector,
    steps: Iterable[Step],
    instances: Mapping[str, InstanceSpec],
    start: Mapping[str, Held],
) -> None:
    """Report steps that start a running instance, or that need an instance which does not run."""
    watch = PresenceWatch(reader, instances, start)
    for number, step in enumerate(steps):
        watch.see_all(f"steps[{number}]", step)


class PresenceWatch:
    """Follows who is there, a step at a time. A mark to leave outlives the process it was for."""

    def __init__(
        self,
        reader: ProblemCollector,
        instances: Mapping[str, InstanceSpec],
        start: Mapping[str, Held],
    ) -> None:
        self._reader = reader
        self._there = {
            name: _Presence.HERE if spec.member_names[0] in start else _Presence.GONE
            for name, spec in instances.items()
        }
        self._marked: set[str] = set()

    def see_all(self, where: str, step: Step) -> None:
        """Take note of the events of a step."""
        for event in step.events:
            self._see(where, event)

    def _see(self, where: str, event: Event) -> None:
        there = self._there
        match event:
            case ev.Join(names):
                for name in names:
                    if there[name] is _Presence.HERE:
                        self._reader.problem(f"{where}.join", f"{name} is in the group already")
                    marked = name in self._marked
                    there[name] = _Presence.PERHAPS if marked else _Presence.HERE
            case ev.Leave(names) | ev.Crash(names):
                self._must_be_there(where, event, names)
                there |= dict.fromkeys(names, _Presence.GONE)
            case ev.Drain(names):
                self._must_be_there(where, event, names)
                self._mark(names)
            case ev.DrainPercent():
                self._mark([n for n, presence in there.items() if presence is not _Presence.GONE])
            case ev.Restart(names) | ev.Pause(names) | ev.Resume(names) | ev.Expel(names):
                self._must_be_there(where, event, names)
            case _:
                pass

    def _mark(self, names: Iterable[str]) -> None:
        for name in names:
            self._marked.add(name)
            if self._there[name] is _Presence.HERE:
                self._there[name] = _Presence.PERHAPS

    def _must_be_there(self, where: str, event: Event, names: Iterable[str]) -> None:
        here = [name for name, presence in self._there.items() if presence is not _Presence.GONE]
        for name in names:
            if name not in here:
                expected = f"expected one of {', '.join(here) or 'none'}"
                text = f"{name} is not in the group at this step, {expected}"
                self._reader.problem(f"{where}.{event.key()}", text)
