"""The names a scenario gives to tasks, instances and members, and reading what speaks of them."""

from __future__ import annotations

from typing import Any

from streamlet.testing.simulation.events import InstanceSpec, TaskSpec
from streamlet.testing.simulation.reading import ProblemCollector
from streamlet.types import TaskId


class Names:
    """All names so far; tasks that are added later join them."""

    def __init__(self, reader: ProblemCollector) -> None:
        self.reader = reader
        self.specs: dict[str, TaskSpec] = {}
        self.instances: dict[str, InstanceSpec] = {}
        self._partitions: dict[int, int] = {}  # subtopology -> tasks so far
        self._kinds: dict[int, bool] = {}  # subtopology -> whether its tasks have state

    def tasks(self, where: str, value: object) -> tuple[TaskSpec, ...]:
        """New tasks, numbered within their subtopologies in the order they come.

        A task whose subtopology is not given is in the first that has tasks of its kind, or none.
        """
        found, given = [], self.reader.mapping(where, value)
        for one in given.values():  # those that are given come first
            number = one.get("subtopology") if isinstance(one, dict) else None
            if type(number) is int:
                self._kinds.setdefault(number, one.get("stateful", True))
        for label, one in given.items():
            if label.startswith("x-"):
                continue
            spec = self._task(f"{where}.{label}", label, one)
            if label in self.specs:
                self.reader.problem(f"{where}.{label}", "this task is there already")
            self.specs[label] = spec
            found.append(spec)
        return tuple(found)

    def _task(self, where: str, label: str, value: object) -> TaskSpec:
        r = self.reader
        given = r.mapping(where, value)
        r.keys(where, given, ("stateful", "weight", "subtopology", "changelog_end"))
        stateful = r.boolean(f"{where}.stateful", given.get("stateful", True))
        fitting = (n for n in range(1_001) if self._kinds.get(n, stateful) == stateful)
        usual = next(fitting, 0)  # which is then refused
        subtopology = r.whole(f"{where}.subtopology", given.get("subtopology", usual), 0, 1_000)
        if self._kinds.setdefault(subtopology, stateful) != stateful:
            r.problem(
                f"{where}.subtopology",
                f"{subtopology} has tasks {'without' if stateful else 'with'} state; all of a "
                "subtopology have state, or none has: give it another number",
            )
        partition = self._partitions.get(subtopology, 0)
        self._partitions[subtopology] = partition + 1
        return TaskSpec(
            label,
            TaskId(subtopology, partition),
            stateful,
            r.whole(f"{where}.weight", given.get("weight", 1), 1),
            r.whole(f"{where}.changelog_end", given.get("changelog_end", 100_000)),
        )

    def names(self, where: str, value: object) -> tuple[str, ...]:
        """Instances that there are."""
        return self.reader.names(where, value, self.instances, "instance")

    def labels(self, where: str, value: object, *, stateful: bool = False) -> tuple[str, ...]:
        """Tasks that there are; with ``stateful`` such as have copies."""
        labels = self.reader.names(where, value, self.specs, "task")
        for label in labels:
            if stateful:
                self.must_be_stateful(where, label)
        return labels

    def offsets(self, where: str, value: object) -> dict[str, int]:
        """A number for each of some tasks that have copies."""
        found = self.reader.each(where, value, self.reader.whole)
        for label in found:
            if self.reader.one_of(f"{where}.{label}", label, self.specs, "task") is not None:
                self.must_be_stateful(where, label)
        return {label: offset for label, offset in found.items() if label in self.specs}

    def must_be_stateful(self, where: str, label: str) -> None:
        """Note a task that has no copies."""
        if not self.specs[label].stateful:
            text = "is stateless, expected a stateful task: the others have no copies"
            self.reader.problem(f"{where}.{label}", text)

    def member_names(self) -> dict[str, str]:
        """Every name a member or an instance goes by, with its instance."""
        found = {name: name for name in self.instances}
        for spec in self.instances.values():
            found |= dict.fromkeys(spec.member_names, spec.name)
        return found

    def targets(self, where: str, value: object) -> dict[str, Any]:
        """The named members and instances of an event."""
        given = self.reader.mapping(where, value)
        members = self.member_names()
        return {
            name: one
            for name, one in given.items()
            if not name.startswith("x-")
            and self.reader.one_of(f"{where}.{name}", name, members, "member") is not None
        }
