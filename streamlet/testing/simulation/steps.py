"""Reading the steps of a scenario."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamlet.testing.simulation import events as ev
from streamlet.testing.simulation.events import Event, Step
from streamlet.testing.simulation.names import Names

#: Values of ``stream.rebalancing.mode``.
MODES = ("incremental", "eager", "upgrading")
_REQUESTS = ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch")


class StepReader:
    """Reads steps; what they add to the cluster, later ones may speak of."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._readers: dict[str, Callable[[str, Any], Event]] = {
            "join": self._instances_of(ev.Join),
            "leave": self._instances_of(ev.Leave),
            "crash": self._instances_of(ev.Crash),
            "restart": self._instances_of(ev.Restart),
            "pause": self._instances_of(ev.Pause),
            "resume": self._instances_of(ev.Resume),
            "cancel_drain": self._instances_of(ev.CancelDrain),
            "ready": self._ready,
            "lag": self._lag,
            "mode": self._mode,
            "truncate": lambda where, value: ev.Truncate(names.labels(where, value)),
            "add_tasks": lambda where, value: ev.AddTasks(names.tasks(where, value)),
        }

    def step(self, where: str, value: object) -> Step:
        """Read one step."""
        r = self._names.reader
        given = r.mapping(where, value)
        others = ("drain", "drain_percent", "timeout_ms", "lose", "coordinator_restart")
        r.keys(where, given, (*self._readers, *others, "advance_ms", "settle"))
        timeout = given.get("timeout_ms")
        if timeout is not None:
            timeout = r.whole(f"{where}.timeout_ms", timeout)
            if "drain" not in given and "drain_percent" not in given:
                r.problem(f"{where}.timeout_ms", "expected beside drain or drain_percent only")
        events: list[Event] = []
        for key, one in sorted(given.items(), key=lambda item: item[0] != "mode"):
            events += self._event(key, f"{where}.{key}", one, timeout)
        settle = None
        if "settle" in given:
            place = f"{where}.settle"
            asked = r.mapping(place, given["settle"])
            r.keys(place, asked, ("max_rounds",))
            settle = r.whole(f"{place}.max_rounds", asked.get("max_rounds", 100), 1)
        advance = r.whole(f"{where}.advance_ms", given.get("advance_ms", 0))
        return Step(tuple(events), advance, settle)

    def _event(self, key: str, where: str, value: object, timeout: int | None) -> list[Event]:
        r = self._names.reader
        match key:
            case "drain":
                return [ev.Drain(self._names.names(where, value), timeout)]
            case "drain_percent":
                expected = "a number above 0, up to 100: how many percent stay"
                percent = r.number(where, value, low=1e-9, high=100, expected=expected)
                return [ev.DrainPercent(percent, timeout)]
            case "lose":
                listed = enumerate(r.items(where, value))
                return [self._lose(f"{where}[{number}]", one) for number, one in listed]
            case "coordinator_restart":
                return [ev.CoordinatorRestart()] if r.boolean(where, value) else []
            case _:
                read = self._readers.get(key)
                return [] if read is None else [read(where, value)]

    def _instances_of(
        self, event: Callable[[tuple[str, ...]], Event]
    ) -> Callable[[str, Any], Event]:
        return lambda where, value: event(self._names.names(where, value))

    def _mode(self, where: str, value: object) -> Event:
        r, modes = self._names.reader, dict[str, str]()
        for name, one in r.mapping(where, value).items():
            place = f"{where}.{name}"
            known = r.one_of(place, name, self._names.instances, "instance")
            mode = r.one_of(place, one, MODES, "mode")
            if known and mode:
                modes[known] = mode
        return ev.Mode(modes)

    def _ready(self, where: str, value: object) -> Event:
        tasks: dict[str, tuple[str, ...] | str] = {}
        for name, one in self._names.targets(where, value).items():
            place = f"{where}.{name}"
            if isinstance(one, str):
                known = ("all", "one")
                tasks[name] = (
                    self._names.reader.one_of(place, one, known, "choice of tasks") or "all"
                )
            else:
                tasks[name] = self._names.labels(place, one, stateful=True)
        return ev.Ready(tasks)

    def _lag(self, where: str, value: object) -> Event:
        targets = self._names.targets(where, value)
        return ev.Lag(
            {name: self._names.offsets(f"{where}.{name}", one) for name, one in targets.items()}
        )

    def _lose(self, where: str, value: object) -> Event:
        r = self._names.reader
        given = r.mapping(where, value)
        r.keys(where, given, ("from", "request", "nth"))
        sender = r.one_of(f"{where}.from", given.get("from"), self._names.member_names(), "member")
        request = r.one_of(f"{where}.request", given.get("request"), _REQUESTS, "request")
        return ev.Lose(sender or "", request or "", r.whole(f"{where}.nth", given.get("nth", 1), 1))
