"""The public interface is typed: what is right passes mypy, and what is wrong does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

HERE = Path(__file__).parent


def mypy(path: Path, cache: Path) -> str:
    options = ["--strict", "--no-error-summary", "--follow-imports=silent"]
    out, err, _ = api.run([*options, "--cache-dir", str(cache), str(path)])
    assert err == ""
    return out


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mypy")


@pytest.mark.parametrize("file", ["api.py", "processors.py"])
def test_types_survive_a_topology(file: str, cache: Path) -> None:
    assert mypy(HERE / file, cache) == ""


def test_mistakes_are_found_where_they_are(cache: Path) -> None:
    path = HERE / "wrong.py"
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    expected = {number for number, line in lines if line.endswith("# error")}
    found = {
        int(line.split(":")[1]) for line in mypy(path, cache).splitlines() if ": error:" in line
    }
    assert found == expected
