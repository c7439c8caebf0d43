"""Clusters, churn and faults made up from a seed; a history that breaks a rule is a scenario file.

Each history is a scenario that grows a step at a time: what may happen next depends on who is
there. It ends with all members awake and a ``settle``. So a failing one can be played again, and
made shorter, by the same code that plays any file.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import attrs

from streamlet.assignor.assign import assign
from streamlet.garbage import without_gc
from streamlet.rebalance.leader import Assignor
from streamlet.rebalance.wire import VERSION
from streamlet.testing.simulation.random_cluster import Json, random_cluster
from streamlet.testing.simulation.reading import ScenarioError
from streamlet.testing.simulation.run import Simulation
from streamlet.testing.simulation.scenario import GrowingScenario, parse_scenario
from streamlet.testing.simulation.steps import MODES

#: Steps of one history, before its end.
FEWEST_STEPS, MOST_STEPS = 6, 24
#: How often a failing history is played again to make it shorter.
SHORTENING = 60


@attrs.frozen
class RandomRun:
    """The result of a run: counts, and the first history that failed."""

    seed: int
    steps: int
    histories: int
    rebalances: int
    scenario: Json | None
    violations: list[Json]

    @property
    def held(self) -> bool:
        """True if no rule was broken."""
        return self.scenario is None

    def as_json(self) -> Json:
        """The result as data."""
        return attrs.asdict(self)


def random_run(
    seed: int,
    steps: int,
    *,
    progress: Callable[[int], None] = lambda done: None,
    assignor: Assignor = assign,
) -> RandomRun:
    """Play histories made up from ``seed`` until so many steps were played or one fails.

    ``progress`` is called with the number of steps played so far.
    """
    played = histories = rebalances = 0
    while played < steps:
        history = History(f"{seed}.{histories}", most_steps=steps - played, assignor=assignor)
        failed = history.live()
        histories += 1
        played += len(history.steps)
        rebalances += len(history.simulation.recorder.rounds)
        progress(played)
        if failed:
            scenario = shorten(history.scenario, failed[0]["rule"], assignor)
            return RandomRun(seed, played, histories, rebalances, scenario, failed)
    return RandomRun(seed, played, histories, rebalances, None, [])


class History:
    """One cluster's life.

    Args:
        seed: everything follows from it.
        most_steps: no more steps than this.
        assignor: the leaders' brain.
    """

    def __init__(
        self, seed: str, *, most_steps: int = MOST_STEPS, assignor: Assignor = assign
    ) -> None:
        self.dice = random.Random(f"history {seed}")
        self._mode_dice = random.Random(f"modes of {seed}")
        self._fault_dice = random.Random(f"faults in {seed}")
        self._faults = self._fault_dice.random() < 0.5
        self._short: set[str] = set()  # changelogs that seemed shorter once
        self._versions: tuple[int, ...] = ()
        self.head = random_cluster(seed, self.dice)
        self._modes = self._choose_modes()
        self.steps: list[Json] = []
        self._most_steps = max(most_steps, 1)
        self._added = 0
        self._growing = GrowingScenario(self.head)
        self.simulation = Simulation(self._growing.beginning, assignor=assignor)
        self.simulation.world.checks.permute_every = 4

    @property
    def scenario(self) -> Json:
        """The scenario so far."""
        return {**self.head, "steps": self.steps}

    def live(self) -> list[Json]:
        """Live through it; the rules that were broken, none if all held."""
        with without_gc():  # as in a worker, whose commits collect what is young
            return self._live_through()

    def _live_through(self) -> list[Json]:
        length = min(self.dice.randint(FEWEST_STEPS, MOST_STEPS), self._most_steps)
        for _ in range(max(length - 2, 1)):
            step = self._step()
            if not self._play(step | self._fault(step)):
                return self._failed()
        if self._paused():
            self._play({"resume": self._paused()})
        self._play({"settle": {"max_rounds": self._most_rounds()}})
        return self._failed()

    def _failed(self) -> list[Json]:
        found: list[Json] = self.simulation.result()["violations"]
        return found

    def _play(self, step: Json) -> bool:
        self.steps.append(step)
        on = self.simulation.play(self._growing.add(step))
        return on and not self.simulation.world.checks.broken

    def _most_rounds(self) -> int:
        """The plan's own bound of rounds, and more where settings or the network slow it down."""
        config = self.head["config"]
        tasks = self.simulation.world.cluster.specs.values()
        stateful = sum(spec.stateful for spec in tasks)
        bound: int = 2 * stateful * (1 + config.get("num.standby.replicas", 0)) + 4
        leaving = sum(m.instance.leaving is not None for m in self.simulation.world.members)
        slow = any(key.startswith("max.") for key in config) or "network" in self.head
        # A commit whose answer is lost costs a rebalance, whatever the plan (M6).
        lossy = self.head.get("network", {}).get("loss", 0) > 0
        more = (len(tasks) * 4 + 40 if slow else 0) + (200 if lossy else 0)
        return bound + 2 * leaving + 4 + more

    def _choose_modes(self) -> tuple[str, ...]:
        """Rebalancing modes that instances are in, and change to when they restart; often none.

        Some are of older versions too.
        """
        dice = self._mode_dice
        if dice.random() > 0.3:
            return ()
        modes: tuple[str, ...] = dice.choice(
            [MODES, ("incremental", "upgrading"), ("eager", "upgrading"), ("incremental",) * 3]
        )
        self._versions = dice.choice([(VERSION,), (VERSION,), (1, VERSION)])
        for instance in self.head["instances"].values():
            instance["mode"] = dice.choice([*modes, *modes, "upgrading"])
            instance["version"] = dice.choice(self._versions)
        return modes

    # -- steps ---------------------------------------------------------------------------------

    def _live(self) -> list[str]:
        world = self.simulation.world
        there = {n: world.of(n) for n in self.head["instances"]}
        return [n for n, of in there.items() if of and not any(m.worker.stopping for m in of)]

    def _paused(self) -> list[str]:
        return [n for n in self._live() if any(m.paused for m in self.simulation.world.of(n))]

    def _step(self) -> Json:
        """One step, of one or two events."""
        dice = self.dice
        step: Json = {}
        for _ in range(dice.choice([1, 1, 1, 2])):
            key = dice.choice(_KINDS)
            if key not in step and not (step.keys() & _WHO and key in _WHO):
                step |= self._event(key)
        if not step or dice.random() < 0.1:
            step["advance_ms"] = dice.choice([50, 1_000, 7_000, 15_000])
        return step

    def _fault(self, step: Json) -> Json:
        """Perhaps a thread that is slow, a member thrown out, a log that seems shorter."""
        dice, awake = self._fault_dice, [n for n in self._live() if n not in self._paused()]
        if not (self._faults and awake) or dice.random() < 0.6:
            return {}
        fault: Json = {}
        for key in dice.sample(_FAULTS, dice.choice([1, 1, 2])):
            match key:
                case "busy":
                    fault[key] = {dice.choice(awake): dice.choice([300, 2_000, 12_000])}
                case "slow_control" | "slow_copies":
                    fault[key] = {dice.choice(awake): dice.choice([100, 1_000, 5_000])}
                case "expel" if not step.keys() & _WHO:
                    fault[key] = [dice.choice(awake)]
                case "short_log":
                    fault |= self._short_log()
                case _:
                    pass
        return fault

    def _short_log(self) -> Json:
        """A changelog seems shorter, once for each: the policy decides what often does."""
        tasks = self.head["tasks"].items()
        left = [t for t, task in tasks if task["stateful"] and t not in self._short]
        if not left:
            return {}
        label = self._fault_dice.choice(left)
        self._short.add(label)
        return {"short_log": {label: self._fault_dice.choice([500, 3_000])}}

    def _event(self, key: str) -> Json:
        dice, live, paused = self.dice, self._live(), self._paused()
        absent = [name for name in self.head["instances"] if name not in live]
        awake = [name for name in live if name not in paused]
        match key:
            case "join" if absent:
                names = dice.sample(absent, min(len(absent), dice.choice([1, 1, 2])))
                return {key: names, **self._other_modes(names)}
            case "restart" if awake:
                names = [dice.choice(awake)]
                return {key: names, **self._other_modes(names)}
            case "leave" | "pause" if awake:
                return {key: [dice.choice(awake)]}
            case "crash" if live:
                return {key: [dice.choice(live)]}
            case "resume" if paused:
                return {key: [dice.choice(paused)]}
            case "drain" if len(awake) > 1:
                timeout = dice.choice([None, None, 0, 4_000])
                event: Json = {key: [dice.choice(awake)]}
                return event if timeout is None else {**event, "timeout_ms": timeout}
            case "cancel_drain" if live:
                return {key: [dice.choice(live)]}
            case "ready" if live:
                return {key: {name: dice.choice(["all", "one"]) for name in _some(dice, live)}}
            case "lag" | "truncate" | "add_tasks" | "lose" | "coordinator_restart" if live:
                return self._disturbance(key, live)
        return {}

    def _other_modes(self, names: list[str]) -> Json:
        """Perhaps another mode for an instance that is started."""
        dice = self._mode_dice
        if not self._modes or dice.random() < 0.5:
            return {}
        programs: Json = {"mode": {name: dice.choice(self._modes) for name in names}}
        if len(self._versions) > 1:
            programs["version"] = {name: dice.choice(self._versions) for name in names}
        return programs

    def _disturbance(self, key: str, live: list[str]) -> Json:
        dice = self.dice
        stateful = [label for label, task in self.head["tasks"].items() if task["stateful"]]
        match key:
            case "lag" if stateful:
                lag = dice.choice([0, 9_000, 60_000])
                return {key: {dice.choice(live): {dice.choice(stateful): lag}}}
            case "truncate" if stateful:
                return {key: [dice.choice(stateful)]}
            case "add_tasks":
                self._added += 1
                alike = dice.choice(list(self.head["tasks"].values()))
                plain = {name: alike[name] for name in ("subtopology", "stateful")}
                return {key: {f"N{self._added}": plain}}
            case "lose":
                requests = ["JoinGroup", "SyncGroup", "OffsetCommit", "OffsetCommit", "OffsetFetch"]
                request, nth = dice.choice(requests), dice.randint(1, 3)
                return {key: [{"from": dice.choice(live), "request": request, "nth": nth}]}
            case "coordinator_restart":
                return {key: True}
            case _:
                return {}


