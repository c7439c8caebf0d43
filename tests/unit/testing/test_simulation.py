"""The simulator refuses what it cannot play, sees what is broken, and can say it again."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import attrs
import pytest

from streamlet.assignor.assign import assign
from streamlet.assignor.values import GroupState, MemberPlan, Plan
from streamlet.coordinator.commit_metadata import CommitMetadata, Positions
from streamlet.coordinator.messages import OffsetCommit, OffsetCommitAnswer
from streamlet.testing.simulation import (
    ScenarioError,
    parse_scenario,
    random_run,
    read_scenario,
    simulate,
)
from streamlet.testing.simulation.counting import input_of
from streamlet.testing.simulation.random_cluster import random_cluster
from streamlet.testing.simulation.run import Simulation
from streamlet.testing.simulation.scenario import GrowingScenario
from streamlet.types import NO_STATE

GOOD: dict[str, Any] = {
    "name": "two instances",
    "tasks": {"T1": {}, "T2": {}, "P1": {"stateful": False, "subtopology": 1}},
    "instances": {"S1": {}, "S2": {}, "S3": {"members": 2}},
    "start": {"S1": {"active": ["T1", "P1"]}, "S2": {"active": ["T2"]}},
    "steps": [{"join": ["S3"]}, {"settle": {"max_rounds": 10}}],
}


#: A task with state in each subtopology that there can be.
_EVERYWHERE = {f"T{n}": {"subtopology": n} for n in range(1_001)}


def changed(**parts: object) -> dict[str, Any]:
    return {**copy.deepcopy(GOOD), **parts}


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        ([], "the file: expected an object, not a list"),
        (changed(stepz=[]), "stepz: unknown key, did you mean steps?"),
        ({"tasks": {}, "instances": {}}, "steps: missing, expected a list"),
        (changed(seed=-1), "seed: expected a whole number, 0 or more, not -1"),
        (changed(seed=True), "seed: expected a whole number, 0 or more, not true"),
        (changed(tasks={"T1": {"weight": 0}}), "tasks.T1.weight: expected a whole number, 1 or"),
        (
            changed(instances={"S1": {"members": 10**9}, "S2": {}, "S3": {}}),
            "instances.S1.members: expected a whole number, 1 to 1000, not 1000000000",
        ),
        (changed(seed=10**30), "seed: expected a whole number, 0 to 1000000000000, not 1000"),
        (changed(seed=10**5_000), "seed: expected a whole number, 0 to 1000000000000, not <repr"),
        (
            changed(steps=[{"join": "S" * 10**6}]),
            f"steps[0].join: expected a list, not 'S{'S' * 98}…",
        ),
        (changed(tasks={"T1": []}), "tasks.T1: expected an object, not a list"),
        (
            changed(tasks={"T1": {"subtopology": 2}, "P1": {"subtopology": 2, "stateful": False}}),
            "tasks.P1.subtopology: 2 has tasks with state; all of a subtopology have state, or",
        ),
        (changed(tasks={"T1": {"subtopology": [2]}}), "tasks.T1.subtopology: expected a whole"),
        (
            changed(tasks={"P9": {"stateful": False}, **_EVERYWHERE}),
            "tasks.P9.subtopology: 0 has tasks with state",
        ),
        (changed(instances={"S1": {"capacity": 0}}), "instances.S1.capacity: expected a number"),
        (
            changed(instances={"S1": {"topology": {"1" * 5_000: "a"}}}),
            "instances.S1.topology.111",
        ),
        (changed(instances={"S1": {"mode": "fast"}}), "instances.S1.mode: unknown mode 'fast'"),
        (
            changed(instances={"S1": {"members": 2}, "S1-0": {}, "S2": {}, "S3": {}}),
            "instances.S1.members: its member S1-0 bears the name of an instance",
        ),
        (changed(config={"max.learners": 1}), "config.max.learners: unknown setting, did you mean"),
        (changed(config={"num.standby.replicas": "two"}), "config.num.standby.replicas = 'two'"),
        (changed(config={"rebalance.timeout.ms": 500}), "config"),
        (changed(start={"S9": {}}), "start.S9: unknown member 'S9', expected S1, S2, S3"),
        (
            changed(start={"S1": {"active": ["T1"]}, "S2": {"active": ["T1"]}}),
            "start.S2.active: T1 is active in S1 already",
        ),
        (
            changed(start={"S1": {"standby": ["P1"]}}),
            "start.S1.standby.P1: is stateless, expected a stateful task",
        ),
        (changed(start={"S1": {"learner": {"T1": -5}}}), "start.S1.learner.T1: expected a whole"),
        (changed(leader="S3"), "leader: S3-0 is not in start"),
        (changed(network={"loss": 2}), "network.loss: expected a chance, 0 to 1, not 2"),
        (changed(network={"delay_ms": [5]}), "network.delay_ms: expected two whole numbers"),
        (changed(steps=[{"jion": ["S3"]}]), "steps[0].jion: unknown key, did you mean join?"),
        (changed(steps=[{"join": "S3"}]), "steps[0].join: expected a list, not 'S3'"),
        (changed(steps=[{"join": ["S1"]}]), "steps[0].join: S1 is in the group already"),
        (changed(steps=[{"crash": ["S3"]}]), "steps[0].crash: S3 is not in the group at this step"),
        (changed(steps=[{"expel": ["S3"]}]), "steps[0].expel: S3 is not in the group at this step"),
        (changed(steps=[{"busy": {"S1": -1}}]), "steps[0].busy.S1: expected a whole number"),
        (changed(steps=[{"slow_copies": {"S9": 1}}]), "steps[0].slow_copies.S9: unknown member"),
        (changed(steps=[{"short_log": {"P1": 5}}]), "steps[0].short_log.P1: is stateless"),
        (changed(steps=[{"timeout_ms": 5}]), "steps[0].timeout_ms: expected beside drain"),
        (changed(steps=[{"drain_percent": 0}]), "steps[0].drain_percent: expected a number above"),
        (changed(steps=[{"settle": True}]), "steps[0].settle: expected an object, not true"),
        (changed(steps=[{"ready": {"S1": "some"}}]), "steps[0].ready.S1: unknown choice of tasks"),
        (changed(steps=[{"lag": {"S1": {"T9": 5}}}]), "steps[0].lag.S1.T9: unknown task 'T9'"),
        (
            changed(steps=[{"lose": [{"from": "S1", "request": "Fetch"}]}]),
            "steps[0].lose[0].request: unknown request 'Fetch', expected JoinGroup",
        ),
        (changed(steps=[{"add_tasks": {"T1": {}}}]), "steps[0].add_tasks.T1: this task is there"),
        (
            changed(expect={"rebalance": 1}),
            "expect.rebalance: unknown key, did you mean rebalances?",
        ),
        (changed(expect={"final": {"S1": ["T7"]}}), "expect.final.S1[0]: unknown task 'T7'"),
        (changed(expect={"kept": ["T1", "T1"]}), "expect.kept[1]: T1 is there twice"),
    ],
)
def test_what_cannot_be_played_is_refused_with_the_key_and_what_was_expected(
    scenario: object, message: str
) -> None:
    with pytest.raises(ScenarioError) as refused:
        parse_scenario(scenario)
    assert any(problem.startswith(message) for problem in refused.value.problems), refused.value
    assert refused.value.exit_code == 2


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(ScenarioError) as refused:
        parse_scenario(changed(seed="x", leader="S9", expect={"in_band": 1}))
    assert len(refused.value.problems) == 3


#: One of each thing there is in the format.
FULL: dict[str, Any] = {
    "name": "everything",
    "seed": 3,
    "config": {"num.standby.replicas": 1, "instance.tags": {"zone": "a"}},
    "tasks": {"T1": {"weight": 2, "changelog_end": 5}, "T2": {"stateful": False, "subtopology": 1}},
    "instances": {
        "S1": {"members": 2, "capacity": 1.5, "tags": {"zone": "a"}, "mode": "incremental"},
        "S2": {"instance_id": "two", "learners": False},
        "S3": {},
    },
    "start": {
        "S1": {"active": ["T2"], "learner": {"T1": 500}},
        "S2": {"active": ["T1"]},
        "S3": {"dormant": {"T1": 2}},
    },
    "leader": "S1-1",
    "network": {"loss": 0.1, "duplicate": 0.1, "delay_ms": [0, 5]},
    "steps": [
        {
            "lose": [{"from": "S1", "request": "SyncGroup", "nth": 2, "answer": True}],
            "advance_ms": 5,
        },
        {"ready": {"S1": "all", "S2": ["T1"]}, "lag": {"S1": {"T1": 500}}},
        {"pause": ["S1"]},
        {"resume": ["S1"], "truncate": ["T1"], "coordinator_restart": True},
        {"busy": {"S1": 20}, "slow_control": {"S1-1": 20}, "slow_copies": {"S2": 20}},
        {"expel": ["S1"], "short_log": {"T1": 20}},
        {"drain": ["S2"], "timeout_ms": 5},
        {"cancel_drain": ["S2"]},
        {"drain_percent": 80},
        {"crash": ["S3"]},
        {"join": ["S3"], "restart": ["S1"], "add_tasks": {"N1": {"weight": 2}}},
        {"settle": {"max_rounds": 100}},
    ],
    "expect": {
        "rebalances": 1,
        "max_rebalances": 9,
        "final_loads": [1, 2],
        "exited": ["S3"],
        "exited_count": 1,
        "cold_moves": 0,
        "max_learners": 2,
        "stateful_moves": 2,
        "final": {"S1": ["T1"]},
        "kept": ["T2"],
        "in_band": True,
    },
}


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Where there is something, deepest first."""
    inside: list[tuple[str | int, ...]] = []
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in pairs:
            inside += places(one, (*path, key))
    return [*inside, path] if path else inside


