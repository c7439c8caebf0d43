"""``streamlet new`` writes a project that is right, or says why not."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from typer.testing import CliRunner

from streamlet.tools.main import build
from streamlet.tools.new import requirement

ROOT = Path(__file__).resolve().parents[3]


def new(*words: str, exit_code: int = 0) -> str:
    done = CliRunner().invoke(build(), ["new", *words])
    assert done.exit_code == exit_code, done.output
    return done.output


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("projects") / "page-views"
    new("page-views", "--folder", str(folder))
    return folder


def options(words: list[str]) -> set[str]:
    """The options of a command line ``streamlet …``; all are ones that its command has."""
    command: Any = typer.main.get_command(build())
    rest = words[1:]
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    given = {word.split("=", 1)[0] for word in rest if word.startswith("--")}
    assert given <= {name for one in command.params for name in one.opts}
    return given


def test_the_files_are_named_after_the_application(project: Path) -> None:
    again = project.parent / "again"
    answer = json.loads(new("page-views", "--folder", str(again), "--json").splitlines()[0])
    assert answer["folder"] == str(again)
    assert set(answer["files"]) == {path.name for path in project.iterdir()}
    assert {"page_views.py", "test_page_views.py", "Dockerfile", ".gitignore"} <= {*answer["files"]}
    for path in project.iterdir():
        assert "{{" not in path.read_text("utf-8"), path


def test_the_python_of_a_project_is_python(project: Path) -> None:
    for path in project.glob("*.py"):
        ast.parse(path.read_text("utf-8"))
    assert '"partitioner": "murmur2_random"' in (project / "produce.py").read_text("utf-8")


def test_the_kubernetes_example_is_what_a_new_project_has(tmp_path: Path) -> None:
    new("words", "--folder", str(tmp_path))
    example = ROOT / "examples" / "kubernetes" / "words.yaml"
    assert (tmp_path / "kubernetes.yaml").read_text("utf-8") == example.read_text("utf-8")


def test_every_command_line_of_a_project_exists(project: Path) -> None:
    lines = [
        shlex.split(line.replace("$(BIN)/", "").replace("$(", "").replace(")", ""))
        for line in (project / "Makefile").read_text("utf-8").splitlines()
        if "$(BIN)/streamlet" in line
    ]
    image = (project / "Dockerfile").read_text("utf-8")
    lines += [json.loads(one) for one in re.findall(r'\["streamlet".*\]', image)]
    services = yaml.safe_load((project / "compose.yaml").read_text("utf-8"))["services"]
    lines += [one["command"] for one in services.values() if "command" in one]
    assert len(lines) == 7
    for line in lines:
        options(line)


@pytest.mark.parametrize("name", ["Views", "2views", "a--b", "a_b", "-a", "a" * 41, "größe", "a/b"])
def test_a_name_that_cannot_be_a_module_and_a_pod_is_refused(name: str, tmp_path: Path) -> None:
    answer = new("--folder", str(tmp_path / "new"), "--", name, exit_code=2)
    assert not (tmp_path / "new").exists(), answer


@pytest.mark.parametrize("name", ["json", "pytest", "produce", "class", "true", "conftest"])
def test_a_name_that_python_has_already_is_refused(name: str, tmp_path: Path) -> None:
    new(name, "--folder", str(tmp_path / "new"), exit_code=2)
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_looked_at_is_named(tmp_path: Path) -> None:
    answer = new("views", "--folder", str(tmp_path / ("x" * 300)), exit_code=2)
    assert "File name too long" in answer
    assert "should not happen" not in answer


def test_a_folder_with_files_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "Makefile"
    mine.write_text("mine")
    new("views", "--folder", str(tmp_path), exit_code=2)
    new("views", "--folder", str(mine), exit_code=2)
    assert [path.name for path in tmp_path.iterdir()] == ["Makefile"]
    assert mine.read_text() == "mine"


@pytest.mark.parametrize(
    ("direct_url", "expected"),
    [
        (None, r"streamlet>=\d.*"),
        (
            '{"url": "https://h/s.git", "vcs_info": {"vcs": "git", "commit_id": "1f"}}',
            r"streamlet @ git\+https://h/s\.git@1f",
        ),
        ('{"url": "file:///home/me/streamlet", "dir_info": {"editable": true}}', r".*/streamlet"),
    ],
)
def test_the_requirement_is_where_this_streamlet_came_from(
    direct_url: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Installed:
        version = "0.1.0"

        def read_text(self, name: str) -> str | None:
            return direct_url if name == "direct_url.json" else None

    monkeypatch.setattr("streamlet.tools.new.distribution", lambda _: Installed())
    assert re.fullmatch(expected, requirement())


@pytest.mark.parametrize(
    ("named", "is_said"), [("streamlet @ file:///home/me/streamlet", True), ("streamlet>=1", False)]
)
def test_a_requirement_that_no_image_can_read_is_said(
    named: str, is_said: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamlet.tools.new.requirement", lambda: named)
    said = new("page-views", "--folder", str(tmp_path))
    assert (f"a folder of this machine, {named}: an image cannot read it" in said) == is_said
