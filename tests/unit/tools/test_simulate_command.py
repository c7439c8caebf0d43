"""``streamlet simulate``: what it prints where, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from streamlet.testing.simulation import RandomRun
from streamlet.tools.main import build

JOIN: dict[str, Any] = {
    "name": "a second instance comes",
    "tasks": {"T1": {}, "T2": {}},
    "instances": {"S1": {}, "S2": {}},
    "start": {"S1": {"active": ["T1", "T2"]}},
    "steps": [{"join": ["S2"]}, {"ready": {"S2": "all"}}],
    "expect": {"rebalances": 2, "final_loads": [1, 1]},
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(build(), ["simulate", *arguments])


def unboxed(text: str) -> str:
    """The words of a message, which is printed in a box."""
    return " ".join(text.replace("\u2502", " ").split())


@pytest.fixture
def play(tmp_path: Path) -> Any:
    def play(scenario: dict[str, Any], *options: str) -> Result:
        path = tmp_path / "scenario.json"
        path.write_text(json.dumps(scenario))
        return run(str(path), *options)

    return play


def test_a_scenario_that_holds_ends_with_0_and_its_rounds_as_a_table(play: Any) -> None:
    result = play(JOIN)
    assert result.exit_code == 0
    assert "round 2  step 1" in result.stdout
    assert "T1→S2" in result.stdout


def test_json_is_one_document_with_the_keys_of_the_format(play: Any) -> None:
    result = play(JOIN, "--json")
    document = json.loads(result.stdout)
    assert set(document) == {"name", "rounds", "final", "totals", "metadata_bytes", "violations"}
    first, second = document["rounds"]
    assert set(first) == {
        *("step", "generation", "reason", "leader", "now_ms", "joined", "assigned"),
        *("follow_up", "violations"),
    }
    assert set(first["joined"]["S1"]) == {
        *("active", "surrendered", "learner", "ready", "standby", "pending", "released"),
        "leaving",
    }
    assert set(first["assigned"]["S1"]) == {
        *("active", "being_learned", "release", "revoke", "pending", "learner", "standby"),
        "leave",
    }
    assert first["assigned"]["S2"]["learner"] == {"T1": "S1"}
    assert second["assigned"]["S1"]["active"] == ["T1", "T2"], "a task under release stays there"
    assert second["assigned"]["S1"]["release"] == {"T1": "S2"}
    assert second["assigned"]["S2"]["pending"] == {"T1": "S1"}
    assert second["assigned"]["S2"]["learner"] == {}
    assert document["final"]["S2"] == {
        "active": ["T1"], "learner": [], "standby": [], "exited": False
    }  # fmt: skip
    assert document["totals"]["rounds_to_stable"] == [1, 1]
    assert document["metadata_bytes"]["group_total"] > 0


def test_an_expectation_that_fails_ends_with_1_and_is_named(play: Any) -> None:
    wrong = {**JOIN, "expect": {"rebalances": 3, "final_loads": [2]}}
    result = play(wrong)
    assert result.exit_code == 1
    assert "broken expect.rebalances: expected 3, found 2" in result.stdout
    assert "expect.final_loads" in result.stdout
    as_json = play(wrong, "--json")
    assert as_json.exit_code == 1
    rules = [broken["rule"] for broken in json.loads(as_json.stdout)["violations"]]
    assert rules == ["expect.rebalances", "expect.final_loads"]


def test_a_scenario_that_cannot_be_played_ends_with_2_and_names_key_and_expectation(
    play: Any,
) -> None:
    result = play({**JOIN, "steps": [{"join": ["S9"]}, {"jump": 1}]}, "--json")
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]["message"]
    assert "steps[0].join[0]: unknown instance 'S9', expected S1, S2" in error
    assert "steps[1].jump: unknown key" in error


def test_a_setting_can_be_changed_for_a_run(play: Any) -> None:
    assert play(JOIN, "--set", "acceptable.recovery.lag=200000").exit_code == 0
    result = play(JOIN, "--set", "stream.imbalance.percentage=20")
    assert result.exit_code == 2
    assert "config.stream.imbalance.percentage" in result.stderr


def test_neither_or_both_of_scenario_and_random_are_refused(play: Any) -> None:
    assert run().exit_code == 2
    assert play(JOIN, "--random").exit_code == 2


def test_made_up_histories_say_how_many_there_were() -> None:
    result = run("--random", "--seed", "3", "--steps", "40", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert document["steps"] >= 40
    assert document["scenario"] is None
    assert document["violations"] == []


def test_a_page_is_written_beside_the_answer(play: Any, tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    result = play(JOIN, "--html", str(page), "--json")
    assert result.exit_code == 0
    assert result.stdout == play(JOIN, "--json").stdout
    assert "plays it in a browser" in result.stderr
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert '"name":"a second instance comes"' in page.read_text("utf-8")


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_played(
    play: Any, tmp_path: Path
) -> None:
    for place, why in (
        (tmp_path / "none" / "out.html", "there is no folder"),
        (tmp_path, "it is a folder"),
        (tmp_path / "scenario.json", "it is the scenario"),
    ):
        result = play(JOIN, "--html", str(place))
        assert result.exit_code == 2
        assert why in unboxed(result.stderr)
        assert result.stdout == ""
    full = Path("/dev/full")
    assert full.is_char_device()
    late = play(JOIN, "--html", str(full))
    assert late.exit_code == 2
    assert "No space left" in unboxed(late.stderr)


def test_of_made_up_histories_only_one_that_fails_has_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "out.html"
    held = run("--random", "--steps", "1", "--html", str(page))
    assert held.exit_code == 0
    assert "is not written: no history failed" in held.stderr
    assert not page.exists()
    failing = {**JOIN, "expect": {"rebalances": 3}}
    broken = [{"rule": "expect.rebalances", "text": "", "tasks": [], "members": []}]
    found = RandomRun(0, 2, 1, 2, failing, broken)
    monkeypatch.setattr("streamlet.testing.simulation.random_run", lambda *_, **__: found)
    failed = run("--random", "--html", str(page))
    assert failed.exit_code == 1
    assert json.loads(failed.stdout) == failing
    assert '"rule":"expect.rebalances"' in page.read_text("utf-8")
