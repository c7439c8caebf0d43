"""The seeds' worked examples, and more in the same format, played by the simulator."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from streamlet.testing.simulation import Scenario, read_scenario, simulate, table
from streamlet.testing.simulation.events import Expect, NetworkSpec

FILES = sorted((Path(__file__).parent / "scenarios").glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_a_scenario_expects_comes_true(path: Path) -> None:
    outcome = simulate(read_scenario(path))
    assert outcome.held, table(outcome.result)


def without_limits(scenario: Scenario) -> Scenario:
    """Lost commits cost rebalances, so no bound on their number holds."""
    steps = tuple(
        attrs.evolve(step, settle_rounds=None if step.settle_rounds is None else 1_000)
        for step in scenario.steps
    )
    rough = NetworkSpec(loss=0.01, duplicate=0.05, delay_ms=(0, 150))
    return attrs.evolve(scenario, network=rough, steps=steps, expect=Expect())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_rule_is_broken_when_messages_are_late_lost_and_doubled(path: Path) -> None:
    outcome = simulate(without_limits(read_scenario(path)), seed=7)
    assert outcome.held, table(outcome.result)


def test_the_examples_of_the_seeds_are_all_there() -> None:
    seeds = {path.stem.partition("-")[0] for path in FILES}
    assert {"000", "001", "002"} <= seeds
    assert len(FILES) >= 31


def test_the_same_seed_is_the_same_run_whatever_the_hash_seed() -> None:
    path = next(path for path in FILES if path.stem == "handover-rough-network")
    code = (
        "import json, sys; from pathlib import Path;"
        "from streamlet.testing.simulation import read_scenario, simulate;"
        "print(json.dumps(simulate(read_scenario(Path(sys.argv[1]))).result))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code, str(path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=120,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
