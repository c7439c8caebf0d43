"""The hand-over benchmark runs, checks its outputs and prints what is promised."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

ROOT = Path(__file__).resolve().parents[3]


def test_handovers_are_measured_and_nothing_is_lost_or_doubled(bootstrap_servers: str) -> None:
    command = [sys.executable, "-m", "bench", "handover", "--json", "--guarantee", "exactly_once"]
    done = subprocess.run(
        [*command, "--handovers", "2", "--rate", "1000", "--keys", "4000"],
        cwd=ROOT,
        env={**os.environ, "BENCH_BOOTSTRAP": bootstrap_servers},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["right"], found["surrender"], found["eager"]) == (True, None, None)
    release = found["release"]
    assert release["handovers"] >= 2
    assert (release["lost"], release["duplicates"]) == (0, 0)
    for times in (release, release["reader"]):
        assert set(times["gap_ms"]) == set(times["others_gap_ms"]) == {"p50", "p99", "max"}
    assert release["ready_to_active_s"] > 0
