"""The page that plays a simulation: its moments, and a file that holds hostile names as text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from streamlet.testing.simulation import moments as moments_file
from streamlet.testing.simulation import parse_scenario, playback_page, simulate
from streamlet.testing.simulation.moments import step_texts
from tests.unit.web.live.made_up import HOSTILE

HANDOVER: dict[str, Any] = {
    "name": "a second instance comes",
    "tasks": {"T1": {}, "T2": {}},
    "instances": {"S1": {}, "S2": {}},
    "start": {"S1": {"active": ["T1", "T2"]}},
    "steps": [{"join": ["S2"]}, {"ready": {"S2": "all"}}, {"crash": ["S1"]}],
    "expect": {"rebalances": 7, "kept": ["T2"]},
}


def hostile() -> dict[str, Any]:
    """A group whose every name tries to be more than a text."""
    first, second, task, other = HOSTILE[0], HOSTILE[3], HOSTILE[1], HOSTILE[5]
    return {
        "name": HOSTILE[1],
        "tasks": {task: {}, other: {}},
        "instances": {first: {"members": 2}, second: {}, "__proto__": {}},
        "start": {first: {"active": [task, other]}},
        "steps": [{"join": [second, "__proto__"]}, {"ready": {second: "all"}}, {"drain": [first]}],
        "expect": {"final": {second: [task]}, "rebalances": 99},
    }


def played(scenario: dict[str, Any]) -> dict[str, Any]:
    found = simulate(parse_scenario(scenario), watched=True).playback
    assert found is not None
    return found


class _Page(HTMLParser):
    """The tags of a page with their attributes, and the text of those that hold it raw."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        tag, attributes = self.tags[-1] if self.tags else ("", {})
        if tag in ("script", "style") and data.strip():
            self.raw.append((attributes.get("type") or tag, data))


def parsed(playback: dict[str, Any]) -> _Page:
    page = _Page()
    page.feed(playback_page(playback).decode())
    page.close()
    return page


def test_the_policy_allows_the_one_style_and_the_one_script_by_their_hashes() -> None:
    page = parsed(played(HANDOVER))
    raw = dict(page.raw)
    assert [kind for kind, _ in page.raw] == ["style", "application/json", "module"]
    allowed = {
        kind: f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for kind, text in raw.items()
    }
    (policy,) = [one["content"] for _, one in page.tags if "http-equiv" in one]
    assert policy == (
        f"default-src 'none'; script-src {allowed['module']}; style-src {allowed['style']}; "
        "base-uri 'none'; form-action 'none'"
    )
    script = raw["module"]
    assert re.findall(r"(?:inner|outer)HTML|insertAdjacent|document\.write|\beval\b", script) == []
    for text in (script, raw["style"]):
        assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(", text) == []
    for _, attributes in page.tags:
        assert attributes.get("href", "#").startswith("#")  # type: ignore[union-attr]
        assert [one for one in attributes if one == "src" or one.startswith("on")] == []


def test_names_are_data_and_never_tags() -> None:
    playback = played(hostile())
    plain, page = parsed(played(HANDOVER)), parsed(playback)
    data = dict(page.raw)["application/json"]
    assert "<" not in data
    assert data.isascii()
    assert json.loads(data) == playback
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in plain.tags]


def test_a_hand_over_is_seen_stage_by_stage() -> None:
    playback = played(HANDOVER)
    seen: dict[str, list[tuple[str, str]]] = {"S1": [], "S2": []}
    for moment in playback["moments"]:
        for member, facts in moment["members"].items():
            tasks = {} if facts is None else {one["task"]: one for one in facts["tasks"]}
            found = (tasks["T1"]["role"], tasks["T1"]["stage"]) if "T1" in tasks else ("", "")
            if found not in seen[member][-1:]:
                seen[member].append(found)
    released = ("released", "released")
    assert seen["S1"] == [("active", "running"), ("active", "stopped"), released, ("", "")]
    learner, pending = ("learner", "copied"), ("pending", "waiting")
    opened = [("active", "opening"), ("active", "running")]
    assert seen["S2"] == [("", ""), learner, pending, *opened]
    texts = [one["text"] for moment in playback["moments"] for one in moment["requests"]]
    assert {"joining", "a learner is ready", "T1 is handed over to S2"} <= {*texts}
    lags = {
        task["lag"]
        for moment in playback["moments"]
        for facts in moment["members"].values()
        for task in (facts or {"tasks": []})["tasks"]
        if "lag" in task
    }
    assert {0, 100_000} <= lags


def test_each_round_and_each_broken_rule_has_its_moment() -> None:
    playback = played(HANDOVER)
    result, moments = playback["result"], playback["moments"]
    assert result == simulate(parse_scenario(HANDOVER)).result
    assert [one for m in moments for one in m["rounds"]] == [*range(len(result["rounds"]))]
    assert [one["rule"] for one in result["violations"]] == ["expect.rebalances", "expect.kept"]
    assert moments[-1]["violations"] == [0, 1]
    assert sorted({moment["step"] for moment in moments}) == [-1, 0, 1, 2, 3]
    times = [moment["now_ms"] for moment in moments]
    assert times == sorted(times)


def test_moments_and_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moments_file, "MOST_MOMENTS", 4)
    monkeypatch.setattr(moments_file, "MOST_REQUESTS", 2)
    whole = played(HANDOVER)
    assert len(whole["moments"]) == 4
    assert whole["left_out"] > 0
    assert max(len(one["requests"]) for one in whole["moments"]) == 2
    assert sum(one["requests_left_out"] for one in whole["moments"]) > 0


def test_steps_are_told_with_the_keys_of_the_file() -> None:
    step = {
        "mode": {"S1": "eager"},
        "restart": ["S1"],
        "lag": {"S1": {"T1": 5}},
        "ready": {"S1": ["T2"]},
        "coordinator_restart": True,
        "add_tasks": {"T3": {}},
        "lose": [{"from": "S1", "request": "SyncGroup", "nth": 2, "answer": True}],
        "drain_percent": 50,
        "timeout_ms": 7,
        "advance_ms": 3,
        "settle": {"max_rounds": 9},
    }
    (read,) = parse_scenario({**HANDOVER, "steps": [step], "expect": {}}).steps
    assert step_texts(read) == [
        "mode S1: eager",
        "restart S1",
        "lag S1: T1: 5",
        "ready S1: T2",
        "coordinator_restart",
        "add_tasks T3",
        "lose the answer to SyncGroup 2 from S1",
        "drain_percent 50 within 7 ms",
        "advance_ms 3",
        "settle within 9 rounds",
    ]
