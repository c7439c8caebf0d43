"""A reset reports its steps, and changes nothing when it is stopped before the first."""

from __future__ import annotations

import attrs
import pytest

from streamlet.control.view import ControlView
from tests.unit.reset.scene import BETWEEN, COUNTS, Scene
from tests.unit.reset.test_reset import Lags


def test_one_that_is_stopped_before_it_began_changes_nothing(scene: Scene) -> None:
    before = dict(scene.coordinator.positions)
    ids = scene.admin.topic_ids([COUNTS, BETWEEN])
    scene.stopped.set()
    with pytest.raises(KeyboardInterrupt, match="nothing was changed"):
        scene.reset().carry_out()
    assert scene.admin.topic_ids([COUNTS, BETWEEN]) == ids
    assert (scene.coordinator.positions, scene.view()) == (before, ControlView())


def test_each_step_reports_how_far_it_is(scene: Scene) -> None:
    shown: list[tuple[str, int, int]] = []

    def show(step: str, done: int, total: int) -> None:
        shown.append((step, done, total))

    scene.admin = Lags(scene.log)
    attrs.evolve(scene.reset(), progress=show).carry_out()
    assert list(dict.fromkeys(step for step, _, _ in shown)) == [
        "deleting topics",
        "making topics again",
        "setting positions",
    ]
    making = [(done, total) for step, done, total in shown if step == "making topics again"]
    assert making[0] == (0, 2)
    assert making[-1] == (2, 2)
    assert len(making) > 2, "and between them, while it waits"