@pytest.mark.parametrize(
    "value", [None, -1, 0.5, True, "", "nobody", [], ["nobody"], {}, {"nobody": 1}, 10**20]
)
def test_whatever_stands_where_it_should_not_is_named_by_its_key(value: object) -> None:
    """Each value in the place of every other: played, or refused with the key's name."""
    parse_scenario(FULL)
    refused, unnamed = 0, []
    for path in places(FULL):
        scenario = copy.deepcopy(FULL)
        into: Any = scenario
        for key in path[:-1]:
            into = into[key]
        into[path[-1]] = value
        try:
            parse_scenario(scenario)
        except ScenarioError as error:
            refused += 1
            if not any(str(path[0]) in problem for problem in error.problems):
                unnamed.append((path, error.problems))
    assert refused > 20
    # Without a name that others use it is they who are wrong.
    assert {path[0] for path, _ in unnamed} <= {"tasks", "instances", "start", "steps"}, unnamed


def test_check_and_keys_that_begin_with_x_are_free() -> None:
    free = changed(check={"what": "ever"})
    free["x-why"] = free["tasks"]["x-note"] = free["steps"][0]["x-then"] = "for people"
    assert parse_scenario(free).steps == parse_scenario(GOOD).steps


def test_steps_that_are_added_one_by_one_are_those_of_the_whole_scenario() -> None:
    steps = [*GOOD["steps"], {"add_tasks": {"T3": {}}}, {"truncate": ["T3"]}, {"leave": ["S3"]}]
    growing = GrowingScenario(GOOD)
    assert growing.beginning == parse_scenario(changed(steps=[]))
    assert tuple(map(growing.add, steps)) == parse_scenario(changed(steps=steps)).steps


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"leaf": ["S1"]}, r"steps\[1\].leaf: unknown key, did you mean leave?"),
        ({"leave": ["S9"]}, r"steps\[1\].leave"),
        ({"join": ["S3"]}, r"steps\[1\].join: S3 is in the group already"),
    ],
)
def test_a_step_that_is_added_and_cannot_be_played_is_refused(
    step: dict[str, Any], message: str
) -> None:
    growing = GrowingScenario(GOOD)
    growing.add({"join": ["S3"]})
    with pytest.raises(ScenarioError, match=message):
        growing.add(step)


