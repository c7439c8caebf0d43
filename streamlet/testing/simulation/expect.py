"""Compares the end of a scenario with what it expects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamlet.assignor.loads import Band
from streamlet.assignor.order import exact
from streamlet.tasks.task_record import OURS
from streamlet.testing.simulation.checks import Broken
from streamlet.testing.simulation.counting import GROUP
from streamlet.testing.simulation.events import Expect
from streamlet.testing.simulation.world import World


def compare(world: World, expect: Expect, result: Mapping[str, Any]) -> list[Broken]:
    """The expectations that did not come true, each by the key of the file."""
    return _Comparison(world, expect, result).run()


class _Comparison:
    def __init__(self, world: World, expect: Expect, result: Mapping[str, Any]) -> None:
        self._world = world
        self._expect = expect
        self._result = result
        self._failed: list[Broken] = []

    def run(self) -> list[Broken]:
        expect, totals = self._expect, self._result["totals"]
        for key in ("rebalances", "cold_moves", "stateful_moves", "max_learners"):
            self._equal(key, getattr(expect, key), totals[key])
        most = expect.max_rebalances
        if most is not None and totals["rebalances"] > most:
            self._fail("max_rebalances", f"at most {most}", totals["rebalances"])
        if expect.final_loads is not None:
            loads = sorted(len(_tasks_of(self._world, name)) for name in live(self._world))
            self._equal("final_loads", list(expect.final_loads), loads)
        view = self._world.coordinator.view(GROUP)
        self._equal("protocol_type", expect.protocol_type, view and view.protocol_type)
        self._exits()
        self._tasks()
        if expect.in_band is not None:
            outside = out_of_band(self._world)
            if expect.in_band == bool(outside):
                self._fail("in_band", expect.in_band, "; ".join(outside.values()) or "all inside")
        return self._failed

    def _exits(self) -> None:
        instances = self._world.cluster.instances
        drained = sorted(name for name, i in instances.items() if i.drained and i.exited)
        if self._expect.exited is not None:
            self._equal("exited", sorted(self._expect.exited), drained)
        self._equal("exited_count", self._expect.exited_count, len(drained))

    def _tasks(self) -> None:
        checks, by_label = self._world.checks, self._world.cluster.by_label
        for name, labels in self._expect.final.items():
            runs = self._runs(name)
            if missing := [label for label in labels if label not in runs]:
                self._fail(f"final.{name}", list(labels), f"{sorted(runs)} without {missing}")
        for label in self._expect.kept:
            task = by_label[label].task
            if task in checks.moved:
                self._fail("kept", f"{label} stays", f"it went to {checks.owner.get(task)}")

    def _runs(self, name: str) -> set[str]:
        """The tasks of a member, or of all members of an instance."""
        instance = self._world.cluster.instances.get(name)
        members = (name,) if instance is None else instance.spec.member_names
        final = self._result["final"]
        return {label for m in members for label in final.get(m, {}).get("active", [])}

    def _equal(self, key: str, expected: object, found: object) -> None:
        if expected is not None and expected != found:
            self._fail(key, expected, found)

    def _fail(self, key: str, expected: object, found: object) -> None:
        self._failed.append(Broken(f"expect.{key}", f"expected {expected}, found {found}"))


def live(world: World) -> list[str]:
    """Instances of which a process runs."""
    return [name for name in world.cluster.instances if world.of(name)]


def _tasks_of(world: World, name: str) -> set[Any]:
    return {task for member in world.of(name) for task in member.tasks(*OURS)}


def out_of_band(world: World) -> dict[str, str]:
    """Instances whose load with or without state is outside its band, and by how much.

    One that stands still believes in the tasks that it had, and no plan counts on it.
    """
    cluster = world.cluster
    staying = [
        name
        for name in live(world)
        if cluster.instances[name].leaving is None and not all(m.paused for m in world.of(name))
    ]
    capacity = {name: exact(world.of(name)[0].identity.capacity) for name in staying}
    imbalance = exact(world.settings.stream_imbalance_percentage)
    outside: dict[str, str] = {}
    for stateful in (True, False):
        alike = [spec for spec in cluster.specs.values() if spec.stateful == stateful]
        total = sum(spec.weight for spec in alike)
        for name in staying:
            tasks = _tasks_of(world, name)
            load = sum(spec.weight for spec in alike if spec.task in tasks)
            band = Band.around(total * capacity[name] / sum(capacity.values()), imbalance)
            if band.excess(load):
                outside[name] = f"{name} carries {load}, its band is {band.low} to {band.high}"
    return outside
