"""Positions, logs, folders and topology disagree at random: no count is wrong without a word.

``test_disagreements.py``, ``test_failures.py`` and others make them happen one by one.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from streamlet.testing import KafkaBroker
from tests.integration.chaos.disagreements import KINDS, World, random_rounds

pytestmark = [pytest.mark.integration, pytest.mark.chaos, pytest.mark.long]


def test_no_count_is_wrong_without_an_error_that_names_why(
    tmp_path: Path, seed: int, rounds: int
) -> None:
    dice = random.Random(seed)
    happened: Counter[str] = Counter()
    with KafkaBroker(data_dir=tmp_path / "broker") as broker:
        world = World(broker, tmp_path, dice)
        try:
            world.send(2_000)
            for faults in random_rounds(dice, rounds):
                assert world.goes_on(), world.cluster.logs()
                world.await_both()
                world.stop(kill=dice.random() < 0.5)
                for fault in faults:
                    fault.make(world)
                    happened[fault.name] += 1
                print([fault.name for fault in faults])
                world.recover(faults)
        finally:
            world.end()
    print(f"{dict(happened)}, refusals {dict(world.told)}, resets {world.resets}")
    assert set(happened) == {kind.name for kind in KINDS}
    assert world.told["state.mismatch.policy"] >= 2
    assert world.told["the topology changed under its state"] >= 2
