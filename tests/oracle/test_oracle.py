"""Each recorded run of Kafka Streams comes out of streamlet as it was recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.__main__ import main
from tests.oracle.compare import first_difference
from tests.oracle.page import page
from tests.oracle.replay import replay
from tests.oracle.tables import DIFFERENT, MISSING, TOPOLOGIES

CASES = Path(__file__).parent / "cases"
ROOT = Path(__file__).resolve().parents[2]


def case(name: str) -> dict[str, Any]:
    return dict(json.loads((CASES / f"{name}.json").read_text("utf-8")))


@pytest.mark.parametrize("name", sorted(TOPOLOGIES))
def test_runs_are_equal_unless_the_table_says_why_not(name: str) -> None:
    """One that is equal must not be in the table of those that differ."""
    recorded = case(name)
    actual = replay(recorded, TOPOLOGIES[name])
    pairs = zip(recorded["runs"], actual["runs"], strict=True)
    found = {run["seed"]: why for run, other in pairs if (why := first_difference(run, other))}
    if name in DIFFERENT:
        assert found, f"{name} is equal now: take it out of DIFFERENT in tests/oracle/tables.py"
    else:
        assert not found, "\n".join(f"seed {seed}: {why}" for seed, why in found.items())


@pytest.mark.parametrize("name", ["self-join", "stream-table-rekeyed"])
def test_optimized_topologies_give_the_recorded_runs(name: str) -> None:
    """All whose topology is another one then; Kafka Streams' own optimized runs are the same."""
    recorded = case(name)
    actual = replay(recorded, TOPOLOGIES[name], "all")
    for run, other in zip(recorded["runs"], actual["runs"], strict=True):
        assert first_difference(run, other) is None


def test_every_recorded_topology_is_written_or_listed_as_missing() -> None:
    names = {path.stem for path in CASES.glob("*.json")}
    assert TOPOLOGIES.keys() | MISSING.keys() == names
    assert TOPOLOGIES.keys() & MISSING.keys() == set()
    assert DIFFERENT.keys() <= TOPOLOGIES.keys()


def test_no_topology_that_could_be_written_is_listed_as_missing() -> None:
    there = {need.name for need in MISSING.values() if need.is_there()}
    assert [name for name, need in MISSING.items() if need.name in there] == []


def test_the_page_says_what_the_tables_say() -> None:
    """Else run `python -m tests.oracle.page > docs/kafka-streams.md`."""
    assert (ROOT / "docs" / "kafka-streams.md").read_text("utf-8") == page()


def test_the_command_writes_what_came_and_names_what_differs_or_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cases").mkdir()
    missing = {**case("filter"), "topology": "no-such-topology"}
    for given in (case("filter"), missing):
        path = tmp_path / "cases" / f"{given['topology']}.json"
        path.write_text(json.dumps(given), "utf-8")
    arguments = [str(tmp_path / "cases"), "--out", str(tmp_path / "out")]
    assert main(arguments) == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["filter.json"]
    written = json.loads((tmp_path / "out" / "filter.json").read_text("utf-8"))
    assert written["runs"][0]["outputs"] == case("filter")["runs"][0]["outputs"]
    assert "1 of 2 topologies are equal" in (said := capsys.readouterr().out)
    assert "cannot be built: no-such-topology" in said

    changed = case("filter")
    changed["runs"][0]["outputs"][0]["timestamp"] += 1
    (tmp_path / "cases" / "filter.json").write_text(json.dumps(changed), "utf-8")
    assert main(arguments) == 1
    assert "filter seed 0: step" in (said := capsys.readouterr().out)
    assert "1 differ: filter" in said


def test_a_comparison_finds_each_kind_of_difference() -> None:
    run = case("group-by-key-count")["runs"][0]
    wrong: list[dict[str, Any]] = [json.loads(json.dumps(run)) for _ in range(6)]
    wrong[0]["outputs"][0]["timestamp"] += 1
    wrong[1]["outputs"][0]["headers"] = [["h", "x"]]
    wrong[2]["outputs"].pop()
    wrong[3]["stores"]["counts"][0]["timestamp"] += 1
    wrong[4]["stores"].clear()
    wrong[5]["error"] = "ProcessingError: a record failed"
    found = [first_difference(run, one) for one in wrong]
    assert [(why or "").split()[0] for why in found] == [
        *("step",) * 3,
        *("store",) * 2,
        "ProcessingError:",
    ]
    assert first_difference(run, run) is None
