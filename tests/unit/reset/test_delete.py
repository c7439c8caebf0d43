"""A deletion takes what is the application's own, refuses while it runs, and can be finished."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from streamlet.admin.window import ApplicationInfo
from streamlet.config import Settings
from streamlet.control.topic import control_topic_name
from streamlet.control.view import ControlView
from streamlet.errors import (
    BrokerError,
    DeletionDisabledError,
    MissingRightError,
    NotFoundError,
    RefusedError,
    TimedOutError,
)
from streamlet.reset import commands
from streamlet.reset.delete import DeletePlan, Deletion
from streamlet.tools import delete as tool
from streamlet.tools.main import build
from tests.unit.reset.scene import BETWEEN, COUNTS, FOREIGN, Scene
from tests.unit.scaling.group import member

CONTROL = control_topic_name("words")
PLAN = DeletePlan("words", (), CONTROL, ("words-x-changelog",), 3)


def test_its_own_topics_its_group_and_its_control_topic_go(scene: Scene) -> None:
    scene.log.create("words-notes-changelog", 1)  # a user's: its records prove nothing
    scene.log.append(scene.first("words-notes-changelog"), [b"k"], [b"v"])
    before = scene.admin.topics().keys()
    planned = Deletion(scene.window()).plan()
    assert scene.admin.topics().keys() == before
    assert planned.as_dict(done=False) == {
        "application": "words",
        "topics": [BETWEEN, COUNTS, CONTROL],
        "positions": 2,
        "left": ["words-notes-changelog"],
        "done": False,
    }
    assert Deletion(scene.window()).carry_out() == planned
    assert before - scene.admin.topics().keys() == {BETWEEN, COUNTS, CONTROL}
    assert FOREIGN in scene.admin.topics()
    assert scene.coordinator.positions == {}
    with pytest.raises(NotFoundError, match="no application 'words'"):
        Deletion(scene.window()).plan()


def test_one_that_runs_is_refused_and_nothing_changes(scene: Scene) -> None:
    scene.coordinator.members = (member("h1"),)
    for attempt in (Deletion(scene.window()).plan, Deletion(scene.window()).carry_out):
        with pytest.raises(RefusedError, match="words is running: 1 member"):
            attempt()
    assert {BETWEEN, COUNTS, CONTROL} <= scene.admin.topics().keys()
    assert scene.view() == ControlView()


def test_brokers_that_delete_no_topics_leave_it_as_it_was(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(names: object) -> None:
        raise DeletionDisabledError("delete.topic.enable=false")

    monkeypatch.setattr(scene.admin, "delete_topics", refuse)
    with pytest.raises(DeletionDisabledError):
        Deletion(scene.window()).carry_out()
    assert scene.view() == ControlView()


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        (68, RefusedError, "an instance of words joined"),
        (30, MissingRightError, "--operation Delete --group words"),
        (14, BrokerError, "COORDINATOR_LOAD_IN_PROGRESS"),
    ],
)
def test_one_broken_off_lets_no_instance_start_and_is_finished_by_the_next(
    scene: Scene, code: int, error: type[Exception], said: str
) -> None:
    scene.coordinator.codes = [code]
    with pytest.raises(error, match=said) as raised:
        Deletion(scene.window()).carry_out()
    assert "unfinished" in str(raised.value)
    assert COUNTS not in scene.admin.topics()
    pending = scene.view().reset.pending
    assert pending is not None
    assert {topic.name for topic in pending} == {BETWEEN, COUNTS}
    Deletion(scene.window()).carry_out()
    assert scene.admin.topics().keys() == {"lines", FOREIGN, control_topic_name("words-eu")}


def test_a_reset_takes_one_broken_off_back(scene: Scene) -> None:
    scene.coordinator.codes = [68]
    with pytest.raises(RefusedError):
        Deletion(scene.window()).carry_out()
    scene.reset().carry_out()
    assert {BETWEEN, COUNTS} <= scene.admin.topics().keys()
    assert scene.view().reset.pending is None


def test_a_group_that_has_expired_is_no_failure(scene: Scene) -> None:
    scene.coordinator.codes = [69]
    Deletion(scene.window()).carry_out()
    assert CONTROL not in scene.admin.topics()


def test_topics_that_do_not_go_end_the_wait_with_what_to_do(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def later(names: object) -> None:
        scene.stopped.set()  # Ctrl-C ends the wait

    monkeypatch.setattr(scene.admin, "delete_topics", later)
    with pytest.raises(TimedOutError, match="deletion is unfinished"):
        Deletion(scene.window()).carry_out()


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str, str]:
    info = ApplicationInfo("words", Settings.load())

    def carry_out(known: object, ask: object, **ways: object) -> tuple[DeletePlan, bool]:
        return PLAN, not ways["dry_run"] and ask(PLAN)  # type: ignore[operator]

    monkeypatch.setattr(tool, "scaled", lambda common, app: info)
    monkeypatch.setattr(commands, "delete", carry_out)
    result = CliRunner().invoke(build(), ["delete", "words", *words])
    return result.exit_code, result.stdout, result.stderr


def test_the_command_asks_shows_and_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = run(monkeypatch)
    assert (code, out) == (5, "")
    assert "nothing was deleted; give --yes to go on" in err
    code, out, err = run(monkeypatch, "--yes", "--json")
    assert (code, json.loads(out)) == (0, PLAN.as_dict(done=True))
    assert "left as they are" in err
    code, out, err = run(monkeypatch, "--dry-run", "--json")
    assert (code, json.loads(out)["done"]) == (0, False)