def test_an_instance_that_was_drained_may_be_gone_or_not() -> None:
    """When it leaves hangs on its hand-overs, so a later step may speak of it either way."""
    steps = [{"drain": ["S2"]}, {"settle": {}}, {"crash": ["S2"]}, {"join": ["S2"]}]
    assert simulate(parse_scenario(changed(steps=steps))).held


# -- what is broken is seen ------------------------------------------------------------------------


def outright(state: GroupState) -> Plan:
    """Give every task to the last member, whoever runs it."""
    next_owner = max(member.member_id for member in state.members)
    tasks = frozenset(info.task for info in state.tasks)
    return Plan(
        {
            member.member_id: MemberPlan(
                active=tasks if member.member_id == next_owner else frozenset()
            )
            for member in state.members
        }
    )


def by_order(state: GroupState) -> Plan:
    """Lead to another plan when the members come in another order."""
    return attrs.evolve(assign(state), out_of_band=(state.members[0].instance,))


def rules_of(result: dict[str, Any]) -> set[str]:
    return {broken["rule"] for broken in result["violations"]}


def test_a_plan_that_takes_a_task_from_a_live_owner_is_seen() -> None:
    outcome = simulate(parse_scenario(GOOD), assignor=outright)
    assert not outcome.held
    assert "U2" in rules_of(outcome.result)
    assert any(one["violations"] for one in outcome.result["rounds"])


def test_a_plan_that_depends_on_the_order_of_its_input_is_seen() -> None:
    assert "U8" in rules_of(simulate(parse_scenario(GOOD), assignor=by_order).result)


