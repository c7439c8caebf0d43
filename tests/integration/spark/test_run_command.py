"""``streamlet run --engine spark`` as a script meets it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.chaos.support import wait_for
from tests.integration.spark import words

pytestmark = [pytest.mark.spark, pytest.mark.integration]

ROOT = Path(__file__).resolve().parents[3]
SECRET = "not-for-every-eye"
LINES = ["the quick fox", "the lazy dog; the fox"] * 50


def test_ctrl_c_twice_ends_now_and_the_next_run_goes_on_without_a_gap(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    """The first run's batch would never end; what it had done counts for nothing.

    The next one loses its workers in the same batch, goes on, and finishes it at SIGTERM. Its
    answer is one document, and neither what is said nor Spark's event log has a secret.
    """
    pytest.importorskip("pyspark")
    words.create_topics(bootstrap_servers)
    words.produce(bootstrap_servers, LINES)
    command = [sys.executable, "-m", "streamlet", "run", "tests.integration.spark.gated:app"]
    command += ["--engine", "spark", "--checkpoint", str(tmp_path / "checkpoint")]
    command += ["--bootstrap-servers", bootstrap_servers]
    try:
        ended_by_ctrl_c(command, tmp_path / "first-gate")
        assert words.batches(tmp_path / "checkpoint") == 0
        answer, said, logged = ended_by_sigterm(command, tmp_path)
        words.check_exact(words.consume(bootstrap_servers), LINES)
    finally:
        words.delete_topics(bootstrap_servers)
    check_answer(answer)
    batches = [one.partition(":")[0] for one in said if one.startswith("batch ")]
    assert batches == ["batch 0"]
    assert any("SparkListenerSQLExecutionStart" in one for one in logged)
    assert not any(SECRET in one for one in [*logged, *said])


def ended_by_ctrl_c(command: Sequence[str], gate: Path) -> None:
    """Run until a batch waits at the gate, and press Ctrl-C twice."""
    with running(command, os.environ | {"GATE": str(gate)}) as (process, said):
        waits = gate.with_suffix(".waiting")
        wait_for(lambda: waits.exists() or process.poll() is not None, "a batch waits", 300)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
        wait_for(
            lambda: "Ctrl-C again stops now" in "".join(said) or process.poll() is not None,
            "Ctrl-C is answered",
            120,
        )
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(300) == 130, "".join(said)
    gate.touch()


def ended_by_sigterm(
    command: Sequence[str], tmp_path: Path
) -> tuple[dict[str, Any], list[str], list[str]]:
    """Run, kill the workers of the batch that waits, and end the run when it is through.

    The answer, what was said, and Spark's event log.
    """
    events, gate = tmp_path / "events", tmp_path / "gate"
    events.mkdir()
    command = [*command, "--json", "--set", f"sasl.password={SECRET}"]
    log = {"enabled": "true", "dir": str(events), "compress": "false"}
    command += [
        word for key, value in log.items() for word in ("--conf", f"spark.eventLog.{key}={value}")
    ]
    with running(command, os.environ | {"GATE": str(gate)}) as (process, said):

        def wait_until(true: Callable[[], bool]) -> None:
            wait_for(lambda: true() or process.poll() is not None, lambda: "".join(said), 300)

        wait_until(gate.with_suffix(".waiting").exists)
        for one in spark_workers(process.pid):
            one.kill()
        wait_until(lambda: "restart 1 of 5 in 1 s" in "".join(said))
        gate.touch()
        wait_until(lambda: "batch 0: " in "".join(said))
        os.killpg(process.pid, signal.SIGTERM)  # as a supervisor does: to all of them
        assert process.wait(300) == 0, "".join(said)
        assert process.stdout is not None
        answer = dict(json.loads(process.stdout.read()))
    return answer, said, [file.read_text() for file in events.rglob("*") if file.is_file()]


def check_answer(answer: Mapping[str, Any]) -> None:
    """Each record was processed once by a task that reads it, each word by one that counts it."""
    assert (answer["engine"], answer["error"]) == ("spark", None)
    assert (answer["records"], answer["lag"], answer["restarts"]) == (len(LINES), 0, 1)
    read = [task for task in answer["tasks"] if task["state_bytes"] is None]
    kept = [task for task in answer["tasks"] if task["state_bytes"]]
    word_count = sum(words.counted(LINES).values())
    assert [task["task"] for task in (*read, *kept)] == [task["task"] for task in answer["tasks"]]
    assert [sum(task["records"] for task in some) for some in (read, kept)] == [
        len(LINES),
        word_count,
    ]
    assert [sum(task["written"] for task in some) for some in (read, kept)] == [word_count] * 2
    assert all(task["seconds"] > 0 for task in kept)


@contextmanager
def running(
    command: Sequence[str], environment: Mapping[str, str]
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A command in a process group of its own, and what it says as it comes."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    said: list[str] = []
    assert process.stderr is not None
    assert process.stdout is not None
    listening = threading.Thread(target=said.extend, args=(process.stderr,))
    listening.start()
    try:
        yield process, said
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(300)
        listening.join(30)
        process.stderr.close()
        process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_start_of_spark_and_its_jvm(tmp_path: Path, number: int) -> None:
    """Every process that Spark starts inherits the output: at its end all of them have ended."""
    pytest.importorskip("pyspark")
    command = [sys.executable, "-m", "streamlet", "run", "examples.wordcount:app"]
    command += ["--engine", "spark", "--checkpoint", str(tmp_path / "checkpoint")]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    assert process.stderr is not None
    first = process.stderr.readline()
    os.killpg(process.pid, number)
    out, said = process.communicate()
    assert (process.returncode, first) == (0, "starting Spark on local[*]\n"), said
    assert (out, said) == ("wordcount stopped: 0 records in 0 batches\n", "")


def spark_workers(driver: int) -> list[psutil.Process]:
    """The Python processes that run tasks, or plan a batch: each the child of a daemon."""
    below = [one for one in psutil.Process(driver).children(recursive=True) if is_python(one)]
    daemons = {one.pid for one in below}
    return [one for one in below if one.ppid() in daemons]


def is_python(process: psutil.Process) -> bool:
    return process.name().startswith("python")
