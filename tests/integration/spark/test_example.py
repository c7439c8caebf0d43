"""The example is run as its reader would run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.spark import words

pytestmark = [pytest.mark.spark, pytest.mark.integration]

ROOT = Path(__file__).resolve().parents[3]
LINES = ["the quick fox", "the lazy dog; the fox"] * 5


def test_the_word_count_example_counts_and_says_nothing_else(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    words.create_topics(bootstrap_servers)
    try:
        words.produce(bootstrap_servers, LINES)
        place = [str(tmp_path), bootstrap_servers, "available-now"]
        ended = subprocess.run(
            [sys.executable, "-m", "examples.wordcount_spark", *place],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
            # Of a pandas that is newer than the extra asks for, PySpark speaks.
            env=os.environ | {"PYTHONWARNINGS": "ignore::FutureWarning"},
        )
        assert ended.returncode == 0, ended.stderr
        assert dict(words.consume(bootstrap_servers)) == words.counted(LINES)
        assert ended.stdout == ""
        # Of what is printed only the fetching of jars is ours, and nothing is Spark's.
        assert [line for line in ended.stderr.splitlines() if "fetch" not in line] == []
    finally:
        words.delete_topics(bootstrap_servers)


def test_the_flights_demo_ends_with_what_pandas_has() -> None:
    pytest.importorskip("pandas")
    options = ["--flights", "2000", "--seconds", "5"]
    ended = subprocess.run(
        [sys.executable, "-m", "examples.flights.demo_spark", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[-1] == "matches pandas"
    told = [line for line in lines if line.startswith("batch")]
    assert told
    assert "lag       0" in told[-1]