def test_an_assignor_that_raises_is_named_and_ends_the_run() -> None:
    def broken(state: GroupState) -> Plan:
        raise LookupError("no such thing")

    result = simulate(parse_scenario(GOOD), assignor=broken).result
    assert "LookupError: no such thing" in [one["text"] for one in result["violations"]]


def test_settling_that_takes_too_many_rounds_is_a_failure() -> None:
    steps = [{"join": ["S3"]}, {"settle": {"max_rounds": 1}}]
    assert "settle" in rules_of(simulate(parse_scenario(changed(steps=steps))).result)


def test_a_state_that_does_not_fit_its_commit_is_seen() -> None:
    """S3: were the changelog read without looking at the numbers, this would be the outcome."""
    simulation = Simulation(parse_scenario(changed(steps=[])))
    (owner,) = simulation.world.of("S1")
    active = min(owner.worker.registry.tasks.values(), key=lambda active: active.task)
    simulation.world.cluster.write(active.task, active.contained, 99)
    for step in parse_scenario(changed(steps=[{"restart": ["S1"]}])).steps:
        simulation.play(step)
    assert "S3" in rules_of(simulation.result())


def test_a_run_ends_where_an_operator_has_to_decide_about_a_lost_state() -> None:
    steps = [{"crash": ["S1"], "short_log": {"T1": 60_000}}, {"advance_ms": 40_000}]
    result = simulate(parse_scenario(changed(steps=steps))).result
    assert rules_of(result) == {"given up"}
    assert "state.mismatch.policy" in result["violations"][0]["text"]


def thrown_out_and_back() -> Simulation:
    """S1 lost its tasks and has joined again; its worker has not come round since."""
    simulation = Simulation(parse_scenario(GOOD))
    (old,), (new,) = simulation.world.of("S1"), simulation.world.of("S2")
    task = min(old.worker.registry.tasks)
    old.session._losses += 1
    new.worker.adopt(task, new.machine.view.member_id)
    simulation.world.checks.started(new, task)
    return simulation


def test_a_worker_that_has_not_seen_its_loss_does_no_harm_beside_the_new_owner() -> None:
    simulation = thrown_out_and_back()
    assert simulation.result()["violations"] == []


def test_a_commit_of_a_worker_that_has_not_seen_its_loss_is_seen_beside_the_new_owner() -> None:
    """Were it sent, the coordinator would take it: the member's new id is good."""
    simulation = thrown_out_and_back()
    (old,) = simulation.world.of("S1")
    task = min(old.worker.registry.tasks)
    text = CommitMetadata(9, old.machine.view.member_id, 1, {}, NO_STATE).to_text()
    request = OffsetCommit("g", 1, old.machine.view.member_id, None, {input_of(task): (1, text)})
    simulation.world.checks.committed(old, request, OffsetCommitAnswer({input_of(task): 0}))
    assert rules_of(simulation.result()) == {"S2"}


def test_a_failing_history_is_a_scenario_that_fails_the_same_way() -> None:
    run = random_run(1, 40, assignor=outright)
    assert not run.held
    again = simulate(parse_scenario(run.scenario), assignor=outright)
    assert run.violations[0]["rule"] in rules_of(again.result)


def test_the_same_seed_makes_up_the_same_histories() -> None:
    assert random_run(5, 60) == random_run(5, 60)


def test_held_tasks_that_are_resumed_though_others_worked_on_them_are_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """V13, found by a model: the file holds only because the last commit is compared."""
    stale = Path(__file__).parents[2] / "spec" / "scenarios" / "modes-flip-stale.json"
    assert simulate(read_scenario(stale)).held
    monkeypatch.setattr(Positions, "are", lambda *_: True)
    broken = {one["rule"] for one in simulate(read_scenario(stale)).result["violations"]}
    assert "S1" in broken


def test_tasks_of_one_kind_are_in_a_subtopology_of_their_own() -> None:
    tasks: dict[str, Any] = {
        "P1": {"stateful": False},
        "T1": {},
        "P2": {"stateful": False},
        "T2": {"subtopology": 1},
        "P3": {"subtopology": 2, "stateful": False},
    }
    scenario = parse_scenario(changed(tasks=tasks, start={}))
    places = {spec.label: str(spec.task) for spec in scenario.tasks}
    assert places == {"P1": "0_0", "T1": "1_0", "P2": "0_1", "T2": "1_1", "P3": "2_0"}


def test_random_histories_have_stateless_tasks_of_their_own() -> None:
    heads = [random_cluster(str(seed), random.Random(seed)) for seed in range(20)]
    added = [head for head in heads if "P1" in head["tasks"]]
    assert 2 <= len(added) < 18
    running = [one["active"] for head in added for one in head.get("start", {}).values()]
    assert any(label.startswith("P") for active in running for label in active)
