"""A simulated worker is the one that ships: it meets what its ports can do to it."""

from __future__ import annotations

import pytest

from streamlet.testing.simulation import parse_scenario
from streamlet.testing.simulation.counting import input_of
from streamlet.testing.simulation.run import Simulation
from tests.unit.testing.test_simulation import changed


def losses_of(name: str, simulation: Simulation) -> int:
    """How often the one member of an instance lost all its tasks."""
    (member,) = simulation.world.of(name)
    return member.worker.worker.meters.lost


@pytest.mark.parametrize("given_up", [True, False])
def test_a_worker_loses_all_if_records_are_given_up_and_waits_if_they_are_refused(
    monkeypatch: pytest.MonkeyPatch, given_up: bool
) -> None:
    simulation = Simulation(parse_scenario(changed(steps=[])))
    refused: list[bool] = []

    def refuses() -> bool:
        refused.append(not refused)
        return refused[-1]

    network = simulation.world.network
    monkeypatch.setattr(network, "refuses", refuses)
    monkeypatch.setattr(network, "gives_up", lambda: given_up)
    before = [losses_of("S1", simulation), losses_of("S2", simulation)]
    for step in parse_scenario(changed(steps=[{"advance_ms": 10_000}, {"settle": {}}])).steps:
        assert simulation.play(step)
    lost = losses_of("S1", simulation) + losses_of("S2", simulation) - sum(before)
    assert (refused[:2], lost) == ([True, False], int(given_up))
    assert simulation.result()["violations"] == []


def test_a_worker_that_leaves_out_input_is_seen() -> None:
    """So would a member that lost a task, and goes on behind what its new owner had deleted."""
    simulation = Simulation(parse_scenario(changed(steps=[])))
    (owner,) = simulation.world.of("S1")
    simulation.world.cluster.delete_input({input_of(min(owner.worker.registry.tasks)): 1_000})
    for step in parse_scenario(changed(steps=[{"advance_ms": 10_000}])).steps:
        simulation.play(step)
    (broken,) = simulation.result()["violations"]
    assert ": 1000 comes in place of" in broken["text"]
