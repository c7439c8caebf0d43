"""Where a plain consumer begins without a committed position."""

from __future__ import annotations

from tests.unit.test_consumer import FAST, Scene, scene

__all__ = ["scene"]  # a fixture


def test_a_partition_that_is_added_under_latest_is_read_whole(scene: Scene) -> None:
    consumer = scene.consumer({**FAST, "metadata.max.age.ms": 30, "auto.offset.reset": "latest"})
    scene.poll_until(scene.shared(4))
    scene.log.delete("t")
    scene.log.create("t", 6)
    scene.write(5, *"ab")
    assert [next(consumer).value, next(consumer).value] == [b"a", b"b"]
