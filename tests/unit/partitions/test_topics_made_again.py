"""Topics that are deleted and made again while consumers read them."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.unit.test_consumer import FAST, Calls, Scene, scene, tp

__all__ = ["scene"]  # a fixture


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_topic_that_was_made_again_is_read_from_its_first_record(
    scene: Scene, caplog: pytest.LogCaptureFixture, policy: str
) -> None:
    """By both members, of which one leads; as many records as before are no hint in offsets."""
    calls = Calls()
    config = {**FAST, "metadata.max.age.ms": 30, "auto.offset.reset": policy}
    for _ in range(2):
        scene.consumer(config, **calls.options())
    scene.poll_until(scene.shared(2, 2))
    for n in range(4):
        scene.write(n, "old", "older")
    scene.poll_until(lambda: sum(map(len, scene.read.values())) == 8)
    scene.log.delete("t")
    scene.log.create("t", 4)
    for n in range(4):
        scene.write(n, "new", "newer")
    scene.poll_until(lambda: sum(map(len, scene.read.values())) == 16)
    values = Counter(value for one in scene.consumers for value in scene.values(one))
    assert values == {"old": 4, "older": 4, "new": 4, "newer": 4}
    assert caplog.text.count("t was deleted and made again: ") == 2
    assert sorted(p for found in calls.of("on_lost") for p in found) == [tp(n) for n in range(4)]


def test_a_position_in_a_topic_that_was_made_again_since_does_not_count(scene: Scene) -> None:
    """One is committed by a consumer that has not noticed, after the broker deleted the others."""
    scene.write(0, "old", "older")
    with scene.consumer({**FAST, "auto.offset.reset": "latest"}, auto_commit=False) as first:
        scene.poll_until(scene.shared(4))
        first.seek(tp(0), 0)
        scene.poll_until(lambda: len(scene.read[first]) == 2)
        scene.log.delete("t")
        scene.log.create("t", 4)
        scene.write(0, *"abc")
        first.commit()
    assert scene.committed(0) == 2
    scene.consumers.clear()
    second = scene.consumer({**FAST, "auto.offset.reset": "latest"})
    scene.poll_until(lambda: len(scene.read[second]) == 3)
    assert scene.values(second) == ["a", "b", "c"]
    second.commit()
    second.close()
    scene.consumers.clear()
    third = scene.consumer()
    scene.write(0, "d")
    scene.poll_until(lambda: bool(scene.read[third]))
    assert scene.values(third) == ["d"]
