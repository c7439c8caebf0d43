"""``streamlet pause`` and ``resume`` note pauses in the control topic."""

from __future__ import annotations

import pytest

import streamlet as sl
from streamlet.control.values import ALL, PauseMark
from streamlet.errors import NotFoundError, RefusedError
from streamlet.scaling.pauses import PauseCommand, PauseResult
from streamlet.topology.description import description
from tests.unit.reset.scene import Scene, ran


@pytest.fixture
def scene() -> Scene:
    """It counts words, behind a repartition topic: subtopologies 0 and 1."""
    scene = ran()
    app = sl.App("words")
    words = app.stream("lines", key=str, value=str).group_by(lambda key, word: word)
    words.count(store="counts").to_stream().to("out")
    scene.write(description(app.topology(), "h1-0"))
    return scene


def pause(scene: Scene, subtopology: str | None = None) -> PauseResult:
    return PauseCommand(scene.window(), subtopology).pause("host-7")


def resume(scene: Scene, subtopology: str | None = None) -> PauseResult:
    return PauseCommand(scene.window(), subtopology).resume()


def test_an_application_is_paused_once_and_resumed(scene: Scene) -> None:
    first = pause(scene)
    entry = {"subtopology": None, "since_ms": first.pauses[0].since_ms, "by": "host-7"}
    assert first.as_dict() == {"application": "words", "paused": [entry], "changed": True}
    assert not pause(scene).changed
    assert scene.view().is_paused(1)
    assert resume(scene) == PauseResult("words", (), True)
    assert not resume(scene).changed
    assert scene.view().pauses == {}


@pytest.mark.parametrize(
    ("given", "what"), [("1", "1"), ("counts", "1"), ("out", "1"), ("lines", "0")]
)
def test_a_subtopology_is_named_by_number_or_by_what_only_it_has(
    scene: Scene, given: str, what: str
) -> None:
    if given == "out":  # a topic that it writes has no reader here
        with pytest.raises(NotFoundError, match="no subtopology of words with 'out'"):
            pause(scene, given)
        return
    assert [one.what for one in pause(scene, given).pauses] == [what]
    assert resume(scene, given).changed


def test_one_subtopology_of_a_paused_application_does_not_go_on(scene: Scene) -> None:
    pause(scene, "0")
    pause(scene)
    with pytest.raises(RefusedError, match="all of words is paused"):
        resume(scene, "0")
    assert {one for one in scene.view().pauses} == {"0", ALL}
    assert resume(scene).changed
    assert scene.view().pauses == {}


def test_what_is_not_there_is_refused(scene: Scene) -> None:
    with pytest.raises(NotFoundError, match="no subtopology of words with '7'"):
        pause(scene, "7")
    scene.log.delete("words-streamlet-control")
    for command in (pause, resume):
        with pytest.raises(NotFoundError, match="no application 'words'"):
            command(scene)


def test_without_a_description_a_number_is_believed() -> None:
    scene = ran()
    assert pause(scene, "3").pauses[0].what == "3"
    with pytest.raises(NotFoundError):
        pause(scene, "counts")
    assert scene.view().pauses.keys() == {"3"}
    assert isinstance(scene.view().pauses["3"], PauseMark)
