"""``streamlet run`` takes the options of the engine that runs, and says what is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streamlet.spark.progress import BatchProgress
from streamlet.spark.query import trigger_options
from streamlet.tools.main import build
from streamlet.tools.run_spark import line


@pytest.mark.parametrize(
    ("engine", "option", "other"),
    [
        ("spark", "--processes=2", "native"),
        ("spark", "--capacity=2", "native"),
        ("native", "--trigger=1s", "spark"),
        ("native", "--checkpoint=c", "spark"),
        ("native", "--max-records-per-batch=5", "spark"),
        ("native", "--master=local", "spark"),
        ("native", "--py-files=a.py", "spark"),
    ],
)
def test_an_option_of_the_other_engine_is_refused(engine: str, option: str, other: str) -> None:
    words = ["run", "examples.wordcount:app", "--engine", engine, option]
    result = CliRunner().invoke(build(), words)
    assert result.exit_code == 2
    name = option.partition("=")[0]
    said = f"{name} means nothing to --engine {engine}; it is one of --engine {other}"
    assert said in result.stderr


@pytest.mark.parametrize("trigger", ["soon", "5 parsecs", "1", "-1s"])
def test_a_trigger_that_is_no_time_is_refused_before_spark_starts(trigger: str) -> None:
    words = ["run", "examples.wordcount:app", "--engine", "spark", "--trigger", trigger]
    result = CliRunner().invoke(build(), words)
    assert result.exit_code == 2
    assert f"trigger '{trigger}': expected a time as 1s or 500ms" in result.stderr
    assert "starting" not in result.stderr


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("500ms", "500 milliseconds"),
        ("1s", "1 seconds"),
        ("10 seconds", "10 seconds"),
        ("1 minute", "1 minute"),
        ("5min", "5 minutes"),
        ("1 day", "1 day"),
        ("2h", "2 hours"),
    ],
)
def test_a_time_between_batches_is_said_in_sparks_words(text: str, time: str) -> None:
    assert trigger_options(text) == {"processingTime": time}


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--capacity", "-1.0", "= '-1.0': expected"),
        ("--tag", "zone=", "= 'zone=': expected"),
        ("--instance-id", "a b", "= 'a b': expected"),
        ("--instance-id", "", "is empty: give a value"),
    ],
)
def test_a_wrong_value_is_reported_by_the_option_that_was_typed(
    option: str, value: str, says: str
) -> None:
    """Not by ``--set`` and the setting that the option stands for."""
    words = ["run", "examples.wordcount:app", "--bootstrap-servers", "127.0.0.1:1"]
    result = CliRunner().invoke(build(), [*words, option, value])
    assert result.exit_code == 2
    assert f"error: {option} {says}" in result.stderr
    assert "--set" not in result.stderr


@pytest.mark.parametrize("processes", ["0", "1"])
def test_a_state_folder_that_cannot_be_made_is_named(tmp_path: Path, processes: str) -> None:
    """Before a broker is asked for: there is none."""
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "state"
    words = ["run", "examples.wordcount:app", "--state-dir", str(folder), "--processes", processes]
    result = CliRunner().invoke(build(), [*words, "--bootstrap-servers", "127.0.0.1:1"])
    assert result.exit_code == 2
    said = f"cannot make the folder {folder}/wordcount: Not a directory ({tmp_path}/file is a file)"
    assert said in result.stderr
    assert "--state-dir, or by the setting state.dir" in result.stderr


def test_without_pyspark_the_extra_is_named() -> None:
    """In a process of its own, where importing PySpark fails."""
    code = """
import sys
sys.modules.update(dict.fromkeys(["pyspark", "py4j", "pyarrow", "pandas", "numpy"]))
sys.argv = ["streamlet", "run", "examples.wordcount:app", "--engine", "spark"]
from streamlet.tools.main import main
main()
"""
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "pip install 'streamlet[spark]'" in ended.stderr


def test_a_batch_is_a_line() -> None:
    one = BatchProgress(batch=3, records=12_000, took_ms=500, lag=1_200, state_bytes=3 << 19)
    assert line(one) == "batch 3: 12,000 records in 0.5 s (24,000/s), lag 1,200, state 1.5 MiB"
