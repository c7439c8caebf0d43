"""Reading the steps of a scenario."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamlet.rebalance.wire import VERSION
from streamlet.testing.simulation import events as ev
from streamlet.testing.simulation.events import Event, Step
from streamlet.testing.simulation.names import Names
from streamlet.testing.simulation.reading import ProblemCollector

#: Values of ``stream.rebalancing.mode``.
MODES = ("incremental", "eager", "upgrading")
#: What an instance's program may differ in, by the field of ``InstanceSpec``.
PROGRAM = ("mode", "version", "topology")
#: Digits of the number of a subtopology.
_MOST_DIGITS = 9
_OF_INSTANCES = (
    *(ev.Join, ev.Leave, ev.Crash, ev.Restart, ev.Pause, ev.Resume, ev.CancelDrain, ev.Expel),
)
_TIMED = (ev.Busy, ev.SlowControl, ev.SlowCopies)
_REQUESTS = ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch")


def program_of(reader: ProblemCollector, field: str) -> Callable[[str, Any], Any]:
    """The reader of a field of ``PROGRAM``."""

    def read_topology(where: str, value: object) -> dict[int, str]:
        found: dict[int, str] = {}
        for number, label in reader.each(where, value, reader.text).items():
            if number.isdecimal() and len(number) <= _MOST_DIGITS:
                found[int(number)] = label
            else:
                reader.problem(f"{where}.{number}", "expected the number of a subtopology")
        return found

    def read_version(where: str, value: object) -> int:
        version = reader.whole(where, value, 1)
        if version > VERSION:
            reader.problem(where, f"version {version} is not there yet, expected up to {VERSION}")
        return version

    return {
        "mode": lambda where, value: reader.one_of(where, value, MODES, "mode"),
        "version": read_version,
        "topology": read_topology,
    }[field]


class StepReader:
    """Reads steps; later steps may name what earlier ones add to the cluster."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._readers: dict[str, Callable[[str, Any], Event]] = {
            **{event.key(): self._instances_of(event) for event in _OF_INSTANCES},
            **{event.key(): self._timed(event) for event in _TIMED},
            "short_log": lambda where, value: ev.ShortLog(names.offsets(where, value)),
            "ready": self._ready,
            "lag": self._lag,
            **{field: self._deploy(field) for field in PROGRAM},
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
        for key, one in sorted(given.items(), key=lambda item: item[0] not in PROGRAM):
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

    def _instances_of(self, event: type[ev.OfInstances]) -> Callable[[str, Any], Event]:
        return lambda where, value: event(self._names.names(where, value))

    def _deploy(self, field: str) -> Callable[[str, Any], Event]:
        def read(where: str, value: object) -> Event:
            r = self._names.reader
            for name in r.mapping(where, value):
                r.one_of(f"{where}.{name}", name, self._names.instances, "instance")
            return ev.Deploy(field, r.each(where, value, program_of(r, field)))

        return read

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

    def _timed(self, event: type[ev.WithTimes]) -> Callable[[str, Any], Event]:
        def read(where: str, value: object) -> Event:
            r, targets = self._names.reader, self._names.targets(where, value)
            return event({name: r.whole(f"{where}.{name}", ms) for name, ms in targets.items()})

        return read

    def _lose(self, where: str, value: object) -> Event:
        r = self._names.reader
        given = r.mapping(where, value)
        r.keys(where, given, ("from", "request", "nth", "answer"))
        sender = r.one_of(f"{where}.from", given.get("from"), self._names.member_names(), "member")
        request = r.one_of(f"{where}.request", given.get("request"), _REQUESTS, "request")
        nth = r.whole(f"{where}.nth", given.get("nth", 1), 1)
        answer = r.boolean(f"{where}.answer", given.get("answer", False))
        return ev.Lose(sender or "", request or "", nth, answer)