_KINDS = (
    *["join"] * 6, *["ready"] * 8, *["crash"] * 3, *["restart"] * 3, *["pause"] * 2,
    *["resume"] * 2, *["drain"] * 3, *["lose"] * 3, "leave", "cancel_drain", "lag", "truncate",
    "add_tasks", "coordinator_restart",
)  # fmt: skip

_FAULTS = ("busy", "busy", "slow_control", "slow_copies", "expel", "short_log")

#: Events of which a step has one: they would speak of the same instances.
_WHO = frozenset({"join", "leave", "crash", "restart", "pause", "resume", "drain", "cancel_drain"})


def _some(dice: random.Random, names: list[str]) -> list[str]:
    return dice.sample(names, dice.randint(1, len(names)))


def shorten(scenario: Json, rule: str, assignor: Assignor = assign) -> Json:
    """Leave out steps that a failing history does not need to break the same rule."""
    tries = 0
    at = len(scenario["steps"]) - 2
    while at >= 0 and tries < SHORTENING:
        steps = scenario["steps"]
        shorter = {**scenario, "steps": steps[:at] + steps[at + 1 :]}
        tries += 1
        if _breaks(shorter, rule, assignor):
            scenario = shorter
        at -= 1
    return scenario


def _breaks(scenario: Json, rule: str, assignor: Assignor) -> bool:
    try:
        result = Simulation(parse_scenario(scenario), assignor=assignor).run()
    except ScenarioError:
        return False  # a step names a member that is no longer there
    return any(broken["rule"] == rule for broken in result["violations"])
