"""The simulator's file format: a cluster, steps, and what is expected of them.

Strict on purpose: a key, a setting or a name that is not known is an error, because a scenario that
does not say what its author meant proves nothing. ``check`` and keys that begin with ``x-`` are
free for the author.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from streamlet.config import Settings
from streamlet.errors import ConfigError
from streamlet.group.member_config import MembershipConfig
from streamlet.testing.simulation import events as ev
from streamlet.testing.simulation.events import (
    Event,
    Expect,
    Held,
    InstanceSpec,
    NetworkSpec,
    Step,
    TaskSpec,
)
from streamlet.testing.simulation.presence import check_presence
from streamlet.testing.simulation.reading import Reader, ScenarioError
from streamlet.types import TaskId

_KEYS = (
    "name", "seed", "config", "tasks", "instances", "start", "leader", "network", "steps", "expect",
)  # fmt: skip
_REQUESTS = ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch")
_MODES = ("incremental", "eager", "upgrading")


@attrs.frozen
class Scenario:
    """A scenario as read. ``start`` is by member name, in the order of the file."""

    name: str
    tasks: tuple[TaskSpec, ...]
    instances: Mapping[str, InstanceSpec]
    settings: Settings
    steps: tuple[Step, ...]
    seed: int = 0
    start: Mapping[str, Held] = attrs.field(factory=dict)
    leader: str | None = None  # a member's name
    network: NetworkSpec = attrs.field(factory=NetworkSpec)
    expect: Expect = attrs.field(factory=Expect)

    @property
    def all_tasks(self) -> tuple[TaskSpec, ...]:
        """Those of the beginning and those that are added."""
        added = [
            spec
            for step in self.steps
            for event in step.events
            if isinstance(event, ev.AddTasks)
            for spec in event.tasks
        ]
        return (*self.tasks, *added)


def read_scenario(path: Path, settings: Mapping[str, str] | None = None) -> Scenario:
    """Read a scenario file; ``settings`` go before those of its ``config``.

    Raises:
        ScenarioError: it cannot be read or played; names every key and what was expected there.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError([f"cannot read {path}: {error}"]) from error
    try:
        data = json.loads(text, object_pairs_hook=_no_key_twice)
    except (ValueError, RecursionError) as error:
        raise ScenarioError([f"{path} is no JSON: {error}"]) from error
    return parse_scenario(data, settings, default_name=path.stem)


def parse_scenario(
    data: object, settings: Mapping[str, str] | None = None, *, default_name: str = "scenario"
) -> Scenario:
    """Read a scenario from what JSON gives; ``settings`` go before those of its ``config``.

    Raises:
        ScenarioError: as ``read_scenario``.
    """
    reader = Reader()
    given = reader.mapping("the file", data)
    reader.raise_problems()
    scenario = _Parser(reader, given, settings or {}, default_name).parse()
    check_presence(reader, scenario.steps, scenario.instances, scenario.start)
    reader.raise_problems()
    return scenario


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} is there twice in one object")
        found[key] = value
    return found


