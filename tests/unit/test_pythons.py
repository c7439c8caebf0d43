"""What runs on other Pythons take: interpreters, played by small scripts, and cases of tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pythons.__main__ import REPEATING, ROOT
from tests.pythons.interpreters import Interpreter, found
from tests.shares import share_of_cases


def interpreter(path: Path, says: str, code: int = 0) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
    path.chmod(0o755)
    return str(path)


def test_pythons_on_path_come_before_those_of_pyenv_and_broken_ones_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path, pyenv = tmp_path / "bin", tmp_path / "pyenv" / "versions"
    monkeypatch.setenv("PATH", f"{on_path}:/usr/bin:/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    old = interpreter(on_path / "python3.11", "3.11.2")
    interpreter(on_path / "python3.12", "", code=1)  # a shim of pyenv's without a version
    interpreter(on_path / "python3.13", "3.13.1", code=1)  # Debian's without ensurepip
    interpreter(on_path / "python3.14", "", code=1)
    middle = interpreter(pyenv / "3.12.4" / "bin" / "python3", "3.12.4")
    assert found() == [Interpreter("3.11.2", old), Interpreter("3.12.4", middle)]
    assert [one.minor for one in found()] == [11, 12]


def test_named_pythons_are_taken_alone_and_have_to_run(tmp_path: Path) -> None:
    one = interpreter(tmp_path / "one", "3.15.0")
    assert found([one]) == [Interpreter("3.15.0", one)]
    with pytest.raises(LookupError, match="broken: no Python that runs"):
        found([one, interpreter(tmp_path / "broken", "3.12.0", code=1)])
    with pytest.raises(LookupError, match="no-such-python"):
        found(["no-such-python"])


def test_of_the_cases_of_each_test_a_share_is_kept_and_at_least_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = ["a.py::test_one", *(f"a.py::test[{n}]" for n in range(8)), "b.py::test[x[0]]"]
    monkeypatch.setattr("tests.shares.SHARE", 1.0)
    assert share_of_cases(cases) == {*cases}
    assert [name for name in REPEATING if not (ROOT / name).is_file()] == []
    monkeypatch.setattr("tests.shares.SHARE", 0.25)
    assert share_of_cases(cases) == {cases[0], "a.py::test[0]", "a.py::test[4]", cases[-1]}
