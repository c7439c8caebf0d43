"""What type checkers say: of programs against the interface, and of those in the documents.

With the settings of ``make lint``, so that what that has found of the package is not sought again.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mypy import api

from tests.typing.printed import ROOT, write_modules

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs of the documents."""
    folder = tmp_path_factory.mktemp("printed")
    assert len(write_modules(folder)) > 100
    return folder


@pytest.fixture(scope="module")
def errors(printed: Path) -> list[tuple[str, int, str]]:
    """The file, the line and the text of all that mypy refuses, in one run."""
    files = [*(HERE / name for name in ("api.py", "processors.py", "wrong.py"))]
    options = ["--no-error-summary", "--config-file", str(ROOT / "pyproject.toml")]
    out, err, _ = api.run([*options, *map(str, [*files, *sorted(printed.glob("*.py"))])])
    assert err == ""
    found = re.findall(r"^(.+?):(\d+): error: (.*)$", out, re.M)
    return [(Path(file).name, int(line), text) for file, line, text in found]


def test_what_is_right_passes(errors: list[tuple[str, int, str]]) -> None:
    """Types survive a topology; a line of a document's program is that of its page."""
    assert [one for one in errors if one[0] != "wrong.py"] == []


def test_mistakes_are_found_where_they_are(errors: list[tuple[str, int, str]]) -> None:
    lines = enumerate((HERE / "wrong.py").read_text("utf-8").splitlines(), 1)
    expected = {number for number, line in lines if line.endswith("# error")}
    assert {line for file, line, _ in errors if file == "wrong.py"} == expected


def test_pyright_has_no_word_against_the_programs_of_the_documents(printed: Path) -> None:
    """By ``basedpyright``, which is pyright with a node of its own, by pyright's rules."""
    checker = shutil.which("basedpyright", path=str(Path(sys.executable).parent))
    if checker is None:
        pytest.skip("no basedpyright here: pip install basedpyright")
    rules = {"typeCheckingMode": "standard", "pythonVersion": "3.11", "extraPaths": [str(ROOT)]}
    (printed / "pyrightconfig.json").write_text(json.dumps(rules))
    done = subprocess.run(
        [checker, "--outputjson", "--pythonpath", sys.executable, "--project", str(printed)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] > 100
    said = [
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1, one["message"])
        for one in found["generalDiagnostics"]
        if one["severity"] == "error"
    ]
    assert said == []
