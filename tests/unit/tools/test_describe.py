"""``streamlet describe`` prints a topology without a broker."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streamlet.tools.main import build

MODULE = "described_by_test"


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    (tmp_path / f"{MODULE}.py").write_text(
        "from streamlet.app import App\n"
        "app = App('words')\n"
        "app.stream('in', key=str, value=str).group_by_key().count(store='n')\n"
    )


def test_the_text_form_is_the_default() -> None:
    result = CliRunner().invoke(build(), ["describe", f"{MODULE}:app"])
    assert result.exit_code == 0
    assert result.stdout.startswith("Topologies:\n   Sub-topology: 0\n    Source: KSTREAM-SOURCE-")
    assert "Processor: KSTREAM-AGGREGATE-0000000001 (stores: [n])\n" in result.stdout


def test_json_is_one_document_and_mermaid_a_flowchart() -> None:
    with Path(f"{MODULE}.py").open("a") as program:
        program.write("print('loaded')\n")  # which is no part of that document
    answer = CliRunner().invoke(build(), ["describe", f"{MODULE}:app", "--format", "json"])
    assert json.loads(answer.stdout)["subtopologies"][0]["stores"][0]["name"] == "n"
    assert json.loads(answer.stdout)["guarantee"]["outputs"] == "may be there again after a crash"
    exact = printed("--json", "--set", "processing.guarantee=exactly_once_v2")
    assert json.loads(exact)["guarantee"]["processing.guarantee"] == "exactly_once"
    assert json.loads(exact)["guarantee"]["to_change"] == "processing.guarantee=at_least_once"
    drawn = CliRunner().invoke(build(), ["describe", f"{MODULE}:app", "--mermaid"])
    assert drawn.stdout.startswith("flowchart TD\n")


def printed(*options: str) -> str:
    result = CliRunner().invoke(build(), ["describe", f"{MODULE}:app", *options])
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_a_format_is_chosen_by_name() -> None:
    assert printed("--format", "text") == printed()
    assert printed("--format", "mermaid") == printed("--mermaid")
    assert json.loads(printed("--format", "json")) == json.loads(printed("--json"))


def test_java_names_the_extractor_of_topics() -> None:
    Path(f"{MODULE}.py").write_text(
        "from streamlet.app import App\n"
        "app = App('words')\n"
        "app.stream('in', key=str, value=str).to(lambda key, value: value)\n"
    )
    assert "Sink: KSTREAM-SINK-0000000001 (topic: one for each record)\n" in printed()
    sys.modules.pop(MODULE)
    java = printed("--format", "java")
    assert "Sink: KSTREAM-SINK-0000000001 (extractor class: streamlet)\n" in java


def test_settings_of_the_command_line_optimize_what_is_shown() -> None:
    Path(f"{MODULE}.py").write_text(
        "from streamlet.app import App\n"
        "app = App('words')\n"
        "keyed = app.stream('in', key=str, value=str).select_key(lambda k, v: v, key=str)\n"
        "keyed.group_by_key().count(store='n')\n"
        "keyed.group_by_key().count(store='m')\n"
    )
    given = ("--set", "topology.optimization=merge.repartition.topics")
    shown = "Optimized:\n  n-repartition stands for m-repartition (merge.repartition.topics)\n"
    assert printed(*given).endswith(shown)
    assert "Optimized" not in printed(*given, "--format", "java")
    assert "m-repartition" not in printed(*given, "--format", "java")
    assert "m-repartition" in printed()


@pytest.mark.parametrize(
    "options", [("--format", "xml"), ("--mermaid", "--format", "java")], ids=["unknown", "two"]
)
def test_a_format_that_cannot_be_is_refused(options: tuple[str, ...]) -> None:
    result = CliRunner().invoke(build(), ["describe", f"{MODULE}:app", *options])
    assert result.exit_code == 2
    assert "--format" in result.stderr


def test_an_application_that_is_not_there_ends_with_its_exit_code() -> None:
    result = CliRunner().invoke(build(), ["describe", f"{MODULE}:other"])
    assert result.exit_code == 3
    assert "it has described_by_test:app" in result.stderr
