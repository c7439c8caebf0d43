"""The simulator's file format: a cluster, steps, and what is expected of them.

Strict on purpose: a key, a setting or a name that is not known is an error, because a scenario that
does not say what its author meant proves nothing. ``check`` and keys that begin with ``x-`` are
free for the author.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from streamlet.config import Settings
from streamlet.coordinator.member_config import MembershipConfig
from streamlet.errors import ConfigError
from streamlet.given_files import bytes_of
from streamlet.rebalance.envelope import CONSUMER, STREAM
from streamlet.testing.simulation import events as ev
from streamlet.testing.simulation.events import (
    Expect,
    Held,
    InstanceSpec,
    NetworkSpec,
    Step,
    TaskSpec,
)
from streamlet.testing.simulation.names import Names
from streamlet.testing.simulation.presence import PresenceWatch, check_presence
from streamlet.testing.simulation.reading import ProblemCollector, ScenarioError
from streamlet.testing.simulation.steps import PROGRAM, StepReader, program_of

_KEYS = (
    "name", "seed", "config", "tasks", "instances", "start", "leader", "network", "steps", "expect",
)  # fmt: skip


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
        """The tasks of the beginning and those that are added."""
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
        text = bytes_of(path).decode("utf-8-sig")
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
    reader = ProblemCollector()
    given = reader.mapping("the file", data)
    reader.raise_problems()
    scenario = _Parser(reader, given, settings or {}, default_name).parse()
    check_presence(reader, scenario.steps, scenario.instances, scenario.start)
    reader.raise_problems()
    return scenario


class GrowingScenario:
    """A scenario of which each step is read when it is added, those before it not again.

    Args:
        data: the scenario without steps, as ``parse_scenario`` reads it.

    Raises:
        ScenarioError: as ``read_scenario``.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self._reader = ProblemCollector()
        parser = _Parser(self._reader, {**data, "steps": []}, {}, "scenario")
        self.beginning = parser.parse()
        self._steps = parser.steps_of
        self._watch = PresenceWatch(self._reader, self.beginning.instances, self.beginning.start)
        self._added = 0
        self._reader.raise_problems()

    def add(self, step: dict[str, Any]) -> Step:
        """Read the next step.

        Raises:
            ScenarioError: it cannot be read, or not be played behind those before it.
        """
        where = f"steps[{self._added}]"
        self._added += 1
        read = self._steps.step(where, step)
        self._reader.raise_problems()  # the watch relies on names that are known
        self._watch.see_all(where, read)
        self._reader.raise_problems()
        return read


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
        reader: ProblemCollector,
        data: dict[str, Any],
        overrides: Mapping[str, str],
        default_name: str,
    ) -> None:
        self._reader = reader
        self._data = data
        self._overrides = overrides
        self._default_name = default_name
        self._names = Names(reader)
        self.steps_of = StepReader(self._names)

    def parse(self) -> Scenario:
        r, data = self._reader, self._data
        r.keys("", data, _KEYS)
        for key in ("tasks", "instances", "steps"):
            if key not in data:
                expected = "a list" if key == "steps" else "an object"
                r.problem(key, f"missing, expected {expected}")
        tasks = self._names.tasks("tasks", data.get("tasks", {}))
        self._names.instances |= r.each("instances", data.get("instances", {}), self._instance)
        self._check_members()
        settings = self._settings(data.get("config", {}))
        start = self._start(data.get("start", {}))
        leader = self._leader(data.get("leader"), start)
        steps = [
            self.steps_of.step(f"steps[{number}]", step)
            for number, step in enumerate(r.items("steps", data.get("steps", [])))
        ]
        return Scenario(
            name=r.text("name", data.get("name", self._default_name)),
            tasks=tasks,
            instances=self._names.instances,
            settings=settings,
            steps=tuple(steps),
            seed=r.whole("seed", data.get("seed", 0)),
            start=start,
            leader=leader,
            network=self._network(data.get("network", {})),
            expect=self._expect(data.get("expect", {})),
        )

    # -- the cluster ---------------------------------------------------------------------------

    def _instance(self, where: str, value: object) -> InstanceSpec:
        r = self._reader
        given = r.mapping(where, value)
        own = ("members", "capacity", "tags", "instance_id", "learners")
        r.keys(where, given, (*own, *PROGRAM))
        capacity, instance_id = given.get("capacity"), given.get("instance_id")
        program = {
            field: program_of(r, field)(f"{where}.{field}", given[field])
            for field in PROGRAM
            if given.get(field) is not None
        }
        return InstanceSpec(
            name=where.removeprefix("instances."),
            members=r.whole(f"{where}.members", given.get("members", 1), 1, 1_000),
            capacity=None
            if capacity is None
            else r.number(
                f"{where}.capacity", capacity, low=1e-9, high=1e9, expected="a number above 0"
            ),
            tags=r.each(f"{where}.tags", given.get("tags", {}), r.text),
            instance_id=None
            if instance_id is None
            else r.text(f"{where}.instance_id", instance_id),
            learners=r.boolean(f"{where}.learners", given.get("learners", True)),
            **program,
        )

    def _check_members(self) -> None:
        """No member may bear the name of another instance or its member."""
        owner = {name: name for name in self._names.instances}
        for spec in self._names.instances.values():
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
        """The start of each member; tasks of an instance are dealt out to its members in turn."""
        start: dict[str, Held] = {}
        members = self._names.member_names()
        for key, one in self._reader.mapping("start", value).items():
            where = f"start.{key}"
            if key.startswith("x-") or self._reader.one_of(where, key, members, "member") is None:
                continue
            instance = self._names.instances[members[key]]
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
            self._names.labels(f"{where}.active", given.get("active", [])),
            self._names.labels(f"{where}.standby", given.get("standby", []), stateful=True),
            self._names.offsets(f"{where}.learner", given.get("learner", {})),
            self._names.offsets(f"{where}.dormant", given.get("dormant", {})),
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
        members = self._names.member_names()
        name = self._reader.one_of("leader", value, members, "member")
        if name is None:
            return None
        name = (
            self._names.instances[members[name]].member_names[0]
            if name in self._names.instances
            else name
        )
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

    # -- what is expected ----------------------------------------------------------------------

    def _expect(self, value: object) -> Expect:
        r = self._reader
        given = r.mapping("expect", value)
        numbers = ("rebalances", "max_rebalances", "exited_count", "cold_moves", "stateful_moves",
                   "max_learners")  # fmt: skip
        others = ("final_loads", "exited", "final", "kept", "in_band", "protocol_type")
        r.keys("expect", given, (*numbers, *others))
        counts = {key: r.whole(f"expect.{key}", given[key]) for key in numbers if key in given}
        loads = r.items("expect.final_loads", given.get("final_loads", []))
        checked = [r.whole(f"expect.final_loads[{n}]", load) for n, load in enumerate(loads)]
        final = self._names.targets("expect.final", given.get("final", {}))
        return Expect(
            **counts,
            final_loads=tuple(sorted(checked)) if "final_loads" in given else None,
            exited=self._names.names("expect.exited", given["exited"])
            if "exited" in given
            else None,
            final={
                name: self._names.labels(f"expect.final.{name}", one) for name, one in final.items()
            },
            kept=self._names.labels("expect.kept", given.get("kept", [])),
            in_band=r.boolean("expect.in_band", given["in_band"]) if "in_band" in given else None,
            protocol_type=r.one_of(
                "expect.protocol_type", given["protocol_type"], (CONSUMER, STREAM), "protocol type"
            )
            if "protocol_type" in given
            else None,
        )


def _share(held: Held, number: int, count: int) -> Held:
    """One member's share of what an instance has."""
    return Held(
        held.active[number::count],
        held.standby[number::count],
        dict(list(held.learner.items())[number::count]),
        dict(held.dormant) if number == 0 else {},
    )
