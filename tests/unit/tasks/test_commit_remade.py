"""The one more commit of a task whose topic was deleted and made again."""

from __future__ import annotations

import random
from pathlib import Path

from tests.unit.tasks.owners import CHANGELOG, Owner, World


def test_one_more_commit_is_enough(tmp_path: Path) -> None:
    """A worker that stops commits until nothing has changed, and opens no task again."""
    world = World(tmp_path, random.Random(1))
    world.log.create("words", 1)
    world.log.create(CHANGELOG.topic, 1)
    owner = Owner(world)
    list(owner.steps())
    assert not owner.active.changed
    owner.active.remade = True
    assert owner.active.changed
    list(owner.steps())
    assert not owner.active.changed
    owner.die()
