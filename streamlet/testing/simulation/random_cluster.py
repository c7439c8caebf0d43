"""A made-up cluster: tasks, instances, settings, network, and who runs what at the start."""

from __future__ import annotations

import random
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


def random_cluster(seed: str, dice: random.Random) -> Json:
    """The scenario of a history before its first step."""
    head = _Cluster(dice).head(seed)
    _add_stateless(head, random.Random(f"stateless tasks of {seed}"))
    return head


def _add_stateless(head: Json, dice: random.Random) -> None:
    """Perhaps more tasks without state, in a subtopology of their own, which run and move, too."""
    if dice.random() < 0.6:
        return
    number = 1 + max((task["subtopology"] for task in head["tasks"].values()), default=0)
    starting = [*head.get("start", {}).values(), None]
    for n in range(1, dice.randint(2, 6)):
        task: Json = {"subtopology": number, "stateful": False}
        if dice.random() < 0.3:
            task["weight"] = dice.randint(2, 4)
        head["tasks"][f"P{n}"] = task
        owner = dice.choice(starting)
        if owner is not None:
            owner["active"].append(f"P{n}")


class _Cluster:
    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    def head(self, seed: str) -> Json:
        """A scenario without steps."""
        dice = self._dice
        tasks = self._tasks()
        instances = {f"S{n}": self._instance(n) for n in range(1, dice.randint(3, 8))}
        head: Json = {
            "name": f"random history {seed}",
            "seed": dice.randrange(2**31),
            "config": self._config(),
            "tasks": tasks,
            "instances": instances,
        }
        if dice.random() < 0.7:
            head["start"] = self._start(tasks, list(instances)[: dice.randint(1, 3)])
        if dice.random() < 0.6:
            head["network"] = {
                "loss": dice.choice([0, 0, 0.01, 0.04]),
                "duplicate": dice.choice([0, 0, 0.02, 0.1]),
                # Late messages keep steps from coming to rest: the next one meets open hand-overs.
                "delay_ms": [0, dice.choice([1, 5, 30, 150, 400, 400])],
            }
        return head

    def _tasks(self) -> Json:
        dice = self._dice
        kinds = [dice.random() < 0.75 for _ in range(dice.randint(1, 3))]
        heaviest = dice.choice([1, 1, 1, 4])
        tasks: Json = {}
        for number in range(1, dice.randint(2, 13)):
            subtopology = dice.randrange(len(kinds))
            task: Json = {"subtopology": subtopology, "stateful": kinds[subtopology]}
            if heaviest > 1:
                task["weight"] = dice.randint(1, heaviest)
            if dice.random() < 0.2:
                task["changelog_end"] = dice.choice([0, 500, 9_000, 20_000])
            tasks[f"T{number}"] = task
        return tasks

    def _instance(self, number: int) -> Json:
        dice = self._dice
        instance: Json = {}
        if dice.random() < 0.3:
            instance["members"] = dice.randint(2, 3)
        if dice.random() < 0.15:
            instance["capacity"] = dice.choice([0.5, 2, 5])
        if dice.random() < 0.3:
            instance["instance_id"] = f"i{number}"
        if dice.random() < 0.5:
            instance["tags"] = {"zone": dice.choice("ab")}
        if dice.random() < 0.06:
            instance["learners"] = False
        return instance

    def _config(self) -> Json:
        """Settings that shape hand-overs; most histories have few of them."""
        dice = self._dice
        config: Json = {"learner.handover": dice.choice(["release", "release", "surrender"])}
        choices: dict[str, list[Any]] = {
            "num.standby.replicas": [1, 2],
            "learner.partial.rebalance": [False],
            "stream.imbalance.percentage": [0, 0.5],
            "max.learners.per.member": [1],
            "max.learners.per.group": [1, 3],
            "max.moves.per.rebalance": [1, 2],
            "rebalance.move.interval.ms": [0, 3_000],
            "scheduled.rebalance.max.delay.ms": [5_000, 30_000],
            "initial.assignment.delay.ms": [2_000],
            "rack.aware.assignment.tags": ["zone"],
            "session.timeout.ms": [6_000],
            "handover.timeout.ms": [500, 3_000],
            "commit.interval.ms": [100, 5_000],
            "learner.ready.linger.ms": [0, 500],
        }
        for key, values in choices.items():
            if dice.random() < 0.12:
                config[key] = dice.choice(values)
        if dice.random() < 0.8:  # members learn of a rebalance one by one, by their own heartbeats
            config["heartbeat.interval.ms"] = dice.choice([100, 250, 1_000])
        if dice.random() < 0.05:
            config["stream.rebalancing.mode"] = "eager"
        return config

    def _start(self, tasks: Json, names: list[str]) -> Json:
        """A random start: most tasks run, and some instances have copies on disk."""
        dice = self._dice
        start: Json = {name: {"active": []} for name in names}
        for label, task in tasks.items():
            owner = dice.choice([*names, None])
            if owner is not None:
                start[owner]["active"].append(label)
            others = [name for name in names if name != owner]
            if task["stateful"] and others and dice.random() < 0.2:
                other = start[dice.choice(others)]
                if dice.random() < 0.5:
                    other.setdefault("learner", {})[label] = dice.choice([500, 50_000])
                else:
                    other.setdefault("dormant", {})[label] = dice.choice([0, 900])
        return start