class _Parser:
    """Reads the parts in order; later ones use the names of earlier ones."""

    def __init__(
        self,
        reader: Reader,
        data: dict[str, Any],
        overrides: Mapping[str, str],
        default_name: str,
    ) -> None:
        self._reader = reader
        self._data = data
        self._overrides = overrides
        self._default_name = default_name
        self._partitions: dict[int, int] = {}  # subtopology -> tasks so far
        self._specs: dict[str, TaskSpec] = {}
        self._instances: dict[str, InstanceSpec] = {}
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
            "truncate": lambda where, value: ev.Truncate(self._labels(where, value)),
            "add_tasks": lambda where, value: ev.AddTasks(self._tasks(where, value)),
        }

    def parse(self) -> Scenario:
        r, data = self._reader, self._data
        r.keys("", data, _KEYS)
        for key in ("tasks", "instances", "steps"):
            if key not in data:
                expected = "a list" if key == "steps" else "an object"
                r.problem(key, f"missing, expected {expected}")
        tasks = self._tasks("tasks", data.get("tasks", {}))
        self._instances = r.each("instances", data.get("instances", {}), self._instance)
        self._check_members()
        settings = self._settings(data.get("config", {}))
        start = self._start(data.get("start", {}))
        leader = self._leader(data.get("leader"), start)
        steps = [
            self._step(f"steps[{number}]", step)
            for number, step in enumerate(r.items("steps", data.get("steps", [])))
        ]
        return Scenario(
            name=r.text("name", data.get("name", self._default_name)),
            tasks=tasks,
            instances=self._instances,
            settings=settings,
            steps=tuple(steps),
            seed=r.whole("seed", data.get("seed", 0)),
            start=start,
            leader=leader,
            network=self._network(data.get("network", {})),
            expect=self._expect(data.get("expect", {})),
        )

    # -- the cluster ---------------------------------------------------------------------------

    def _tasks(self, where: str, value: object) -> tuple[TaskSpec, ...]:
        found = []
        for label, one in self._reader.mapping(where, value).items():
            if label.startswith("x-"):
                continue
            spec = self._task(f"{where}.{label}", label, one)
            if label in self._specs:
                self._reader.problem(f"{where}.{label}", "this task is there already")
            self._specs[label] = spec
            found.append(spec)
        return tuple(found)

    def _task(self, where: str, label: str, value: object) -> TaskSpec:
        r = self._reader
        given = r.mapping(where, value)
        r.keys(where, given, ("stateful", "weight", "subtopology", "changelog_end"))
        subtopology = r.whole(f"{where}.subtopology", given.get("subtopology", 0))
        partition = self._partitions.get(subtopology, 0)
        self._partitions[subtopology] = partition + 1
        return TaskSpec(
            label,
            TaskId(subtopology, partition),
            r.boolean(f"{where}.stateful", given.get("stateful", True)),
            r.whole(f"{where}.weight", given.get("weight", 1), 1),
            r.whole(f"{where}.changelog_end", given.get("changelog_end", 100_000)),
        )

    def _instance(self, where: str, value: object) -> InstanceSpec:
        r = self._reader
        given = r.mapping(where, value)
        r.keys(where, given, ("members", "capacity", "tags", "instance_id", "mode", "learners"))
        capacity, instance_id = given.get("capacity"), given.get("instance_id")
        mode = given.get("mode")
        return InstanceSpec(
            name=where.removeprefix("instances."),
            members=r.whole(f"{where}.members", given.get("members", 1), 1),
            capacity=None
            if capacity is None
            else r.number(
                f"{where}.capacity", capacity, low=1e-9, high=1e9, expected="a number above 0"
            ),
            tags=r.each(f"{where}.tags", given.get("tags", {}), r.text),
            instance_id=None
            if instance_id is None
            else r.text(f"{where}.instance_id", instance_id),
            mode=None if mode is None else r.one_of(f"{where}.mode", mode, _MODES, "mode"),
            learners=r.boolean(f"{where}.learners", given.get("learners", True)),
        )

    def _check_members(self) -> None:
        """No member may bear the name of another instance or its member."""
        owner = {name: name for name in self._instances}
        for spec in self._instances.values():
            for name in spec.member_names:
                if owner.setdefault(name, spec.name) != spec.name:
                    text = f"its member {name} bears the name of an instance"
                    self._reader.problem(f"instances.{spec.name}.members", text)

    def _settings(self, value: object) -> Settings:
        given = self._reader.mapping("config", value)
        settings = {key: one for key, one in given.items() if not key.startswith("x-")}
        try:
            loaded = Settings.load({**settings, **self._overrides})
            MembershipConfig.from_settings("simulated", loaded)
            return loaded
        except ValueError as error:  # what the membership machine cannot work with
            self._reader.problem("config", str(error))
            return Settings.load()
        except ConfigError as error:
            for problem in error.problems:
                self._reader.problems.append(f"config.{problem}")
            return Settings.load()

    def _start(self, value: object) -> dict[str, Held]:
        """By member; an instance of several members has its tasks dealt out to them in turn."""
        start: dict[str, Held] = {}
        members = self._member_names()
        for key, one in self._reader.mapping("start", value).items():
            where = f"start.{key}"
            if key.startswith("x-") or self._reader.one_of(where, key, members, "member") is None:
                continue
            instance = self._instances[members[key]]
            held = self._held(where, one)
            names = instance.member_names if key == instance.name else (key,)
            for name in instance.member_names:
                start.setdefault(name, Held())
            for number, name in enumerate(names):
                start[name] = _share(held, number, len(names))
        self._check_start(start)
        return start

    def _held(self, where: str, value: object) -> Held:
        r = self._reader
        given = r.mapping(where, value)
        r.keys(where, given, ("active", "standby", "learner", "dormant"))
        return Held(
            self._labels(f"{where}.active", given.get("active", [])),
            self._labels(f"{where}.standby", given.get("standby", []), stateful=True),
            self._offsets(f"{where}.learner", given.get("learner", {})),
            self._offsets(f"{where}.dormant", given.get("dormant", {})),
        )

    def _check_start(self, start: Mapping[str, Held]) -> None:
        owners: dict[str, str] = {}
        for member, held in start.items():
            for label in held.active:
                if label in owners:
                    text = f"{label} is active in {owners[label]} already, expected once"
                    self._reader.problem(f"start.{member}.active", text)
                owners[label] = member
            roles = (held.active, held.standby, held.learner, held.dormant)
            listed = [label for role in roles for label in role]
            for label in sorted({label for label in listed if listed.count(label) > 1}):
                self._reader.problem(f"start.{member}", f"{label} is there twice, expected once")

    def _leader(self, value: object, start: Mapping[str, Held]) -> str | None:
        if value is None:
            return None
        members = self._member_names()
        name = self._reader.one_of("leader", value, members, "member")
        if name is None:
            return None
        name = self._instances[members[name]].member_names[0] if name in self._instances else name
        if start and name not in start:
            self._reader.problem("leader", f"{name} is not in start, expected a member that is")
        return name

    def _network(self, value: object) -> NetworkSpec:
        r = self._reader
        given = r.mapping("network", value)
        r.keys("network", given, ("loss", "duplicate", "delay_ms"))
        chance = {"low": 0, "high": 1, "expected": "a chance, 0 to 1"}
        delay = r.items("network.delay_ms", given.get("delay_ms", [0, 0]))
        times = [r.whole(f"network.delay_ms[{n}]", ms) for n, ms in enumerate(delay)]
        if len(times) != 2 or times[0] > times[1]:
            r.problem("network.delay_ms", "expected two whole numbers, least and most")
            times = [0, 0]
        return NetworkSpec(
            r.number("network.loss", given.get("loss", 0), **chance),  # type: ignore[arg-type]
            r.number("network.duplicate", given.get("duplicate", 0), **chance),  # type: ignore[arg-type]
            (times[0], times[1]),
        )

    # -- steps ---------------------------------------------------------------------------------

    def _step(self, where: str, value: object) -> Step:
        r = self._reader
        given = r.mapping(where, value)
        others = ("drain", "drain_percent", "timeout_ms", "lose", "coordinator_restart")
        r.keys(where, given, (*self._readers, *others, "advance_ms", "settle"))
        timeout = given.get("timeout_ms")
        if timeout is not None:
            timeout = r.whole(f"{where}.timeout_ms", timeout)
            if "drain" not in given and "drain_percent" not in given:
                r.problem(f"{where}.timeout_ms", "expected beside drain or drain_percent only")
        events: list[Event] = []
        for key, one in given.items():
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
        r = self._reader
        match key:
            case "drain":
                return [ev.Drain(self._names(where, value), timeout)]
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
        return lambda where, value: event(self._names(where, value))

    def _names(self, where: str, value: object) -> tuple[str, ...]:
        return self._reader.names(where, value, self._instances, "instance")

    def _labels(self, where: str, value: object, *, stateful: bool = False) -> tuple[str, ...]:
        labels = self._reader.names(where, value, self._specs, "task")
        for label in labels:
            if stateful:
                self._must_be_stateful(where, label)
        return labels

    def _offsets(self, where: str, value: object) -> dict[str, int]:
        found = self._reader.each(where, value, self._reader.whole)
        for label in found:
            if self._reader.one_of(f"{where}.{label}", label, self._specs, "task") is not None:
                self._must_be_stateful(where, label)
        return {label: offset for label, offset in found.items() if label in self._specs}

    def _must_be_stateful(self, where: str, label: str) -> None:
        if not self._specs[label].stateful:
            text = "is stateless, expected a stateful task: the others have no copies"
            self._reader.problem(f"{where}.{label}", text)

    def _member_names(self) -> dict[str, str]:
        """Every name a member or an instance goes by, with its instance."""
        found = {name: name for name in self._instances}
        for spec in self._instances.values():
            found |= dict.fromkeys(spec.member_names, spec.name)
        return found

    def _targets(self, where: str, value: object) -> dict[str, Any]:
        given = self._reader.mapping(where, value)
        members = self._member_names()
        return {
            name: one
            for name, one in given.items()
            if not name.startswith("x-")
            and self._reader.one_of(f"{where}.{name}", name, members, "member") is not None
        }

    def _ready(self, where: str, value: object) -> Event:
        tasks: dict[str, tuple[str, ...] | str] = {}
        for name, one in self._targets(where, value).items():
            place = f"{where}.{name}"
            if isinstance(one, str):
                known = ("all", "one")
                tasks[name] = self._reader.one_of(place, one, known, "choice of tasks") or "all"
            else:
                tasks[name] = self._labels(place, one, stateful=True)
        return ev.Ready(tasks)

    def _lag(self, where: str, value: object) -> Event:
        targets = self._targets(where, value)
        return ev.Lag(
            {name: self._offsets(f"{where}.{name}", one) for name, one in targets.items()}
        )

    def _lose(self, where: str, value: object) -> Event:
        r = self._reader
        given = r.mapping(where, value)
        r.keys(where, given, ("from", "request", "nth"))
        sender = r.one_of(f"{where}.from", given.get("from"), self._member_names(), "member")
        request = r.one_of(f"{where}.request", given.get("request"), _REQUESTS, "request")
        return ev.Lose(sender or "", request or "", r.whole(f"{where}.nth", given.get("nth", 1), 1))

    # -- what is expected ----------------------------------------------------------------------

    def _expect(self, value: object) -> Expect:
        r = self._reader
        given = r.mapping("expect", value)
        numbers = ("rebalances", "max_rebalances", "exited_count", "cold_moves", "stateful_moves",
                   "max_learners")  # fmt: skip
        r.keys("expect", given, (*numbers, "final_loads", "exited", "final", "kept", "in_band"))
        counts = {key: r.whole(f"expect.{key}", given[key]) for key in numbers if key in given}
        loads = r.items("expect.final_loads", given.get("final_loads", []))
        checked = [r.whole(f"expect.final_loads[{n}]", load) for n, load in enumerate(loads)]
        final = self._targets("expect.final", given.get("final", {}))
        return Expect(
            **counts,
            final_loads=tuple(sorted(checked)) if "final_loads" in given else None,
            exited=self._names("expect.exited", given["exited"]) if "exited" in given else None,
            final={name: self._labels(f"expect.final.{name}", one) for name, one in final.items()},
            kept=self._labels("expect.kept", given.get("kept", [])),
            in_band=r.boolean("expect.in_band", given["in_band"]) if "in_band" in given else None,
        )


def _share(held: Held, number: int, count: int) -> Held:
    """One member's share of what an instance has."""
    return Held(
        held.active[number::count],
        held.standby[number::count],
        dict(list(held.learner.items())[number::count]),
        dict(held.dormant) if number == 0 else {},
    )
