"""``streamlet list``, and ``describe`` of an application on a cluster, without its program."""

from __future__ import annotations

import pytest

import streamlet as sl
from streamlet.admin.applications import applications, description_of
from streamlet.control.topic import prepare_control
from streamlet.control.values import Mark, ResetEpoch
from streamlet.errors import NotFoundError
from streamlet.topology.description import MOST_CHARS, description, noted
from tests.unit.reset.scene import ran
from tests.unit.scaling.group import member


def words() -> sl.App:
    app = sl.App("words")
    app.stream("lines", key=str, value=str).group_by_key().count(store="counts")
    return app


def test_every_application_is_listed_by_its_control_topic() -> None:
    scene = ran()  # it has the control topic of "words-eu", too
    prepare_control(scene.admin, "other")
    scene.log.create("-streamlet-control", 1)  # of an application without a name: none
    scene.log.create("big-streamlet-control", 3)
    scene.coordinator.members = (member("h1"), member("h2"))
    scene.write(Mark("process-h1", 1, name="h1"), ResetEpoch(1, 1, pending=()))
    found = applications(scene.window())
    assert [one.name for one in found] == ["other", "words", "words-eu"]
    assert found[1].as_dict() == {
        "application": "words",
        "state": "Stable",
        "instances": 2,
        "members": 2,
        "leaving": 1,
        "version": None,
        "paused": False,
        "reset_unfinished": True,
    }
    assert (found[1].note, found[0].note) == ("a reset is unfinished", "")


def test_a_group_that_is_gone_or_hidden_has_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = ran()
    scene.coordinator.hidden = {"words": 30, "words-eu": 0}
    states = {one.name: (one.state, one.instances) for one in applications(scene.window())}
    assert states == {"words": (None, 0), "words-eu": (None, 0)}


def test_the_description_is_what_the_leader_noted() -> None:
    scene, topology = ran(), words().topology()
    scene.write(noted(topology, "h1-0"))
    found = description_of(scene.window())
    assert (found.member, found.topology["application"]) == ("h1-0", "words")
    assert found.forms == description(topology).forms
    assert set(found.forms) == {"text", "java", "mermaid"}
    assert found.forms["text"].startswith("Topologies:\n")
    assert applications(scene.window())[0].version == found.version


def test_an_application_without_a_description_is_named() -> None:
    scene = ran()
    with pytest.raises(NotFoundError, match="has no description"):
        description_of(scene.window())
    scene.log.delete("words-streamlet-control")
    with pytest.raises(NotFoundError, match=r"no application 'words' .*, did you mean words-eu\?"):
        description_of(scene.window())


def test_a_topology_too_large_for_a_record_is_not_noted() -> None:
    app = sl.App("words")
    for number in range(MOST_CHARS // 300):
        app.stream(f"lines-{number}-{'x' * 200}", key=str, value=str).to("all")
    assert noted(app.topology(), "h1-0") is None
