"""A reset in two steps, between which another fills the changelogs."""

from __future__ import annotations

import pytest

from streamlet.control.values import ChangelogTypes, ResetEpoch
from streamlet.errors import RefusedError
from streamlet.types import TopicPartition
from tests.unit.reset.scene import Scene
from tests.unit.scaling.group import member


def test_emptied_topics_are_filled_before_positions_are_set(scene: Scene) -> None:
    before = dict(scene.coordinator.positions)
    types = ("str", "int")
    scene.write(ChangelogTypes("words-gone-changelog", "gone", types, "id"))
    plan, ids = scene.reset().empty()
    assert scene.view().reset.pending is not None
    assert scene.coordinator.positions == before
    scene.coordinator.members = (member("h1", "0_0"),)
    with pytest.raises(RefusedError, match="is running"):
        scene.reset().finish(plan, ids, plan.positions())
    scene.coordinator.members = ()
    at = TopicPartition("lines", 0)
    filled = ChangelogTypes("words-counts-changelog", "counts", types, "id")
    scene.reset().finish(plan, ids, {at: (7, "text")}, types=[filled])
    assert scene.coordinator.positions[at] == (7, "text")
    assert scene.view().reset == ResetEpoch(1, 1_000)
    assert scene.view().types == {filled.changelog: filled}


@pytest.mark.parametrize("other", ["carry_out", "empty"])
def test_topics_that_another_command_emptied_meanwhile_are_not_finished(
    scene: Scene, other: str
) -> None:
    plan, ids = scene.reset().empty()
    getattr(scene.reset(), other)()
    before = dict(scene.coordinator.positions)
    with pytest.raises(RefusedError, match="by another command meanwhile"):
        scene.reset().finish(plan, ids, {TopicPartition("lines", 0): (7, "text")})
    assert scene.coordinator.positions == before
