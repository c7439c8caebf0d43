"""A new project's own commands: first results, and its tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamlet.broker.port import PortReservation

pytestmark = pytest.mark.integration

PATIENCE_S = 300


@pytest.fixture
def port() -> Iterator[int]:
    """A port that nothing else is given meanwhile; the project's broker may have it."""
    with PortReservation() as reserved:
        yield reserved.port


def test_a_new_project_shows_results_and_its_tests_pass(tmp_path: Path, port: int) -> None:
    env = {
        **os.environ,
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "TMPDIR": str(tmp_path),
        "KAFKA_OPTS": "-XX:TieredStopAtLevel=1",  # brokers that live for seconds
    }

    def run(*words: str) -> str:
        done = subprocess.run(
            words, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def make(target: str) -> str:
        # The environment of this test in place of the project's own, which pip would fill.
        return run("make", target, f"PORT={port}", f"BIN={Path(sys.executable).parent}")

    folder = tmp_path
    run(sys.executable, "-m", "streamlet", "new", "page-views")
    folder = tmp_path / "page-views"
    made = folder / ".venv" / ".setup"
    made.parent.mkdir()
    made.touch()
    try:
        shown = make("demo").splitlines()
        assert {"to 1", "to 2", "be 2", "question 1"} <= {*shown}
        # Of this broker alone: over another one it would be state without its positions.
        assert (folder / "state" / str(port) / "demo").is_dir()
    finally:
        make("stop")
    assert "2 passed" in make("test")
