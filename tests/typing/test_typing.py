"""The public interface is typed: what is right passes mypy, and what is wrong does not.

With the settings of ``make lint``, so that what that has found of the package is not sought again.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

HERE = Path(__file__).parent


def mypy(path: Path) -> str:
    settings = HERE.parents[1] / "pyproject.toml"
    out, err, _ = api.run(["--no-error-summary", "--config-file", str(settings), str(path)])
    assert err == ""
    return out


@pytest.mark.parametrize("file", ["api.py", "processors.py"])
def test_types_survive_a_topology(file: str) -> None:
    assert mypy(HERE / file) == ""


def test_mistakes_are_found_where_they_are() -> None:
    path = HERE / "wrong.py"
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    expected = {number for number, line in lines if line.endswith("# error")}
    found = {int(line.split(":")[1]) for line in mypy(path).splitlines() if ": error:" in line}
    assert found == expected
